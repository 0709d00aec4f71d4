// Patterns that split words, as their models' own tokenizer.json has them.
#include "gguf_words.h"

#include "tokenizer_json_writer.h"

#include <nlohmann/json.hpp>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

json split(const std::string& regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

// Words as "llama-bpe" and "qwen2" see them, which differ in how many digits a number has.
json words(const char* number) {
  return split(std::string(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)") + number +
               R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
}

}  // namespace

std::string gguf_words_that_are_known() {
  std::string names;
  for (const char* pre : kGgufWords) names += std::string(names.empty() ? "" : ", ") + pre;
  return names;
}

json gguf_pre_tokenizer(const std::string& pre) {
  const auto steps = [](const json& first, bool has_words) {
    return sequence_json("pretokenizers", {first, byte_level_json(has_words)});
  };
  if (pre == "gpt-2") return byte_level_json(true);
  if (pre == "smollm") return steps({{"type", "Digits"}, {"individual_digits", true}}, true);
  if (pre == "llama-bpe") return steps(words(R"(\p{N}{1,3})"), false);
  if (pre == "qwen2" || pre == "stablelm2") return steps(words(R"(\p{N})"), false);
  if (pre == "bloom") return steps(split(" ?[^(\\s|[.,!?…。，、।۔،])]+"), false);
  if (pre == "falcon")
    return sequence_json("pretokenizers", {{{"type", "Punctuation"}, {"behavior", "Contiguous"}},
                                           byte_level_json(true),
                                           {{"type", "Digits"}, {"individual_digits", false}},
                                           split("[0-9][0-9][0-9]")});
  return nullptr;
}

json gguf_normalizer(const std::string& pre) { return pre == "qwen2" ? json{{"type", "NFC"}} : json(); }

}  // namespace SEPPO_ABI
}  // namespace seppo
