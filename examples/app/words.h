// The words and characters of a text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

// The words of a text, separated by spaces, tabs and line ends.
std::vector<std::string_view> split_blanks(std::string_view text);
// The opposite: these words, with a space or something else between each two.
std::string joined(std::span<const std::string> words, std::string_view between = " ");

// The characters of a text in UTF-8; a byte that belongs to none is one, too.
std::vector<std::string_view> split_characters(std::string_view text);

}  // namespace examples
