// Bytes that are printable in Latin-1 are themselves; the others count from U+0100.
#include "alphabet.h"

#include "characters.h"

#include <array>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

std::vector<std::string> made_alphabet() {
  std::vector<std::string> characters;
  char32_t next = kByteValues;  // the code point of the next byte that has no printable character of its own
  for (int byte = 0; byte < kByteValues; ++byte) {
    const bool is_printable = (byte >= '!' && byte <= '~') || (byte > 0xA0 && byte != 0xAD);
    append_utf8(characters.emplace_back(), is_printable ? static_cast<char32_t>(byte) : next);
    if (!is_printable) ++next;
  }
  return characters;
}

constexpr char32_t kCodes = 512;  // those of the alphabet are below

// By the code point, the byte or -1.
std::array<int, kCodes> made_bytes() {
  std::array<int, kCodes> bytes;
  bytes.fill(-1);
  int byte = 0;
  for (const std::string& character : gpt2_alphabet()) bytes[code_point(character)] = byte++;
  return bytes;
}

}  // namespace

const std::vector<std::string>& gpt2_alphabet() {
  static const std::vector<std::string> kAlphabet = made_alphabet();
  return kAlphabet;
}

std::string in_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += gpt2_alphabet()[static_cast<unsigned char>(byte)];
  return text;
}

std::optional<std::string> from_alphabet(std::string_view text) {
  static const std::array<int, kCodes> kByteOf = made_bytes();
  std::string bytes;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const char32_t code = length > 0 ? code_point(text.substr(0, length)) : kCodes;
    if (code >= kCodes || kByteOf[code] < 0) return {};
    bytes += static_cast<char>(kByteOf[code]);
    text.remove_prefix(length);
  }
  return bytes;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
