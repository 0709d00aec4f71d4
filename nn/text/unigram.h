// SentencePiece's unigram language model (Kudo 2018): of all splits of a word into tokens, the one whose scores,
// logarithms of probabilities, have the greatest sum.
//
// A character that is no token counts as the lowest score minus 10, becomes bytes if those are tokens, and else the
// unknown token; adjacent ones become one. Of equal sums, that of the first found path remains, as in SentencePiece.
#pragma once

#include "bpe.h"
#include "text_trie.h"

#include "../../autograd/core/real.h"

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct Unigram {
  TextTrie pieces = {};
  std::vector<double> scores = {};          // by id
  std::optional<int> unknown = {};          // without it, unknown characters are left out
  std::optional<Bpe::Bytes> fallback = {};  // the token of each byte
  double lowest = 0;                        // of all scores

  // Appends the tokens of a word of valid UTF-8, or of one byte that is none. Returns how many bytes were left out.
  std::size_t encode(std::string_view word, std::vector<int>& tokens) const;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
