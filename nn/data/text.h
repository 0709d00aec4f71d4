// Text: splitting it, walking UTF-8, and showing what strangers wrote.
#pragma once

#include "../../autograd/core/real.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace seppo::inline SEPPO_ABI {

// The pieces of a text between blanks: spaces, tabs and line ends.
std::vector<std::string_view> split_blanks(std::string_view text);

// The bytes of the UTF-8 character at the start of a non-empty text; 0 if there is none.
std::size_t character_length(std::string_view text);

// A text safe to show on one line of a terminal: about `limit` bytes at most, control characters and bytes that are not
// UTF-8 as \xNN.
std::string printable(std::string_view text, std::size_t limit = 60);
// The same for a path, for which 120 bytes are allowed.
std::string printable_path(const std::filesystem::path& path);

}  // namespace seppo::inline SEPPO_ABI
