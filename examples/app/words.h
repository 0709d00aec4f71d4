// Splitting text: whitespace-separated words, and UTF-8 characters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace examples {

// The words of a text, separated by spaces, tabs and line ends.
std::vector<std::string_view> split_blanks(std::string_view text);
// The opposite: these words, with a space between each two.
std::string joined(const std::vector<std::string>& words);

// The Unicode code point of a character (seppo::character_length).
char32_t code_point(std::string_view character);
// The number of bytes before the first that is not UTF-8; text.size() if all are.
std::size_t utf8_length(std::string_view text);

}  // namespace examples
