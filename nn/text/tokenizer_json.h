// tokenizer.json, Hugging Face's tokenizer file: the whole pipeline (tokenizer.h), with the ids of that package.
//
// What the package does is done alike: its normalizers; its pre_tokenizers, but not UnicodeScripts, FixedLength and
// Delimiters of later versions; the models BPE, Unigram, WordPiece and WordLevel; post_processors; and decoders, but
// not CTC. What would change the tokens and is not known is refused by name. Normal forms, letter case, accents,
// BertNormalizer and Precompiled need utf8proc when the library is built, and are refused by name without it.
//
// Unlike there, special tokens in a text are letters unless they are asked for; without a decoder, tokens of bytes
// become bytes; and an added token is written as it is, where the package takes its letters for GPT-2's alphabet.
#pragma once

#include "tokenizer.h"

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// Throws FileError, or FormatError naming the file, the key and the rule.
Tokenizer read_tokenizer_json(const std::filesystem::path& file);
// The same of its content; `name` begins the messages.
Tokenizer read_tokenizer_json(nlohmann::json content, std::string name);

}  // namespace SEPPO_ABI
}  // namespace seppo
