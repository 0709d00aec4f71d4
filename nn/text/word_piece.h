// WordPiece (Schuster and Nakajima 2012), BERT's, and whole words as tokens.
#pragma once

#include "text_ids.h"
#include "text_trie.h"

#include "../../autograd/core/real.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// The longest token with which the word begins, then with which the rest begins, and so on. A word of which some rest
// begins with no token, or that has more characters, is unknown.
struct WordPiece {
  TextTrie first = {}, inner = {};  // tokens that begin words, and those within, without their prefix
  int unknown = 0;
  std::size_t most_characters = 100;

  std::size_t encode(std::string_view word, std::vector<int>& tokens) const;
};

// A word that is no token is unknown, or left out if there is no token for that.
struct WordLevel {
  static constexpr int kNone = -1;
  TextIds ids = {};
  int unknown = kNone;

  std::size_t encode(std::string_view word, std::vector<int>& tokens) const;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
