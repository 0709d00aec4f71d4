// Language models in GGUF files (nn/io/gguf.h), as llama.cpp writes them: the architectures "llama" (Mistral's models
// and Mixtral too), "qwen2", "qwen3", "smollm3", "granite", "olmo2", "phi2", "phi3", "gemma", "gemma2", "gemma3",
// "gptneox", "stablelm", "falcon", "command-r", "gpt2" and "bloom".
//
//   const Pretrained model = load_gguf("SmolLM2-135M-Instruct.Q4_1.gguf");
//
// Its parameters are those that load_pretrained() would give the same model: quantised weights become the reals that
// they stand for, and the rows of queries and keys, which llama.cpp reorders for some so that rotary positions rotate
// adjacent columns, are put back. save_pretrained() therefore writes it for Hugging Face's loaders. The tokenizer in
// the file is read by nn/text/gguf_tokenizer.h.
//
//   gguf_of(config, parameters).write("model.gguf");  // a tokenizer is added by nn/text/gguf_tokenizer.h
#pragma once

#include "../../nn/io/gguf.h"
#include "../../nn/io/gguf_builder.h"
#include "../hugging_face/pretrained.h"

#include <cstdint>
#include <filesystem>

namespace seppo {
inline namespace SEPPO_ABI {

// Has the path the name of such a file, "*.gguf"?
bool is_gguf(const std::filesystem::path& path);

// What the metadata say of the model. Texts end at eos_token_id, eot_token_id and eom_token_id, and at tokens that are
// known by their texts (gguf_ends_text). Throws FormatError naming the file and the key: other architectures, and
// features that a LanguageModel lacks, such as Phi-3's long positions, are refused.
HfConfig gguf_config(const GgufSource& file);

// Throws as gguf_config() does, FormatError for tensors that do not fit the model, and FileError. More parameters than
// the file can hold are refused before memory is allocated.
Pretrained load_gguf(const GgufFile& file, std::uint64_t seed = 0);
// The same of GgufFile(path), and what that throws.
Pretrained load_gguf(const std::filesystem::path& path, std::uint64_t seed = 0);

// A file with this model, for llama.cpp and what is built on it; a mistral without windows is a "llama" there. The
// parameters must live until it is written. Throws ArgumentError, naming the key of config.json, for other
// architectures, and for a model that gguf_config() would not find in the file or llama.cpp would not read.
GgufBuilder gguf_of(const HfConfig& config, const Parameters& parameters);

}  // namespace SEPPO_ABI
}  // namespace seppo
