// tokenizer.json, Hugging Face's file of a tokenizer: its byte-level BPE.
//
// model.vocab and model.merges are as in vocab.json and merges.txt (tokenizer.h), a merge also as ["left",
// "right"]. added_tokens are marks: text never becomes one. The steps of pre_tokenizer say the patterns: ByteLevel
// with use_regex is GPT-2's, Digits cuts numbers off, Split into isolated parts has a pattern of its own, and a
// Sequence is several. What a template of post_processor puts before a text is bos.
//
// What else would change the tokens is refused: a normalizer, models other than BPE or with prefixes, suffixes, dropout
// or byte_fallback, other steps, added tokens that are not special.
#pragma once

#include "llm/tokenizer.h"

#include <filesystem>

namespace llm {

// Throws seppo::FileError, or seppo::FormatError naming file, key and rule.
Tokenizer read_tokenizer_json(const std::filesystem::path& file);

}  // namespace llm
