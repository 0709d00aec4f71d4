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

// The option among `names` that was probably meant by an unknown one: the counterpart of another tool's option, or one
// of similar spelling; empty if there is none.
std::string nearest_option(std::string name, const std::vector<std::string>& names);

}  // namespace examples
