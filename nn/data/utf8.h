// UTF-8: the code points of characters, and where a text stops being valid.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

// The Unicode code point of one character, as character_length() delimits it.
char32_t code_point(std::string_view character);

// How many bytes of the text are valid UTF-8, from its beginning on; text.size() if all are.
std::size_t utf8_length(std::string_view text);

}  // namespace SEPPO_ABI
}  // namespace seppo
