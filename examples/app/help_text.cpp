// Word wrapping, and suggestions for misspelt options.
#include "app/help_text.h"

#include "app/terminal.h"
#include "app/words.h"

#include <unistd.h>
#include <algorithm>
#include <numeric>
#include <string_view>

namespace examples {
namespace {

std::size_t help_width() { return std::min<std::size_t>(terminal_width(STDOUT_FILENO), 80); }

std::size_t columns(std::string_view text) {  // characters, not bytes
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// Wraps `text` into lines that are indented by `indent` spaces; the first line continues at column `at`.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t at) {
  const std::size_t width = help_width();
  std::string result;
  bool is_first = true;
  for (const std::string_view word : split_blanks(text)) {
    if (!is_first && at + 1 + columns(word) > width) {
      result += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (!is_first) {
      result += ' ';
      ++at;
    }
    result += word;
    at += columns(word);
    is_first = false;
  }
  return result + "\n";
}

// Characters inserted, deleted or replaced to turn a into b (Levenshtein 1966).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 0, diagonal = i; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = j == 0 ? i : std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  return row.back();
}

}  // namespace

std::string wrapped_paragraphs(const std::string& text) {
  std::string result, paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) result += wrapped(paragraph, 0, 0);
    paragraph.clear();
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (line.empty() || line[0] == ' ') {
      end_paragraph();
      result += line + "\n";
    } else {
      paragraph += line + " ";
    }
    begin = end + 1;
  }
  end_paragraph();
  return result;
}

std::string help_entry(const std::string& name, const std::string& text) {
  const std::size_t column = help_width() >= 60 ? 24 : 6, end = 2 + columns(name);
  const std::string gap = end + 2 > column ? "\n" + std::string(column, ' ') : std::string(column - end, ' ');
  return "  " + name + gap + wrapped(text, column, column);
}

std::string nearest_option(std::string name, const std::vector<std::string>& names) {
  constexpr std::size_t kLongest = 40;
  name.erase(0, name.find_first_not_of('-'));
  std::ranges::replace(name, '_', '-');
  if (name.size() > kLongest) return "";
  std::string nearest;
  std::size_t least = 1 + name.size() / 3;
  for (const std::string& known : names) {
    const std::size_t d = distance(name, known);
    if (d >= least) continue;
    least = d;
    nearest = known;
  }
  return nearest;
}

}  // namespace examples
