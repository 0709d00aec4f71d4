// Base64 (RFC 4648, 4), without padding: bytes as text.
#pragma once

#include <string>
#include <string_view>

namespace examples {

std::string base64(std::string_view bytes);

// The opposite. Throws FormatError, which begins with `what`, if the text has other characters.
std::string from_base64(std::string_view text, std::string_view what);

}  // namespace examples
