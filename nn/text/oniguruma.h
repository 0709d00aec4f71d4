// The regular expressions of tokenizer.json, which are Oniguruma's, as PCRE2's.
//
// Many patterns mean the same in both. Where they do not, Oniguruma's meaning is written out: `^` and `$` are the ends
// of lines (compile with PCRE2_MULTILINE); `x{1,3}+` repeats x{1,3}; `\h` is a hexadecimal digit; `\s`, `\w` and `\b`
// follow Unicode's White_Space, and Alphabetic, marks, decimal digits and connectors; a script is the Script property,
// not its extensions; classes may contain classes, and `&&` intersects them; `(?i)` holds to the end of its group,
// behind `|` too.
#pragma once

#include "../../autograd/core/real.h"

#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

// A pattern for pcre2_compile with PCRE2_UTF and PCRE2_MULTILINE. It captures nothing. Throws FormatError,
// "NAME: the pattern '...': WHAT is not supported", for what has no counterpart here: references, calls, conditions,
// verbs, extended syntax, other escapes and options, and letters whose other case is not one letter where case is
// ignored; and for more than 16 KiB.
std::string pcre2_pattern(std::string_view pattern, std::string_view name);

}  // namespace SEPPO_ABI
}  // namespace seppo
