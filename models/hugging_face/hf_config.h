// config.json, Hugging Face's description of a model, as the config of a LanguageModel and back.
//
//   const HfConfig config = read_hf_config("gpt2/config.json");
//   Parameters parameters(/*seed=*/0);
//   const LanguageModel model(parameters.root(), config.model);
//
// Families of models are entries of a table (families/family.h); docs/model-families.md lists them. What a key may
// request that a family's entry does not know is refused, and so is a key that is not known, unless its value is null,
// false or empty (config_keys.h).
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

// 'model_type' in config.json.
enum class Architecture {
  llama,
  gpt2,
  mistral,
  mixtral,
  qwen2,
  qwen3,
  smollm3,
  granite,
  olmo2,
  phi3,
  gemma,
  gemma2,
  gemma3_text,
  phi,
  gpt_neox,
  stablelm,
  falcon,
  cohere,
  opt,
  bloom
};
std::span<const char* const> enum_names(Architecture);

struct HfConfig {
  Architecture architecture = Architecture::llama;
  LanguageModelConfig model = {};
  std::optional<int> bos = {};  // the token that begins a text if nothing else does
  std::vector<int> stops = {};  // the tokens that end it
  std::optional<int> pad = {};  // what fills up a batch elsewhere; here nothing does
};

// Throws FileError, or FormatError naming the file, the key and the rule. Missing keys have Hugging Face's defaults:
// the tokens that begin and end a text are then 1 and 2 of a llama, 50256 of a gpt2, and so on, if there are as many.
HfConfig read_hf_config(const std::filesystem::path& file);

nlohmann::json to_json(const HfConfig& config);
// "bos_token_id", "eos_token_id" and "pad_token_id", null where there are none: where these are missing, others assume
// tokens.
nlohmann::json text_tokens(const HfConfig& config);

// The names under which the weights of this architecture are stored, and in which form. Files of the body alone lack a
// prefix that the names of whole models have, such as "transformer.".
WeightOptions weights_of(const HfConfig& config, bool has_prefix = true);

// What all models of this architecture have in common, for one that is trained from scratch.
void set_architecture(Architecture architecture, LanguageModelConfig& model);
// May its models have fewer heads of keys and values than of queries?
bool has_kv_heads(Architecture architecture);
// May its heads together be narrower or wider than the model?
bool has_head_width(Architecture architecture);

}  // namespace SEPPO_ABI
}  // namespace seppo
