// Adapters of LoRA in the format of the Python package peft: adapter_config.json and adapter_model.safetensors.
//
//   save_peft("tuned/adapter", adapters, config);
//   read_peft("tuned/adapter", config, parameters, model).merge();
//
// There a matrix has a name such as "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight". Where a
// projection here is a stack of several modules there, as in_proj is of the projections of queries, keys and values,
// these are written with the same A, and with their rows of B. Where several projections here are one module there, as
// the gate and `up` of Phi-3 are, it is written with all their matrices A, one below the other, and a B with a block
// for each. Reading does the reverse.
#pragma once

#include "../lora.h"
#include "hf_config.h"

#include <filesystem>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// Writes into a folder that exists; `base` is what the file calls the model that is adapted, or empty. Throws
// NumericError if an adapter is not finite, ArgumentError for adapters of several sizes; FileError.
void save_peft(const std::filesystem::path& folder, const Adapters& adapters, const HfConfig& config,
               const std::string& base = "");

// Adapters for this model, which must outlive them. Throws FormatError naming the file, and the key or the tensor, for
// what is not valid, for another model, or what LoRA beside these projections is not: DoRA, adapters of embeddings,
// biases or whole modules that are trained too, and beginnings that change the model's own weights, such as PiSSA's;
// FileError.
Adapters read_peft(const std::filesystem::path& folder, const HfConfig& config, Parameters& parameters,
                   LanguageModel& model);

// Has the folder an adapter_config.json?
bool has_peft(const std::filesystem::path& folder);

// Is this the name of a file that save_peft() or Adapters::save() writes?
bool is_adapter_file(const std::string& name);

}  // namespace SEPPO_ABI
}  // namespace seppo
