// Validates UTF-8 eight bytes at a time while they are ASCII.
#include "utf8.h"

#include "text.h"

#include <cstdint>
#include <cstring>

namespace seppo {
inline namespace SEPPO_ABI {

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
