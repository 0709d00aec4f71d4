// The weights of a LanguageModel under the names that Hugging Face gives them, as F32 or BF16.
//
//   layers.3.self_attn.in_proj   LLaMA: model.layers.3.self_attn.q_proj, k_proj and v_proj, one below the other;
//                                GPT-2: transformer.h.3.attn.c_attn, transposed
//
// and so on for each parameter (weights.cpp). GPT-2's own file has no "transformer." before its names, and holds masks,
// which are not read.
#pragma once

#include "llm/hf_config.h"

#include <filesystem>

namespace llm {

// Every parameter of the model; those below "lora." take no part. Throws seppo::FormatError naming file and tensor for
// one that is missing, unknown, of another shape or type, or not finite; seppo::FileError.
void load_weights(const std::filesystem::path& file, const HfConfig& config, seppo::Parameters& parameters);
// Throws seppo::NumericError, and writes nothing, if a value is not finite; seppo::FileError.
void save_weights(const std::filesystem::path& file, const HfConfig& config, const seppo::Parameters& parameters);

// The parameters below "lora." alone, under their own names.
void load_adapters(const std::filesystem::path& file, seppo::Parameters& parameters);
void save_adapters(const std::filesystem::path& file, const seppo::Parameters& parameters);

}  // namespace llm
