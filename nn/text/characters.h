// Kinds of Unicode characters, and texts character by character.
#pragma once

#include "../../autograd/core/real.h"
#include "../../autograd/core/utf8.h"

#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

// Calls f(character, code point) for each character of valid UTF-8.
template <class F>
void each_character(std::string_view text, const F& f) {
  while (!text.empty()) {
    const std::string_view character = text.substr(0, character_length(text));
    f(character, code_point(character));
    text.remove_prefix(character.size());
  }
}

void append_utf8(std::string& text, char32_t code);

// Unicode's White_Space.
bool is_white_space(char32_t code);
// Letters, marks, decimal digits, connectors, and the two joiners: \w of Unicode's annex 18.
bool is_word_character(std::string_view character);
// Where the last character of valid UTF-8, which is not empty, begins.
std::size_t last_character(std::string_view text);
// The bytes of white space at the end, and at the beginning, of valid UTF-8.
std::size_t white_space_at_end(std::string_view text);
std::size_t white_space_at_start(std::string_view text);

inline bool is_ascii(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  return true;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
