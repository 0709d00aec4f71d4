// UTF-8 by the table of well-formed sequences (Unicode, 3-7).
#include "utf8.h"

#include <cstdint>
#include <cstring>

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

namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

bool begins_with_ascii_word(std::string_view text) {
  if (text.size() < kWord) return false;
  std::uint64_t word = 0;
  std::memcpy(&word, text.data(), kWord);
  return (word & 0x8080808080808080u) == 0;
}

}  // namespace

char32_t code_point(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  char32_t code = byte(0) & (0x7FU >> character.size());
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3FU);
  return code;
}

std::size_t utf8_length(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    const std::size_t length = begins_with_ascii_word(rest) ? kWord : character_length(rest);
    if (length == 0) break;
    at += length;
  }
  return at;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
