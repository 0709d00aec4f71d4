// Escapes control characters one by one.
#include "app/printable.h"

#include "app/words.h"

#include <unistd.h>

namespace examples {
namespace {

// Replaces each control character and invalid byte that is none of `harmless`.
std::string escaped_but(std::string_view harmless, std::string_view text) {
  std::string result;
  for (const std::string_view character : split_characters(text))
    if (harmless.find(character) != std::string_view::npos)
      result += character;
    else
      seppo::append(result, seppo::printable(character));
  return result;
}

}  // namespace

bool has_controls(std::string_view text) { return shown_line(text) != text; }

std::string shown_line(std::string_view text) { return escaped_but("\t", text); }

std::string shown_lines(std::string_view text) { return escaped_but("\t\n", text); }

std::string shown(std::string_view text) {
  static const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  return is_terminal ? shown_lines(text) : std::string(text);
}

}  // namespace examples
