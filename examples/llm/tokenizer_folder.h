// The files of a tokenizer in a folder: tokenizer.json; or vocab.json and merges.txt; or llama2.c's tok*.bin. Beside
// them may be what only Hugging Face's loaders need, such as a chat template, and tokenizer_config.json and
// special_tokens_map.json, of which the names of BOS and EOS are read.
//
// As in Hugging Face's loaders, a tokenizer.json says itself whether a text begins with BOS; for vocab.json and
// merges.txt, add_bos_token of tokenizer_config.json does.
#pragma once

#include "llm/hf_config.h"
#include "llm/tokenizer.h"

#include <filesystem>
#include <string>

namespace llm {

// `option` names the folder in errors. Throws examples::UsageError if there is not exactly one tokenizer; what the
// readers throw (tokenizer.h, tokenizer_json.h). tokenizer.json together with vocab.json and merges.txt is one
// tokenizer.
Tokenizer read_tokenizer(const std::string& option, const std::filesystem::path& folder);

// One token for each of the 256 bytes, and one for the end of a text: GPT-2's tokenizer without merges, for byte-level
// models.
Tokenizer byte_tokenizer();

// Copies the files of the tokenizer in the folder `from` and those beside it, or writes those of byte_tokenizer() if
// `from` is empty. Then writes tokenizer_config.json, special_tokens_map.json and generation_config.json, if missing.
void write_tokenizer(const std::filesystem::path& folder, const std::filesystem::path& from, const HfConfig& config);

// Is this the name of a file that write_tokenizer() may write?
bool is_tokenizer_file(const std::string& name);

}  // namespace llm
