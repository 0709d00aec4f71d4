// Texts for a terminal: wrapped between words to its width, at most 80 columns, and 80 where output is no terminal.
#pragma once

#include <string>
#include <vector>

namespace examples {

// Lines that begin with a blank stay lines; the others are joined to paragraphs and wrapped.
std::string wrapped_paragraphs(const std::string& text);

// An option or command and, beside or below it, what it does.
std::string help_entry(const std::string& name, const std::string& text);

// The option that an unknown one was probably meant to be, among `names`: by what other tools of the field call it, or
// by its spelling; empty if there is none.
std::string nearest_option(std::string name, const std::vector<std::string>& names);

}  // namespace examples
