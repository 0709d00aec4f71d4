// Reads tokenizer.json key by key, and checks the type of each.
#include "llm/tokenizer_json.h"

#include "app/text_file.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/json.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

namespace llm {

using nlohmann::json;
using seppo::check;
using seppo::FormatError;
using seppo::printable;
using Kind = json::value_t;

namespace {

constexpr std::uint64_t kMostTokens = 1 << 30;
constexpr std::size_t kMostBytes = 1024, kMostAddedBytes = 1 << 20;

struct Reader {
  std::string name;  // of the file
  Tokenizer made = {};
  std::vector<AddedToken> added = {};

  const json& part(const json& object, const char* key, Kind kind) const {
    const bool is_there = object.is_object() && object.contains(key) && object[key].type() == kind;
    check<FormatError>(is_there, name, ": '", key, "' is missing, or no ", json(kind).type_name());
    return object[key];
  }
  std::string text(const json& object, const char* key) const { return part(object, key, Kind::string); }

  // Refuses options that would change the tokens, which this reader does not support.
  void check_unset(const json& object) const {
    for (const char* key : {"normalizer", "dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback",
                            "add_prefix_space"}) {
      const json value = object.value(key, json());
      const bool is_zero = value.is_number() && value == 0;
      check<FormatError>(value.is_null() || value == false || value == "" || is_zero || is_empty_sequence(value), name,
                         ": '", key, "': ", printable(value.dump()), " is not supported");
    }
  }

  // A normalizer that does nothing.
  static bool is_empty_sequence(const json& value) {
    const bool is_sequence = value.is_object() && value.value("type", json()) == "Sequence";
    const json parts = is_sequence ? value.value("normalizers", json()) : json();
    return parts.is_array() && std::ranges::all_of(parts, [](const json& part) { return is_empty_sequence(part); });
  }

  // The vocabulary with the added tokens.
  json read_added(json vocabulary, const json& tokens) {
    std::size_t text_bytes = 0;  // of those that texts are searched for
    for (const json& token : tokens) {
      const std::string content = text(token, "content");
      const bool is_special = part(token, "special", Kind::boolean) == true;
      for (const char* option : {"lstrip", "rstrip", "single_word"})
        check<FormatError>(is_special || token.value(option, json(false)) == false, name, ": the added token '",
                           printable(content), "': '", option, "' is not supported");
      text_bytes += is_special ? 0 : content.size();
      check<FormatError>(!content.empty() && (is_special || content.size() <= kMostBytes), name, ": the added token '",
                         printable(content), "' has ", content.size(), " bytes, not 1 to ", kMostBytes);
      check<FormatError>(text_bytes <= kMostAddedBytes, name, ": the added tokens that are not special have more than ",
                         kMostAddedBytes, " bytes");
      const json& id = vocabulary[content] = part(token, "id", Kind::number_unsigned);
      check<FormatError>(id.get<std::uint64_t>() < kMostTokens, name, ": the added token '", printable(content),
                         "': its number, ", id.dump(), ", is not below ", kMostTokens);
      added.push_back({content, id.get<int>(), is_special});
    }
    return vocabulary;
  }

  std::vector<std::string> read_merges(const json& merges) const {
    std::vector<std::string> lines;
    for (const json& merge : merges) {
      const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
      check<FormatError>(is_pair || merge.is_string(), name, ": merge ", lines.size() + 1, ": is no pair of tokens");
      lines.push_back(is_pair ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                              : merge.get<std::string>());
    }
    return lines;
  }

  // Reads a step of pre_tokenizer. True if it is ByteLevel, or a Sequence that ends with it.
  bool read_step(const json& step) {
    const std::string type = text(step, "type");
    check_unset(step);
    if (type == "Sequence") return read_steps(part(step, "pretokenizers", Kind::array));
    if (type == "Digits") {
      const bool is_single = part(step, "individual_digits", Kind::boolean) == true;
      made.add_pattern(is_single ? R"(\p{N})" : R"(\p{N}+)", name);
    } else if (type == "Split") {
      read_split(step);
    } else {
      check<FormatError>(type == "ByteLevel", name, ": 'pre_tokenizer': ", printable(type), " is not supported");
      if (step.value("use_regex", json()) != false) made.add_pattern(kGpt2Words, name);
    }
    return type == "ByteLevel";
  }

  bool read_steps(const json& steps) {
    bool is_last = false;
    for (const json& step : steps) {
      check<FormatError>(!is_last, name, ": 'pre_tokenizer': a step behind ByteLevel is not supported");
      is_last = read_step(step);
    }
    return is_last;
  }

