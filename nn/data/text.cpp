// Text: UTF-8 by the table of well-formed sequences (Unicode, 3-7), and escaping.
#include "text.h"

namespace seppo {
inline namespace SEPPO_ABI {

std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xC2 ? 0
                             : lead < 0xE0 ? 2
                             : lead < 0xF0 ? 3
                             : lead < 0xF5 ? 4
                                           : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F) || (lead == 0xF0 && byte(1) < 0x90) ||
      (lead == 0xF4 && byte(1) > 0x8F))
    return 0;  // overlong, surrogate, or beyond U+10FFFF
  return length;
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

}  // namespace SEPPO_ABI
}  // namespace seppo
