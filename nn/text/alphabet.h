// GPT-2's alphabet (Radford et al. 2019): a printable character for each of the 256 bytes, in which byte-level
// tokenizers write their tokens.
#pragma once

#include "../../autograd/core/real.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

inline constexpr int kByteValues = 256;

// The character that represents each of the 256 bytes.
const std::vector<std::string>& gpt2_alphabet();

std::string in_alphabet(std::string_view bytes);
// The bytes that a text represents; none if a character of it represents no byte.
std::optional<std::string> from_alphabet(std::string_view text);

}  // namespace SEPPO_ABI
}  // namespace seppo
