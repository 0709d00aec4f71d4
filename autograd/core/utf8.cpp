// UTF-8 by the table of well-formed sequences (Unicode, 3-7).
#include "utf8.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// The length that a character's first byte gives; 0 if none begins with it.
std::size_t length_from(unsigned lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a continuation, or overlong
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  if (lead < 0xF5) return 4;
  return 0;  // beyond U+10FFFF
}

// Is a character of three or four bytes overlong, a surrogate, or beyond U+10FFFF?
bool is_excluded(unsigned lead, unsigned second) {
  switch (lead) {
    case 0xE0:
      return second < 0xA0;
    case 0xED:
      return second > 0x9F;
    case 0xF0:
      return second < 0x90;
    case 0xF4:
      return second > 0x8F;
    default:
      return false;
  }
}

}  // namespace

std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = length_from(byte(0));
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if (length > 1 && is_excluded(byte(0), byte(1))) return 0;
  return length;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
