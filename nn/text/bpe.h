// Byte-pair encoding (Sennrich et al. 2016) of words.
//
// A word is first split into characters or bytes. Then the pair of adjacent tokens whose merge comes first becomes one
// token, the leftmost of equal pairs, until no pair has a merge: O(n log n) for n bytes.
#pragma once

#include "flat_map.h"
#include "text_ids.h"

#include "../../autograd/core/real.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct Bpe {
  // What becomes of two adjacent tokens; those of the lowest order merge first.
  struct Merge {
    std::uint32_t order;
    int result;
  };
  using Bytes = std::array<int, 256>;  // the token of each byte, or kNone
  static constexpr int kNone = -1;

  TextIds ids = {};                    // of the texts into which a word may be split
  FlatMap<Merge> merges = {};          // by merge_key()
  bool is_of_bytes = false;            // words are split into bytes, else into characters
  std::optional<Bytes> fallback = {};  // an unknown character becomes these tokens, if all of its bytes have one
  std::optional<int> unknown = {};     // else this one; without it, it is left out
  bool fuses_unknown = false;          // adjacent ones become one token
  std::string prefix = {};             // of characters that do not begin a word
  std::string suffix = {};             // of the character that ends one
  bool takes_words = false;            // a word that is a token becomes it, whatever its merges

  // Appends the tokens of a word. Returns how many of its bytes have none and were left out.
  std::size_t encode(std::string_view word, std::vector<int>& tokens) const;

  // Merges two tokens into the token of both texts; the second one's prefix is left out. A merge that exists already
  // gets this order. False if there is no token for one of the texts or for both together.
  bool add_merge(std::string_view left, std::string_view right, std::uint32_t order);

  // Orders the merges by the scores of their results, the highest before others. `scores` are of all tokens.
  void order_by_scores(std::span<const double> scores);
};

// The key of the merge of two tokens.
inline std::uint64_t merge_key(int left, int right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
