// Splits at whitespace, and after each character.
#include "app/words.h"

#include <seppo/autograd/core/utf8.h>

#include <algorithm>

namespace examples {

std::vector<std::string_view> split_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::vector<std::string_view> pieces;
  for (std::size_t begin; (begin = text.find_first_not_of(kBlanks)) != std::string_view::npos;) {
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_of(kBlanks), text.size());
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return pieces;
}

std::string joined(std::span<const std::string> words, std::string_view between) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

std::vector<std::string_view> split_characters(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, seppo::character_length(text));
    characters.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return characters;
}

}  // namespace examples
