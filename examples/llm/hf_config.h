// config.json, Hugging Face's description of a model, as the config of a LanguageModel and back.
//
// Two shapes are known. "llama": rotary positions whose halves turn, RMS norm, SwiGLU, no biases, keys and values of
// fewer heads where num_key_value_heads says so. "gpt2": learned positions, layer norm, GELU, biases, the embedding as
// output layer. What else a key may say, such as rope_scaling, is refused.
#pragma once

#include <seppo/models/language_model.h>
#include <seppo/nn/io/checkpoint.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <vector>

namespace llm {

enum class Shape { llama, gpt2 };
inline std::span<const char* const> enum_names(Shape) {
  static constexpr const char* kNames[] = {"llama", "gpt2"};
  return kNames;
}

struct HfConfig {
  Shape shape = Shape::llama;
  seppo::LanguageModelConfig model = {};
  std::optional<int> bos = {};  // what a text begins with
  std::vector<int> stops = {};  // what it ends with
};

// Throws seppo::FileError, or seppo::FormatError naming file, key and rule.
HfConfig read_hf_config(const std::filesystem::path& file);
nlohmann::json to_json(const HfConfig& config);

// Under which names the weights of the shape are stored. `prefix` comes before those of GPT-2's body.
seppo::WeightOptions weights_of(const HfConfig& config, const std::string& prefix = "transformer.");

// What all models of the shape have in common, for one that is trained from nothing.
void set_shape(Shape shape, seppo::LanguageModelConfig& model);

}  // namespace llm
