// Sets of characters by Oniguruma's names, as the bodies of PCRE2's classes: what may stand between brackets.
#pragma once

#include "../../autograd/core/real.h"

#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

inline constexpr const char* kSpaceSet =
    R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
inline constexpr const char* kWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Outside of a class, Oniguruma counts Latin-1's superscripts and fractions as well.
inline constexpr const char* kLoneWordSet = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
inline constexpr const char* kHexadecimalSet = "0-9A-Fa-f";

// Names are compared without case, blanks, hyphens and underscores; these functions take them without.

// A property, a general category or else a script. PCRE2 does not compile the name of none.
std::string property_set(const std::string& name);
// May the name stand in [:name:]?
bool is_posix_set(std::string_view name);
// Would the letters' other case enlarge the set?
bool is_of_one_case(std::string_view name);

}  // namespace SEPPO_ABI
}  // namespace seppo
