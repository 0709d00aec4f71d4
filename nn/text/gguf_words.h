// The words of llama.cpp's byte-level BPE, by the names that tokenizer.ggml.pre has for them.
#pragma once

#include "../../autograd/core/real.h"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

inline const std::string kGgufTokenizer = "tokenizer.ggml.";  // how its keys begin
inline constexpr const char* kGgufWords[] = {"gpt-2", "smollm", "llama-bpe", "qwen2", "stablelm2", "falcon", "bloom"};

std::string gguf_words_that_are_known();  // "gpt-2, smollm ..."

// Does an added token of Phi-3 take the white space behind it?
bool strips_in_phi3(const std::string& token);

// The steps of a tokenizer.json that make these words; null for another name.
nlohmann::json gguf_pre_tokenizer(const std::string& pre);
nlohmann::json gguf_normalizer(const std::string& pre);

}  // namespace SEPPO_ABI
}  // namespace seppo
