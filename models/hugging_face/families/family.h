// Families of language models: one entry of data says how Hugging Face's config.json and weights describe a model, in
// both directions. A new family is a function that returns one, its line in families() and its name in Architecture
// (hf_config.h); docs/model-families.md shows how.
#pragma once

#include "../../../nn/io/checkpoint.h"
#include "../../../nn/io/foreign_weights.h"
#include "../hf_config.h"
#include "keys.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// How a file stores the projections of queries, keys and values, which are one stacked parameter here.
enum class QkvTensors {
  as_named,   // one tensor for each, or the stack itself: as the table of names says
  by_kv_head  // one tensor: for each head of keys its heads of queries, then the head of keys, then that of values
};

struct Family {
  std::string type;           // 'model_type' in config.json
  std::string maker;          // 'architectures': the class that makes the whole model
  LanguageModelConfig model;  // what all its models have in common; the keys set the rest
  Keys keys;
  // The table of renaming() (nn/io/foreign_weights.h), from our names to those of a file.
  std::function<std::string(const LanguageModelConfig&)> names;
  std::string prefix;  // of names, which files of the body alone lack
  QkvTensors qkv = QkvTensors::as_named;
  bool is_gate_stacked = false;           // one tensor has the rows of the gate and then those of `up`
  bool is_transposed = false;             // the matrices of the layers are stored as [in, out]
  std::optional<int> bos = {}, eos = {};  // that Hugging Face takes if the file names none, and the model has as many
};

// In the order of Architecture.
const std::vector<Family>& families();
const Family& family_of(Architecture architecture);

// Names that are the same for all models of a family.
inline auto fixed(const std::string& table) {
  return [=](const LanguageModelConfig&) { return table; };
}

// Under which names and in which form a model's parameters are in a file.
WeightOptions weights_of(const Family& family, const LanguageModelConfig& model, bool has_prefix);

// ---- the entries, in files of their own

Family llama();
Family mistral();
Family mixtral();
Family qwen2();
Family qwen3();
Family smollm3();
Family granite();
Family olmo2();
Family phi3();
Family gemma();
Family gemma2();
Family gemma3();
Family gpt2();
Family opt();
Family bloom();
Family gpt_neox();
Family phi();
Family stablelm();
Family falcon();
Family cohere();

// Sizes that a config need not say.
struct UsualSizes {
  int max_length = 2048;
  int kv_heads = 0;  // 0: as many as of queries
};

// What most of them share, beside llama_names(): the keys of LLaMA's configs, and its model.
Keys llama_keys(const UsualSizes& usual = {});
LanguageModelConfig llama_model();

}  // namespace SEPPO_ABI
}  // namespace seppo
