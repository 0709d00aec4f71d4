// Decoders: from tokens, as their vocabulary writes them, back to text, as the `decoder` of a tokenizer.json says.
//
// Steps change each token; behind a Fuse, or GPT-2's alphabet, they change the text as a whole. Bytes remain bytes,
// where Hugging Face's package writes U+FFFD for those that are not UTF-8.
#pragma once

#include "pattern.h"

#include "../../autograd/core/real.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// What a token, or the text, is among the others.
struct TokenPlace {
  bool is_first = false, is_last = false;
};

struct DecodeAlphabet {};  // from GPT-2's alphabet to bytes
struct DecodeBytes {};     // <0x0A> is a byte
struct DecodeReplace {
  Pattern pattern;
  std::string text;
};
struct DecodeStrip {  // up to so many of one character at the beginning and at the end
  std::string character;
  std::size_t left = 0, right = 0;
  bool is_of_text = false;  // of the text, else of each token
};
struct DecodeMetaspace {  // marks are spaces, but in the first token they are nothing
  std::string mark = "\xE2\x96\x81";
  bool drops_first = true;
};
struct DecodeWordPiece {  // a space before each token but the first, if it does not begin with the prefix
  std::string prefix = "##";
  bool cleans = true;  // no space before punctuation and English contractions
};
struct DecodeSuffix {  // the end of a word is a space, except at the end of the text
  std::string suffix = "</w>";
};
struct DecodeSpaced {};  // a space before each token but the first

using DecodeStep = std::variant<DecodeAlphabet, DecodeBytes, DecodeReplace, DecodeStrip, DecodeMetaspace,
                                DecodeWordPiece, DecodeSuffix, DecodeSpaced>;

struct TokenDecoder {
  std::vector<DecodeStep> of_tokens = {};
  std::vector<DecodeStep> of_text = {};

  // Throw FormatError if a pattern takes too long, or if a text becomes longer than 64 times its bytes and 1 MiB.
  std::string of_token(std::string_view token, TokenPlace place) const { return apply(of_tokens, token, place); }
  std::string whole(std::string_view text, TokenPlace place) const { return apply(of_text, text, place); }

  // Do steps of tokens depend on their place?
  bool sees_first() const;
  bool sees_last() const;

 private:
  static std::string apply(std::span<const DecodeStep> steps, std::string_view text, TokenPlace place);
};

}  // namespace SEPPO_ABI
}  // namespace seppo
