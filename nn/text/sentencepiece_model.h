// SentencePiece's own file, tokenizer.model: a message of protocol buffers (sentencepiece_model.proto; Kudo and
// Richardson 2018) with a model of the kind unigram or BPE.
//
// A text becomes the tokens of SentencePiece's encoder, but that special tokens in it are letters unless they are asked
// for, and that the table of a normalization maps whole characters with their marks, as Hugging Face's package does.
#pragma once

#include "tokenizer.h"

#include <filesystem>
#include <nlohmann/json.hpp>

namespace seppo {
inline namespace SEPPO_ABI {

// What a folder says of a file: tokenizer_folder.h reads it.
struct SentencePieceOptions {
  nlohmann::json added = nlohmann::json::array();  // further entries of added_tokens (added_in_folder.h)
  bool adds_space = true;                          // false: none before a text, though the file says so
  bool adds_once = false;                          // SentencePieces::adds_once
};

// The same tokens as a tokenizer.json (tokenizer_json.h). It cannot say that the leftmost of pairs with equal scores
// merges first: there the one whose result has the lower id does. Nor can it say that texts have no bytes and no unused
// pieces of a unigram model. Added tokens are looked for in a text as it is; one that has a piece's number takes its
// place. Throws FileError if the file cannot be read; FormatError naming it if it is no such message, is larger than 64
// MiB, has two equal tokens or none for what is unknown, or is of another kind or with options that are not done here.
nlohmann::json sentencepiece_model_json(const std::filesystem::path& file, const SentencePieceOptions& options = {});

// BOS and EOS are those of the file. Throws as the other function, and what read_tokenizer_json() throws.
Tokenizer read_sentencepiece_model(const std::filesystem::path& file, const SentencePieceOptions& options = {});

}  // namespace SEPPO_ABI
}  // namespace seppo
