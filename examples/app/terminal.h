// What a terminal can show: its width, whole words, and colours.
#pragma once

#include <cstddef>
#include <string>

namespace examples {

// The columns of the terminal that a descriptor writes to; 80 if it is none.
std::size_t terminal_width(int descriptor);

// On a terminal, the line is broken at blanks, and what follows is indented; elsewhere it stays as it is, also where
// nobody sees it, as on those without columns that mpirun opens.
std::string fitted(const std::string& line, int descriptor);

enum class Colour { red = 31 };

// Coloured on a terminal, unless it is a dumb one or NO_COLOR is set (https://no-color.org).
std::string coloured(const std::string& text, Colour colour, int descriptor);

}  // namespace examples
