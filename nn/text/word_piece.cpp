// Each step walks down a trie as far as it has tokens.
#include "word_piece.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

std::size_t characters_of(std::string_view word) {
  return static_cast<std::size_t>(
      std::ranges::count_if(word, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

std::size_t WordPiece::encode(std::string_view word, std::vector<int>& tokens) const {
  const std::size_t begin = tokens.size();
  bool is_known = characters_of(word) <= most_characters;
  for (std::string_view rest = word; is_known && !rest.empty();) {
    const auto [length, token] = (rest.size() == word.size() ? first : inner).longest(rest);
    is_known = length > 0;
    if (is_known) tokens.push_back(token);
    rest.remove_prefix(length);
  }
  if (is_known) return 0;
  tokens.resize(begin);
  tokens.push_back(unknown);
  return 0;
}

std::size_t WordLevel::encode(std::string_view word, std::vector<int>& tokens) const {
  const auto found = ids.find(word);
  const int token = found != ids.end() ? found->second : unknown;
  if (token == kNone) return word.size();
  tokens.push_back(token);
  return 0;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
