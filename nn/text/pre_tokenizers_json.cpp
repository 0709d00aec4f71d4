// Reads the pre_tokenizer of a tokenizer.json.
#include "tokenizer_json_parts.h"

#include "byte_level_bpe.h"

#include "../../autograd/core/utf8.h"

#include <map>
#include <optional>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

using Kind = json::value_t;

// Punctuation as the package counts it: Unicode's P and what else ASCII has.
constexpr const char* kPunctuation = R"([\p{P}$+<=>^`|~])";

class PreTokenizerReader {
 public:
  PreTokenizerReader(const JsonFields& fields, Tokenizer& made) : fields_(fields), made_(made) {}

  void read(const json& step) {
    const std::string type = fields_.text(step, "type");
    if (type == "Sequence") {
      for (const json& inner : fields_.part(step, "pretokenizers", Kind::array)) read(inner);
    } else if (type == "ByteLevel") {
      read_byte_level(step);
    } else if (type == "Metaspace") {
      read_metaspace(step);
    } else if (type == "Split") {
      add(SplitText{fields_.pattern(fields_.part(step, "pattern", Kind::object)),
                    matches_of(fields_.text(step, "behavior")), fields_.flag_or(step, "invert", false)});
    } else if (type == "Digits") {
      add_split(R"(\p{N})", fields_.flag(step, "individual_digits") ? Matches::isolated : Matches::contiguous);
    } else if (type == "Punctuation") {
      add_split(kPunctuation, matches_of(fields_.text_or(step, "behavior", "Isolated")));
    } else {
      read_words(step, type);
    }
  }

  // Words as bytes in the alphabet, if a step behind sees them.
  bool finish() {
    if (!byte_level_) return false;
    const bool is_last = *byte_level_ + 1 == made_.steps.size();
    std::get<ByteLevel>(made_.steps[*byte_level_]).is_written = !is_last;
    made_.is_of_alphabet = made_.is_of_alphabet || !is_last;
    return true;
  }

 private:
  void add(PreTokenizer step) { made_.add_step(std::move(step), fields_.name); }

  void add_split(const char* pattern, Matches matches, bool is_inverted = false) {
    add(SplitText{Pattern(pattern, fields_.name), matches, is_inverted});
  }

  Matches matches_of(const std::string& behavior) const {
    static const std::map<std::string, Matches> kMatches{{"Isolated", Matches::isolated},
                                                         {"Removed", Matches::removed},
                                                         {"MergedWithPrevious", Matches::merged_with_previous},
                                                         {"MergedWithNext", Matches::merged_with_next},
                                                         {"Contiguous", Matches::contiguous}};
    const auto found = kMatches.find(behavior);
    if (found == kMatches.end())
      fields_.refuse("'pre_tokenizer': 'behavior': ", printable(behavior), " is not supported");
    return found->second;
  }

  void read_words(const json& step, const std::string& type) {
    if (type == "Whitespace") {
      add_split(R"([\w\x{200C}\x{200D}]+|[^\w\x{200C}\x{200D}\s]+)", Matches::removed, /*is_inverted=*/true);
    } else if (type == "WhitespaceSplit") {
      add_split(R"(\s)", Matches::removed);
    } else if (type == "BertPreTokenizer") {
      add_split(R"(\s)", Matches::removed);
      add_split(kPunctuation, Matches::isolated);
    } else if (type == "CharDelimiterSplit") {
      const json text{{"String", fields_.text(step, "delimiter")}};
      add(SplitText{fields_.pattern(text), Matches::removed});
    } else {
      fields_.refuse("'pre_tokenizer': ", printable(type), " is not supported");
    }
  }

  void read_byte_level(const json& step) {
    if (byte_level_) fields_.refuse("'pre_tokenizer': a second ByteLevel is not supported");
    ByteLevel made{.adds_space = fields_.flag_or(step, "add_prefix_space", false)};
    if (fields_.flag_or(step, "use_regex", true)) made.words.emplace_back(kGpt2Words, fields_.name);
    byte_level_ = made_.steps.size();
    add(std::move(made));
  }

  void read_metaspace(const json& step) {
    using Prefix = Metaspace::Prefix;
    static const std::map<std::string, Prefix> kPrefixes{
        {"always", Prefix::always}, {"first", Prefix::first}, {"never", Prefix::never}};
    Metaspace made;
    made.mark = fields_.text_or(step, "replacement", made.mark.c_str());
    if (made.mark.empty() || character_length(made.mark) != made.mark.size())
      fields_.refuse("'pre_tokenizer': Metaspace: 'replacement' is no character");
    const char* const usual = fields_.flag_or(step, "add_prefix_space", true) ? "always" : "never";
    const std::string scheme = fields_.text_or(step, "prepend_scheme", usual);
    const auto prefix = kPrefixes.find(scheme);
    if (prefix == kPrefixes.end())
      fields_.refuse("'pre_tokenizer': 'prepend_scheme': ", printable(scheme), " is not supported");
    made.prefix = prefix->second;
    made.splits = fields_.flag_or(step, "split", true);
    add(std::move(made));
  }

  const JsonFields& fields_;
  Tokenizer& made_;
  std::optional<std::size_t> byte_level_ = {};  // which step it is
};

}  // namespace

bool read_pre_tokenizers(const JsonFields& fields, const json& pre_tokenizer, Tokenizer& made) {
  if (pre_tokenizer.is_null()) return false;
  PreTokenizerReader reader(fields, made);
  reader.read(pre_tokenizer);
  return reader.finish();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
