// UTF-8.
//
//   for (; !text.empty(); text.remove_prefix(character_length(text)))  // character by character, if all is well-formed
#pragma once

#include "real.h"

#include <cstddef>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

// The bytes of the UTF-8 character at the start of a non-empty text; 0 if there is none.
std::size_t character_length(std::string_view text);

// The Unicode code point of one character, as character_length() delimits it.
char32_t code_point(std::string_view character);

// How many bytes of the text are valid UTF-8, from its beginning on; text.size() if all are.
std::size_t utf8_length(std::string_view text);

}  // namespace SEPPO_ABI
}  // namespace seppo
