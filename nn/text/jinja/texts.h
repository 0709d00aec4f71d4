// Python's methods of texts.
#pragma once

#include "value.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {
namespace jinja {

// The bytes of the white space that a text begins with, as str.isspace() has it; and before its end.
std::size_t leading_space(std::string_view text);
std::size_t trailing_space(std::string_view text);

enum class Ends { left, right, both };
std::string_view without_space(std::string_view text, Ends ends);
std::string_view without_characters(std::string_view text, std::string_view characters, Ends ends);

List characters_of(std::string_view text);
List split_at_space(std::string_view text);
// At most so many times; any number if it is negative. The separator is not empty.
List split(std::string_view text, std::string_view separator, std::int64_t most);
std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t most);

// These throw ArgumentError for letters beyond ASCII, lower() only for some, or if there are no tables (unicode.h).
std::string upper(std::string text);
std::string lower(std::string text);
std::string capitalized(std::string text);
std::string titled(std::string text);  // as Jinja's filter, not as Python's method

}  // namespace jinja
}  // namespace SEPPO_ABI
}  // namespace seppo
