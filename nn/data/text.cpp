// Text: splitting, UTF-8 by the table of well-formed sequences (Unicode, 3-7), and escaping.
#include "text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace seppo::inline SEPPO_ABI {

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

std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0x80                   ? 1
                             : lead >= 0xC2 && lead < 0xE0 ? 2
                             : lead >= 0xE0 && lead < 0xF0 ? 3
                             : lead >= 0xF0 && lead < 0xF5 ? 4
                                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) || (lead == 0xF0 && byte(1) < 0x90) ||
      (lead == 0xF4 && byte(1) > 0x8F))
    return 0;  // overlong, surrogate, or beyond U+10FFFF
  return length;
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
    const std::size_t length = is_ascii ? sizeof eight : character_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

void append(std::string& to, const Printable& shown) {
  constexpr char kHex[] = "0123456789abcdef";
  const std::size_t end = to.size() + shown.limit;
  for (std::string_view text = shown.text; !text.empty();) {
    if (to.size() >= end) {
      to += "...";
      return;
    }
    std::size_t length = character_length(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    const bool control =
        byte < 0x20 || byte == 0x7F || (length == 2 && byte == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0);
    if (length == 0 || control) {
      to += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      length = 1;
    } else {
      to += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
}

std::string operator+(std::string text, const Printable& shown) {
  append(text, shown);
  return text;
}

Printable::operator std::string() const { return std::string() + *this; }

}  // namespace seppo::inline SEPPO_ABI
