// Ids of tokens by their texts.
#pragma once

#include "../../autograd/core/real.h"

#include <charconv>
#include <cstddef>
#include <functional>
#include <optional>
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

// The byte whose token is written so; none of other texts.
inline std::optional<char> byte_named(std::string_view text) {
  const bool is_named = text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
  unsigned byte = 0;
  if (!is_named || std::from_chars(&text[3], &text[5], byte, 16).ptr != &text[5]) return {};
  return static_cast<char>(byte);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
