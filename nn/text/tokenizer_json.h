// tokenizer.json, Hugging Face's tokenizer file, for byte-level BPE.
//
// model.vocab and model.merges are as in vocab.json and merges.txt (tokenizer.h), but a merge may also be ["left",
// "right"], and a byte need not be a token if there is no unk_token: it is left out. added_tokens that are special
// never stem from text, the others are what their text becomes. The steps of pre_tokenizer define the patterns:
// ByteLevel with use_regex is GPT-2's, Digits separates numbers, Split has a pattern or a text of its own, and isolates
// or removes what matches, or what does not; a Sequence combines several. A template of post_processor may prepend one
// token, bos.
//
// Anything else that would change the tokens is refused: a normalizer, models other than BPE or with prefixes,
// suffixes, dropout or byte_fallback, other steps, other processors, added tokens that are not special and strip blanks
// or match whole words.
#pragma once

#include "tokenizer.h"

#include <filesystem>

namespace seppo {
inline namespace SEPPO_ABI {

// Throws FileError, or FormatError naming the file, the key and the rule.
Tokenizer read_tokenizer_json(const std::filesystem::path& file);

}  // namespace SEPPO_ABI
}  // namespace seppo
