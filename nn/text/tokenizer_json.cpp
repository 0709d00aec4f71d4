// Reads tokenizer.json key by key, and checks the type of each.
#include "tokenizer_json.h"

#include "byte_level_bpe.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../io/json.h"
#include "../io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

using Kind = json::value_t;

constexpr std::uint64_t kMostTokens = 1 << 30;
constexpr std::size_t kMostBytes = 1024;
constexpr std::size_t kMostAddedBytes = 1 << 20;

// The options that would change the tokens, and which this reader does not support.
constexpr const char* kUnsupported[] = {"normalizer",         "dropout",       "continuing_subword_prefix",
                                        "end_of_word_suffix", "byte_fallback", "add_prefix_space"};

// A normalizer that does nothing.
bool is_empty_sequence(const json& value) {
  if (!value.is_object() || value.value("type", json()) != "Sequence") return false;
  const json parts = value.value("normalizers", json());
  return parts.is_array() && std::ranges::all_of(parts, [](const json& part) { return is_empty_sequence(part); });
}

bool is_unset(const json& value) {
  const bool is_zero = value.is_number() && value == 0;
  return value.is_null() || value == false || value == "" || is_zero || is_empty_sequence(value);
}

// The pattern of a text that stands for itself.
std::string quoted(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && !std::isalnum(byte)) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file)
      : name_(printable_path(file)), all_(parse_json(read_text(file), name_)) {}

  Tokenizer read() {
    const json& model = part(all_, "model", Kind::object);
    check<FormatError>(model.value("type", json("BPE")) == "BPE", name_, ": 'model': its type is not BPE");
    check_unset(all_);
    check_unset(model);
    const bool has_bytes = read_step(part(all_, "pre_tokenizer", Kind::object));
    check<FormatError>(has_bytes, name_, ": 'pre_tokenizer': has no step ByteLevel");
    const json vocabulary = read_added(part(model, "vocab", Kind::object), all_.value("added_tokens", json::array()));
    const std::vector<std::string> merges = read_merges(part(model, "merges", Kind::array));
    // A byte that is no token becomes the unknown token, if there is one, and is left out otherwise.
    const bool has_unknown = !model.value("unk_token", json()).is_null();
    Tokenizer made = byte_level_bpe(vocabulary, merges, added_, has_unknown, name_);
    made.steps = std::move(splitting_.steps);
    made.takes_words = model.value("ignore_merges", json()) == true;
    read_bos(all_.value("post_processor", json()), made);
    return made;
  }

 private:
  const json& part(const json& object, const char* key, Kind kind) const {
    const bool is_there = object.is_object() && object.contains(key) && object[key].type() == kind;
    check<FormatError>(is_there, name_, ": '", key, "' is missing, or no ", json(kind).type_name());
    return object[key];
  }

  std::string text(const json& object, const char* key) const { return part(object, key, Kind::string); }

  bool flag(const json& object, const char* key) const { return part(object, key, Kind::boolean).get<bool>(); }

  void check_unset(const json& object) const {
    for (const char* key : kUnsupported) {
      const json value = object.value(key, json());
      check<FormatError>(is_unset(value), name_, ": '", key, "': ", printable(value.dump()), " is not supported");
    }
  }

  // ---- added tokens ------------------------------------------------------------------------------

  // The vocabulary with the added tokens.
  json read_added(json vocabulary, const json& tokens) {
    std::size_t text_bytes = 0;  // of those that texts are searched for
    for (const json& token : tokens) {
      const AddedToken read = read_added_token(token);
      text_bytes += read.is_special ? 0 : read.text.size();
      check<FormatError>(text_bytes <= kMostAddedBytes, name_,
                         ": the added tokens that are not special have more than ", kMostAddedBytes, " bytes");
      vocabulary[read.text] = part(token, "id", Kind::number_unsigned);
      added_.push_back(read);
    }
    return vocabulary;
  }

  AddedToken read_added_token(const json& token) const {
    const std::string content = text(token, "content");
    const bool is_special = flag(token, "special");
    for (const char* option : {"lstrip", "rstrip", "single_word"})
      check<FormatError>(is_special || token.value(option, json(false)) == false, name_, ": the added token '",
                         printable(content), "': '", option, "' is not supported");
    const bool is_short = is_special || content.size() <= kMostBytes;
    check<FormatError>(!content.empty() && is_short, name_, ": the added token '", printable(content), "' has ",
                       content.size(), " bytes, not 1 to ", kMostBytes);
    const auto id = part(token, "id", Kind::number_unsigned).get<std::uint64_t>();
    check<FormatError>(id < kMostTokens, name_, ": the added token '", printable(content), "': its number, ", id,
                       ", is not below ", kMostTokens);
    return {content, static_cast<int>(id), is_special};
  }

  // ---- merges ------------------------------------------------------------------------------------

  std::vector<std::string> read_merges(const json& merges) const {
    std::vector<std::string> lines;
    for (const json& merge : merges) {
      const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
      check<FormatError>(is_pair || merge.is_string(), name_, ": merge ", lines.size() + 1, ": is no pair of tokens");
      if (is_pair) {
        lines.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
      } else {
        lines.push_back(merge.get<std::string>());
      }
    }
    return lines;
  }

  // ---- pre_tokenizer -----------------------------------------------------------------------------

  // Reads a step. True if it is ByteLevel, or a Sequence that ends with it.
  bool read_step(const json& step) {
    const std::string type = text(step, "type");
    check_unset(step);
    if (type == "Sequence") return read_steps(part(step, "pretokenizers", Kind::array));
    if (type == "Digits") {
      splitting_.add_pattern(flag(step, "individual_digits") ? R"(\p{N})" : R"(\p{N}+)", name_);
    } else if (type == "Split") {
      read_split(step);
    } else {
      check<FormatError>(type == "ByteLevel", name_, ": 'pre_tokenizer': ", printable(type), " is not supported");
      if (step.value("use_regex", json()) != false) splitting_.add_pattern(kGpt2Words, name_);
    }
    return type == "ByteLevel";
  }

  bool read_steps(const json& steps) {
    bool is_last = false;
    for (const json& step : steps) {
      check<FormatError>(!is_last, name_, ": 'pre_tokenizer': a step behind ByteLevel is not supported");
      is_last = read_step(step);
    }
    return is_last;
  }

  void read_split(const json& step) {
    const std::string behavior = text(step, "behavior");
    const bool is_inverted = step.contains("invert") && flag(step, "invert");
    check<FormatError>(behavior == "Isolated" || behavior == "Removed", name_,
                       ": 'pre_tokenizer': Split: 'behavior': ", printable(behavior), " is not supported");
    Keep keep = is_inverted ? Keep::matches : Keep::gaps;
    if (behavior == "Isolated") keep = Keep::all;
    const json& pattern = part(step, "pattern", Kind::object);
    const bool is_text = pattern.contains("String");
    splitting_.add_pattern(is_text ? quoted(text(pattern, "String")) : text(pattern, "Regex"), name_, keep);
  }

  // ---- post_processor ----------------------------------------------------------------------------

  void read_bos(const json& processor, Tokenizer& tokenizer) const {
    std::vector<int> before;
    if (!processor.is_null()) read_processor(processor, before);
    if (before.empty()) return;
    tokenizer.bos = before[0];
    tokenizer.adds_bos = true;
  }

  // Collects the tokens that a step puts before a text.
  void read_processor(const json& processor, std::vector<int>& before) const {
    const std::string type = text(processor, "type");
    if (type == "ByteLevel") return;  // changes offsets only
    if (type == "Sequence") {
      for (const json& inner : part(processor, "processors", Kind::array)) read_processor(inner, before);
      return;
    }
    check<FormatError>(type == "TemplateProcessing", name_, ": 'post_processor': ", printable(type),
                       " is not supported");
    read_template(processor, before);
  }

  void read_template(const json& processor, std::vector<int>& before) const {
    bool has_text = false;
    for (const json& item : part(processor, "single", Kind::array)) {
      const bool is_text = item.is_object() && item.contains("Sequence");
      check<FormatError>(!has_text, name_, ": 'post_processor': anything after the text is not supported");
      if (!is_text) before.push_back(template_token(processor, part(item, "SpecialToken", Kind::object)));
      check<FormatError>(before.size() <= 1, name_,
                         ": 'post_processor': more than one token before the text is not supported");
      has_text = is_text;
    }
    check<FormatError>(has_text, name_, ": 'post_processor': a template without the text is not supported");
  }

  int template_token(const json& processor, const json& item) const {
    const std::string mark = text(item, "id");
    const auto found =
        std::ranges::find_if(added_, [&](const AddedToken& token) { return token.is_special && token.text == mark; });
    check<FormatError>(found != added_.end(), name_, ": 'post_processor': '", printable(mark), "' is no added token");
    const json tokens = processor.value("special_tokens", json::object());
    const bool is_listed = tokens.is_object() && tokens.contains(mark);
    const json ids = is_listed ? tokens[mark].value("ids", json()) : json();
    check<FormatError>(ids.is_null() || ids == json::array({found->id}), name_, ": 'post_processor': '",
                       printable(mark), "': ", printable(ids.dump()), " is not its number, ", found->id);
    return found->id;
  }

  std::string name_;  // of the file
  json all_;
  Tokenizer splitting_;  // has only the steps
  std::vector<AddedToken> added_;
};

}  // namespace

Tokenizer read_tokenizer_json(const std::filesystem::path& file) { return Reader(file).read(); }

}  // namespace SEPPO_ABI
}  // namespace seppo
