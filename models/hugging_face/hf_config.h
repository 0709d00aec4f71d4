// config.json, Hugging Face's description of a model, as the config of a LanguageModel and back.
//
//   const HfConfig config = read_hf_config("gpt2/config.json");
//   Parameters parameters(/*seed=*/0);
//   const LanguageModel model(parameters.root(), config.model);
//
// Two architectures are supported. "llama": rotary positions that rotate halves, RMS norm, SwiGLU, no biases,
// grouped-query attention if num_key_value_heads asks for it. "gpt2": learned positions, layer norm, GELU, biases.
// Anything else that a key may request, such as scaled positions, is refused, and so is a key that is not known, unless
// its value is null, false or empty (config_keys.h).
#pragma once

#include "../../nn/io/checkpoint.h"
#include "../language_model.h"

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

enum class Architecture { llama, gpt2 };
inline std::span<const char* const> enum_names(Architecture) {
  static constexpr const char* kNames[] = {"llama", "gpt2"};
  return kNames;
}

struct HfConfig {
  Architecture architecture = Architecture::llama;
  LanguageModelConfig model = {};
  std::optional<int> bos = {};  // the token that begins a text if nothing else does
  std::vector<int> stops = {};  // the tokens that end it
};

// Throws FileError, or FormatError naming the file, the key and the rule. Missing keys have Hugging Face's defaults:
// the tokens that begin and end a text are then 1 and 2 of a llama, 50256 of a gpt2, if there are as many.
HfConfig read_hf_config(const std::filesystem::path& file);

nlohmann::json to_json(const HfConfig& config);
// "bos_token_id" and "eos_token_id", null where there are none: where these are missing, others assume tokens.
nlohmann::json text_tokens(const HfConfig& config);

// The names under which the weights of this architecture are stored. `prefix` is prepended to those of GPT-2's body.
WeightOptions weights_of(const HfConfig& config, const std::string& prefix = "transformer.");

// What all models of this architecture have in common, for one that is trained from scratch.
void set_architecture(Architecture architecture, LanguageModelConfig& model);

}  // namespace SEPPO_ABI
}  // namespace seppo
