// Reads tokenizer.json key by key, and checks the type of each.
#include "llm/tokenizer_json.h"

#include "app/text_file.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/data/text.h>
#include <seppo/nn/io/json.h>

#include <nlohmann/json.hpp>

#include <algorithm>

namespace llm {

using nlohmann::json;
using seppo::check;
using seppo::FormatError;
using seppo::printable;
using Kind = json::value_t;

namespace {

struct Reader {
  std::string name;  // of the file
  Tokenizer made = {};
  std::vector<std::string> marks = {};

  const json& part(const json& object, const char* key, Kind kind) const {
    const bool is_there = object.is_object() && object.contains(key) && object[key].type() == kind;
    check<FormatError>(is_there, name, ": '", key, "' is missing, or no ", json(kind).type_name());
    return object[key];
  }
  std::string text(const json& object, const char* key) const { return part(object, key, Kind::string); }

  // Refuses options that would change the tokens, which this reader does not support.
  void check_unset(const json& object) const {
    for (const char* key : {"normalizer", "dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback",
                            "add_prefix_space", "invert"}) {
      const json value = object.value(key, json());
      check<FormatError>(value.is_null() || value == false || value == "", name, ": '", key,
                         "': ", printable(value.dump()), " is not supported");
    }
  }

  // The vocabulary with the special tokens added, which become `marks`.
  json read_marks(json vocabulary, const json& added) {
    for (const json& token : added) {
      const std::string mark = text(token, "content");
      check<FormatError>(part(token, "special", Kind::boolean) == true, name, ": the added token '", printable(mark),
                         "': is not special, which is not supported");
      vocabulary[mark] = part(token, "id", Kind::number_unsigned);
      marks.push_back(mark);
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
    bool is_last = type == "ByteLevel";
    check_unset(step);
    if (type == "Sequence") {
      for (const json& inner : part(step, "pretokenizers", Kind::array)) {
        check<FormatError>(!is_last, name, ": 'pre_tokenizer': a step behind ByteLevel is not supported");
        is_last = read_step(inner);
      }
    } else if (type == "ByteLevel") {
      if (step.value("use_regex", json()) != false) made.add_pattern(kGpt2Words, name);
    } else if (type == "Digits") {
      const bool is_single = part(step, "individual_digits", Kind::boolean) == true;
      made.add_pattern(is_single ? R"(\p{N})" : R"(\p{N}+)", name);
    } else {
      check<FormatError>(type == "Split" && step.value("behavior", json()) == "Isolated", name,
                         ": 'pre_tokenizer': ", printable(step.dump()), " is not supported");
      made.add_pattern(text(part(step, "pattern", Kind::object), "Regex"), name);
    }
    return is_last;
  }

  std::optional<int> read_bos(const json& processor, const json& vocabulary) const {
    const std::string type = text(processor, "type");
    std::optional<int> bos;
    if (type == "Sequence")
      for (const json& inner : part(processor, "processors", Kind::array))
        if (!bos) bos = read_bos(inner, vocabulary);
    if (type != "TemplateProcessing") return bos;
    const json& single = part(processor, "single", Kind::array);
    if (single.empty() || !single[0].is_object() || !single[0].contains("SpecialToken")) return bos;
    const std::string mark = text(single[0]["SpecialToken"], "id");
    check<FormatError>(std::ranges::find(marks, mark) != marks.end(), name, ": 'post_processor': '", printable(mark),
                       "' is no added token");
    return vocabulary[mark].get<int>();
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
  const json added = all.value("added_tokens", json()), processor = all.value("post_processor", json());
  const json vocabulary = reader.read_marks(reader.part(model, "vocab", Kind::object), added);
  const std::vector<std::string> merges = reader.read_merges(reader.part(model, "merges", Kind::array));
  Tokenizer made = byte_level_bpe(vocabulary, merges, reader.marks, reader.name);
  made.patterns = std::move(reader.made.patterns);
  made.takes_words = model.value("ignore_merges", json()) == true;
  if (!processor.is_null()) made.bos = reader.read_bos(processor, vocabulary);
  return made;
}

}  // namespace llm
