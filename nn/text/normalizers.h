// Normalizers: what is done to a text before it is cut into words, as the `normalizer` of a tokenizer.json says.
//
// Each is a function of valid UTF-8. Those that Unicode's tables are needed for (unicode.h) can be made without them,
// but not called.
#pragma once

#include "charsmap.h"
#include "pattern.h"
#include "unicode.h"

#include "../../autograd/core/real.h"

#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace seppo {
inline namespace SEPPO_ABI {

// Where a text stands.
struct TextPlace {
  bool is_behind_byte = false;  // right behind a byte that is not UTF-8, in one text with it
  bool is_before_byte = false;  // an empty one, before such a byte that begins the text
};

struct Normalize {  // NFC, NFD, NFKC, NFKD
  NormalForm form;
};
struct Lowercase {};
struct StripAccents {};  // removes marks
struct Strip {           // removes white space
  bool left = true, right = true;
};
struct Prepend {  // to a text that is not empty
  std::string text;
};
struct Replace {  // each match by a text
  Pattern pattern;
  std::string text;
};
struct NmtSpaces {};  // removes control characters, and makes blanks of other white space, as SentencePiece's nmt_nfkc
struct BertCleaning {
  bool cleans = true;             // removes control characters, and makes spaces of white space
  bool spaces_ideographs = true;  // puts spaces around ideographs
  bool strips_accents = true;     // removes nonspacing marks, after NFD
  bool is_lower = true;
};
struct ToAlphabet {};  // writes bytes in GPT-2's alphabet
struct MapCharacters {
  Charsmap map;
};

using Normalizer = std::variant<Normalize, Lowercase, StripAccents, Strip, Prepend, Replace, NmtSpaces, BertCleaning,
                                ToAlphabet, MapCharacters>;

// The text after all of them, one after the other. Throws FormatError if a pattern takes too long (pattern.h), or if a
// text becomes longer than 64 times its bytes and 1 MiB.
std::string normalized(std::span<const Normalizer> normalizers, std::string_view text, TextPlace place,
                       Matcher& matcher);

// Does this one need Unicode's tables?
bool needs_unicode_tables(const Normalizer& normalizer);

}  // namespace SEPPO_ABI
}  // namespace seppo
