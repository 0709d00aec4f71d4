// What a table of all Unicode characters says of them: normal forms, lower case, marks. By utf8proc, if it was found
// when the library was built.
#pragma once

#include "../../autograd/core/real.h"

#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

// Is there such a table? The other functions throw std::logic_error if not.
bool has_unicode_tables();

// Unicode's annex 15.
enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string normal_form(std::string_view text, NormalForm form);

// Each letter by itself: a sigma at the end of a word is as any other.
std::string lower_case(std::string_view text);

bool is_mark(char32_t code);             // general category M
bool is_nonspacing_mark(char32_t code);  // Mn
bool is_other(char32_t code);            // Cc, Cf, Cs or Co
// The bytes of the first grapheme cluster of valid UTF-8 (annex 29).
std::size_t grapheme_length(std::string_view text);

}  // namespace SEPPO_ABI
}  // namespace seppo
