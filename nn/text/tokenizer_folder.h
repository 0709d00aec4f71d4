// The files of a tokenizer in a folder: tokenizer.json; or vocab.json and merges.txt; or llama2.c's tok*.bin; or
// SentencePiece's tokenizer.model, which is read if there is nothing else. Beside them may be what only Hugging Face's
// loaders need, such as a chat template, and tokenizer_config.json and special_tokens_map.json, of which the names of
// BOS and EOS are read, and what they or added_tokens.json add to formats that have no place for it
// (added_in_folder.h).
//
//   const Tokenizer tokenizer = read_tokenizer("gpt2");
//   write_tokenizer("mine", "gpt2", 1024);  // into another folder
//
// As in Hugging Face's loaders, a tokenizer.json says itself whether a text begins with BOS and ends with EOS; for
// others, add_bos_token, add_eos_token and add_prefix_space of tokenizer_config.json do. Without it, only texts of
// SentencePiece's BPE begin with BOS.
#pragma once

#include "tokenizer.h"

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// Throws ArgumentError if there is not exactly one tokenizer; what the readers throw (byte_level_bpe.h,
// sentencepiece.h, sentencepiece_model.h, tokenizer_json.h). tokenizer.json together with vocab.json and merges.txt is
// one tokenizer.
Tokenizer read_tokenizer(const std::filesystem::path& folder);

// The same as the content of a tokenizer.json. Throws as read_tokenizer() does, and FormatError for llama2.c's.
nlohmann::json tokenizer_folder_json(const std::filesystem::path& folder);

// Copies the files of the tokenizer in the folder `from` and those beside it, or writes those of byte_tokenizer() if
// `from` is empty. Then writes, if missing, tokenizer_config.json, special_tokens_map.json and, of vocab.json and
// merges.txt or tokenizer.model, tokenizer.json; `max_length` is how many tokens the model sees at once.
void write_tokenizer(const std::filesystem::path& folder, const std::filesystem::path& from, int max_length);

// Is this the name of a file that write_tokenizer() may write?
bool is_tokenizer_file(const std::string& name);

}  // namespace SEPPO_ABI
}  // namespace seppo
