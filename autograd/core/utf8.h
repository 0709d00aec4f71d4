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

}  // namespace SEPPO_ABI
}  // namespace seppo
