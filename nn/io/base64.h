// Base64 (RFC 4648, section 4): bytes as text.
#pragma once

#include "../../autograd/core/real.h"

#include <optional>
#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

// Written without padding.
std::string to_base64(std::string_view bytes);

// The bytes of a text with or without padding; nothing if it has other characters than base64's.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace SEPPO_ABI
}  // namespace seppo
