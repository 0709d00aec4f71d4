// Subwords: byte-level BPE, learned from the texts of both languages together (Sennrich et al. 2016). Every text has
// tokens, whatever its language and with or without blanks, so that none is unknown.
#pragma once

#include <seppo/nn/text/tokenizer.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace translate {

struct Subwords {
  std::string model = {};  // a tokenizer.json
  seppo::Tokenizer tokenizer = {};

  // The tokens, which count from 0, of a text; and the text of tokens, where bytes that are not UTF-8, and control
  // characters but tabs, become U+FFFD.
  std::vector<int> encode(std::string_view text) const;
  std::string decode(std::span<const int> tokens) const;

  // What each token is called where it is shown: "▁the" with its blank, "<C3>" for a part of a character. No two are
  // equal, nor equal to one of `taken`.
  std::vector<std::string> labels(std::span<const std::string> taken) const;
};

// Learns a vocabulary of at most `size` tokens, of which 256 are the bytes.
Subwords learn_subwords(std::span<const std::string> texts, int size);

// Throws FormatError if `model` is not such a tokenizer.
Subwords load_subwords(std::string model);

}  // namespace translate
