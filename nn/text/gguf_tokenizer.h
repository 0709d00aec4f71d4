// The tokenizer in a GGUF file (nn/io/gguf.h), as a tokenizer.json of Hugging Face's with the same tokens.
//
// Of llama.cpp's kinds, "gpt2" is byte-level BPE, whose words are those of tokenizer.ggml.pre: "gpt-2" ("phi-2",
// "olmo", "mpt", "jais"), "smollm" ("refact", "starcoder", "command-r", "codeshell", "exaone", "minerva-7b"),
// "llama-bpe" ("llama3", "llama-v3", "falcon3", "dbrx", "smaug-bpe"), "qwen2" ("deepseek-r1-qwen", "megrez"),
// "stablelm2", "falcon" or "bloom", the names in brackets being others of the same words; "llama" is SentencePiece's
// BPE, where any two tokens whose concatenation is a token merge, the best score first, and the leftmost of equal
// ones, where a tokenizer.json has them in the order of their ids. Others are refused.
#pragma once

#include "tokenizer.h"

#include "../io/gguf.h"
#include "../io/gguf_builder.h"

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// Both throw FormatError naming the file and the key; the second one also what read_tokenizer_json() throws.
nlohmann::json gguf_tokenizer_json(const GgufFile& file);
Tokenizer read_gguf_tokenizer(const GgufFile& file);

// {"bos_token": "<s>", ...}, with "eos_token", "pad_token" and "unk_token", as far as the file has them.
std::map<std::string, std::string> gguf_special_tokens(const GgufFile& file);
// The source of the file's template for chats, if it has one.
std::optional<std::string> gguf_chat_template(const GgufFile& file);

// Writes tokenizer.json, tokenizer_config.json, special_tokens_map.json and, if the file has a template for chats,
// chat_template.jinja. `max_length` is how many tokens the model sees at once. Throws as the functions above do, and
// FileError.
void write_gguf_tokenizer(const std::filesystem::path& folder, const GgufFile& file, int max_length);

// What a file says of texts, besides the tokens.
struct GgufTexts {
  int vocabulary = 0;  // tokens of the model; those that the tokenizer lacks are unused
  std::optional<int> bos = {}, eos = {};
  std::vector<int> ends = {};               // other tokens that end what the model writes
  bool adds_bos = false, adds_eos = false;  // texts begin and end with them
  std::optional<std::string> chat_template = {};
};
// Adds the tokenizer of a tokenizer.json that read_tokenizer_json() takes; `name` is what errors call it. Throws
// FormatError for another kind than byte-level BPE with these words and SentencePiece's BPE, and for added tokens of
// which a file cannot say what the tokenizer does: those that take white space, but for Phi-3's, or are words.
void add_gguf_tokenizer(GgufBuilder& file, const nlohmann::json& tokenizer, const GgufTexts& texts,
                        const std::string& name);

}  // namespace SEPPO_ABI
}  // namespace seppo
