// SentencePiece's BPE (Kudo and Richardson 2018) as llama2.c stores it, tokenizer.bin.
//
// Little-endian: int32, the size of the longest token in bytes, at most 1024; for each token a float32 score, an int32
// size and the bytes. Tokens 0, 1, 2 are the special tokens unknown, BOS, EOS; 3 to 258 are the bytes "<0x00>" to
// "<0xFF>". BOS and a space precede the text, and words are first split into characters. Any two tokens whose
// concatenation is a token can merge; the pair whose result has the highest score merges first.
#pragma once

#include "tokenizer.h"

#include <filesystem>

namespace seppo {
inline namespace SEPPO_ABI {

// Throws FormatError naming the file, the place and the rule if the file deviates from the format, has two equal
// tokens, or is larger than 64 MiB; FileError if it cannot be read.
Tokenizer read_sentencepiece(const std::filesystem::path& file);

}  // namespace SEPPO_ABI
}  // namespace seppo
