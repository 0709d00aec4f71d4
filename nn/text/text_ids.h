// Ids of tokens by their texts.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace seppo {
inline namespace SEPPO_ABI {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// Texts are looked up without being copied.
using TextIds = std::unordered_map<std::string, int, TextHash, std::equal_to<>>;

// How the token of a byte is written: "<0x0A>".
inline std::string name_of_byte(int byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[static_cast<std::size_t>(byte >> 4)], kDigits[static_cast<std::size_t>(byte & 15)],
          '>'};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
