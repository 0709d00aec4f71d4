// Characters of few kinds by their code points; those of words by a pattern.
#include "characters.h"

#include "pattern.h"

namespace seppo {
inline namespace SEPPO_ABI {

void append_utf8(std::string& text, char32_t code) {
  const auto byte = [&](char32_t value) { text += static_cast<char>(static_cast<unsigned char>(value)); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

bool is_white_space(char32_t code) {
  const bool is_latin = (code >= 0x9 && code <= 0xD) || code == 0x20 || code == 0x85 || code == 0xA0;
  const bool is_wide = code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x202F || code == 0x205F;
  return is_latin || is_wide || code == 0x2028 || code == 0x2029 || code == 0x3000;
}

bool is_word_character(std::string_view character) {
  static const Pattern kWord("[\\w\\x{200C}\\x{200D}]", "characters of words");
  Matcher matcher(character.size());
  return kWord.find(character, 0, matcher).has_value();
}

std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

std::size_t white_space_at_end(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0) {
    const std::size_t character = last_character(text.substr(0, begin));
    if (!is_white_space(code_point(text.substr(character, begin - character)))) break;
    begin = character;
  }
  return text.size() - begin;
}

std::size_t white_space_at_start(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size()) {
    const std::string_view character = text.substr(end, character_length(text.substr(end)));
    if (!is_white_space(code_point(character))) break;
    end += character.size();
  }
  return end;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
