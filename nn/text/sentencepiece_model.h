// SentencePiece's own file, tokenizer.model: a message of protocol buffers (sentencepiece_model.proto; Kudo and
// Richardson 2018) with a model of the kind unigram or BPE.
//
// A text becomes the tokens of SentencePiece's encoder, but that special tokens in it are letters unless they are asked
// for, and that the table of a normalization maps whole characters with their marks, as Hugging Face's package does.
#pragma once

#include "tokenizer.h"

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace seppo {
inline namespace SEPPO_ABI {

// The same tokens as a tokenizer.json (tokenizer_json.h). Throws FileError if the file cannot be read; FormatError
// naming it if it is no such message, is larger than 64 MiB, has two equal tokens or none for what is unknown, or is of
// another kind or with options that are not done here.
nlohmann::json sentencepiece_model_json(const std::filesystem::path& file);

// BOS and EOS are those of the file. Throws as the other function, and what read_tokenizer_json() throws.
Tokenizer read_sentencepiece_model(const std::filesystem::path& file);

}  // namespace SEPPO_ABI
}  // namespace seppo
