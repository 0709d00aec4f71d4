// The words of a text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace examples {

// The words of a text, separated by spaces, tabs and line ends.
std::vector<std::string_view> split_blanks(std::string_view text);
// The opposite: these words, with a space between each two.
std::string joined(const std::vector<std::string>& words);

}  // namespace examples
