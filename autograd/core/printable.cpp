// Escapes what a terminal would act on.
#include "printable.h"

#include "utf8.h"

namespace seppo {
inline namespace SEPPO_ABI {

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
