// Asks the terminal, and the environment.
#include "app/terminal.h"

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <algorithm>
#include <cstdlib>
#include <optional>
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

// None if nobody sees what is written: a pipe, a file, or a terminal without columns, as mpirun opens for each process.
std::optional<std::size_t> seen_columns(int descriptor) {
  winsize size{};
  const bool is_seen = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return is_seen ? std::optional<std::size_t>(size.ws_col) : std::nullopt;
}

bool has_colours(int descriptor) {
  const char *refused = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  const bool is_refused = refused && *refused != '\0';
  return seen_columns(descriptor) && !is_refused && terminal && std::string_view(terminal) != "dumb";
}

}  // namespace

std::size_t terminal_width(int descriptor) { return seen_columns(descriptor).value_or(80); }

std::string fitted(const std::string& line, int descriptor) {
  const auto width = seen_columns(descriptor);
  if (!width) return line;
  std::string text;
  std::string rest = line;
  while (columns(rest) > *width) {
    const std::size_t end = fitting(rest, *width);
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
