// Asks the terminal, and the environment.
#include "app/terminal.h"

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace examples {
namespace {

std::size_t columns(std::string_view text) {  // characters, not bytes
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// How much of the text fits into `width`: up to the last blank, but at least one word.
std::size_t fitting(std::string_view text, std::size_t width) {
  std::size_t end = std::string_view::npos;
  for (std::size_t blank = text.find(' ', text.find_first_not_of(' ')); blank != std::string_view::npos;
       blank = text.find(' ', blank + 1)) {
    if (end != std::string_view::npos && columns(text.substr(0, blank)) > width) break;
    end = blank;
  }
  return end;
}

bool has_colours(int descriptor) {
  const char *refused = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  const bool is_refused = refused && *refused != '\0';
  return ::isatty(descriptor) == 1 && !is_refused && terminal && std::string_view(terminal) != "dumb";
}

}  // namespace

std::size_t terminal_width(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string fitted(const std::string& line, int descriptor) {
  if (::isatty(descriptor) != 1) return line;
  const std::size_t width = terminal_width(descriptor);
  std::string text;
  std::string rest = line;
  while (columns(rest) > width) {
    const std::size_t end = fitting(rest, width);
    if (end == std::string::npos) break;
    text += rest.substr(0, end) + "\n";
    rest = "    " + rest.substr(std::min(rest.find_first_not_of(' ', end), rest.size()));
  }
  return text + rest;
}

std::string coloured(const std::string& text, Colour colour, int descriptor) {
  return has_colours(descriptor) ? fmt::format("\x1b[{}m{}\x1b[m", static_cast<int>(colour), text) : text;
}

}  // namespace examples
