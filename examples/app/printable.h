// Untrusted text on a terminal, where control characters could do harm: text of the model files and configs of others,
// and what their models write. In messages, fmt prints seppo::printable(text), as seppo's own messages do.
#pragma once

#include <seppo/autograd/core/printable.h>

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace examples {

// Has the text a control character other than a tab, or is it not UTF-8?
bool has_controls(std::string_view text);

// The text on one line of standard output or of a file: control characters other than tabs become \xNN.
std::string shown_line(std::string_view text);

// The text for a terminal: control characters other than tabs and newlines become \xNN.
std::string shown_lines(std::string_view text);

// The text for standard output: shown_lines() on a terminal; unchanged in a file or a pipe, whose reader wants it as it
// is.
std::string shown(std::string_view text);

}  // namespace examples

template <>
struct fmt::formatter<seppo::Printable> : fmt::formatter<std::string> {
  auto format(const seppo::Printable& shown, fmt::format_context& context) const {
    return fmt::formatter<std::string>::format(shown, context);
  }
};
