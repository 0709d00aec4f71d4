// Text for a terminal: wrapped between words to its width, at most 80 columns, and to 80 if the output is not a
// terminal.
#pragma once

#include <string>
#include <vector>

namespace examples {

// Lines that begin with a space are kept; the others are joined into paragraphs and wrapped.
std::string wrapped_paragraphs(const std::string& text);

// An option or command and, beside or below it, what it does.
std::string help_entry(const std::string& name, const std::string& text);

// The option among `names` whose spelling is nearest to an unknown one; empty if more than a third of its letters
// differ.
std::string nearest_option(std::string name, const std::vector<std::string>& names);

}  // namespace examples
