// Splits at whitespace, and validates UTF-8, eight bytes at a time while they are ASCII.
#include "app/words.h"

#include <seppo/autograd/core/utf8.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

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

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

char32_t code_point(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  char32_t code = character.size() == 1 ? byte(0) : byte(0) & (0x7FU >> character.size());
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3FU);
  return code;
}

std::size_t utf8_length(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = ~std::uint64_t{0};
    if (text.size() - at >= sizeof eight) std::memcpy(&eight, &text[at], sizeof eight);
    const bool is_ascii = (eight & 0x8080808080808080u) == 0;
    const std::size_t length = is_ascii ? sizeof eight : seppo::character_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

}  // namespace examples
