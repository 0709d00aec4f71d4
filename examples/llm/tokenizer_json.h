// tokenizer.json, Hugging Face's tokenizer file, for byte-level BPE.
//
// model.vocab and model.merges are as in vocab.json and merges.txt (tokenizer.h); a merge may also be ["left",
// "right"]. added_tokens are special tokens: text never becomes one. The steps of pre_tokenizer define the patterns:
// ByteLevel with use_regex is GPT-2's, Digits separates numbers, Split with isolated matches has a pattern of its own,
// and a Sequence combines several. The token that a template of post_processor prepends is bos.
//
// Anything else that would change the tokens is refused: a normalizer, models other than BPE or with prefixes,
// suffixes, dropout or byte_fallback, other steps, added tokens that are not special.
#pragma once

#include "llm/tokenizer.h"

#include <filesystem>

namespace llm {

// Throws seppo::FileError, or seppo::FormatError naming the file, the key and the rule.
Tokenizer read_tokenizer_json(const std::filesystem::path& file);

}  // namespace llm