  void read_split(const json& step) {
    const std::string behavior = text(step, "behavior");
    const bool is_inverted = step.contains("invert") && part(step, "invert", Kind::boolean) == true;
    check<FormatError>(behavior == "Isolated" || behavior == "Removed", name,
                       ": 'pre_tokenizer': Split: 'behavior': ", printable(behavior), " is not supported");
    const json& pattern = part(step, "pattern", Kind::object);
    const Keep keep = behavior == "Isolated" ? Keep::all : is_inverted ? Keep::matches : Keep::gaps;
    made.add_pattern(pattern.contains("String") ? quoted(text(pattern, "String")) : text(pattern, "Regex"), name, keep);
  }

  // The pattern of a text that stands for itself.
  static std::string quoted(const std::string& text) {
    std::string pattern;
    for (const char c : text) {
      if (static_cast<unsigned char>(c) < 0x80 && !std::isalnum(static_cast<unsigned char>(c))) pattern += '\\';
      pattern += c;
    }
    return pattern;
  }

  // Collects the tokens that a step of post_processor puts before a text.
  void read_processor(const json& processor, std::vector<int>& before) const {
    const std::string type = text(processor, "type");
    if (type == "ByteLevel") return;  // changes offsets only
    if (type == "Sequence") {
      for (const json& inner : part(processor, "processors", Kind::array)) read_processor(inner, before);
      return;
    }
    check<FormatError>(type == "TemplateProcessing", name, ": 'post_processor': ", printable(type),
                       " is not supported");
    bool has_text = false;
    for (const json& item : part(processor, "single", Kind::array)) {
      const bool is_text = item.is_object() && item.contains("Sequence");
      check<FormatError>(!has_text, name, ": 'post_processor': anything after the text is not supported");
      if (!is_text) before.push_back(template_token(processor, part(item, "SpecialToken", Kind::object)));
      check<FormatError>(before.size() <= 1, name,
                         ": 'post_processor': more than one token before the text is not supported");
      has_text = is_text;
    }
    check<FormatError>(has_text, name, ": 'post_processor': a template without the text is not supported");
  }

  int template_token(const json& processor, const json& item) const {
    const std::string mark = text(item, "id");
    const auto found =
        std::ranges::find_if(added, [&](const AddedToken& token) { return token.is_special && token.text == mark; });
    check<FormatError>(found != added.end(), name, ": 'post_processor': '", printable(mark), "' is no added token");
    const json tokens = processor.value("special_tokens", json::object());
    const json ids = tokens.is_object() && tokens.contains(mark) ? tokens[mark].value("ids", json()) : json();
    check<FormatError>(ids.is_null() || ids == json::array({found->id}), name, ": 'post_processor': '", printable(mark),
                       "': ", printable(ids.dump()), " is not its number, ", found->id);
    return found->id;
  }

  void read_bos(const json& processor, Tokenizer& tokenizer) const {
    std::vector<int> before;
    if (!processor.is_null()) read_processor(processor, before);
    if (before.empty()) return;
    tokenizer.bos = before[0];
    tokenizer.adds_bos = true;
  }
};

}  // namespace

Tokenizer read_tokenizer_json(const std::filesystem::path& file) {
  Reader reader{seppo::printable_path(file)};
  const json all = seppo::parse_json(examples::read_text(file), reader.name);
  const json& model = reader.part(all, "model", Kind::object);
  check<FormatError>(model.value("type", json("BPE")) == "BPE", reader.name, ": 'model': its type is not BPE");
  reader.check_unset(all);
  reader.check_unset(model);
  check<FormatError>(reader.read_step(reader.part(all, "pre_tokenizer", Kind::object)), reader.name,
                     ": 'pre_tokenizer': has no step ByteLevel");
  const json vocabulary =
      reader.read_added(reader.part(model, "vocab", Kind::object), all.value("added_tokens", json::array()));
  const std::vector<std::string> merges = reader.read_merges(reader.part(model, "merges", Kind::array));
  // A byte that is no token becomes the unknown token, if there is one, and is left out otherwise.
  const bool has_unknown = !model.value("unk_token", json()).is_null();
  Tokenizer made = byte_level_bpe(vocabulary, merges, reader.added, has_unknown, reader.name);
  made.steps = std::move(reader.made.steps);
  made.takes_words = model.value("ignore_merges", json()) == true;
  reader.read_bos(all.value("post_processor", json()), made);
  return made;
}

}  // namespace llm
