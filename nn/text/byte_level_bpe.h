// Byte-level BPE, GPT-2's (Radford et al. 2019), as Hugging Face stores it: vocab.json and merges.txt.
//
// vocab.json is {"token": id, ...}. In merges.txt, "#version: 0.2" is followed by one pair "left right" per line, in
// the order of merging; blank lines may follow. Tokens are written in GPT-2's alphabet, which has a printable character
// for each of the 256 bytes (alphabet.h), and each of these is a token; ids count from 0 without gaps. Words are first
// split into bytes. A token with other characters is never made, and decodes to itself.
#pragma once

#include "tokenizer.h"

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

// The pattern of GPT-2's words.
extern const char* const kGpt2Words;

// Both throw FormatError naming the file, the place and the rule if a file deviates from these formats, has two equal
// tokens, or is larger than 64 MiB; FileError if one cannot be read.
Tokenizer read_byte_level_bpe(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt);
// The same from data already read, without a pattern. `added` are tokens of the vocabulary.
Tokenizer byte_level_bpe(const nlohmann::json& vocabulary, std::span<const std::string> merges,
                         std::span<const AddedToken> added, std::string_view name);

// One token for each of the 256 bytes, and one for the end of a text, 256, which also begins it: GPT-2's tokenizer
// without merges, for byte-level models.
Tokenizer byte_tokenizer();
// The vocab.json of byte_tokenizer().
nlohmann::json byte_vocabulary();

}  // namespace SEPPO_ABI
}  // namespace seppo
