// Text in double quotes, as JSON and Graphviz read it.
#pragma once

#include "../core/real.h"

#include <string>
#include <string_view>

namespace seppo::inline SEPPO_ABI {

// Quotes and backslashes are escaped, control characters become blanks.
inline std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  }
  return result + '"';
}

}  // namespace seppo::inline SEPPO_ABI
