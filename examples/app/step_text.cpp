// Writes steps for a terminal.
#include "app/steps.h"

#include "app/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace examples {
namespace {

constexpr std::size_t kWidth = 80, kCell = 8;         // characters
constexpr std::size_t kColumns = kWidth / kCell - 1;  // of numbers, beside the row's label

std::string label(const std::vector<std::string>& labels, std::size_t i) {
  return i < labels.size() ? labels[i] : std::to_string(i);
}

// The first characters of a label, right-aligned in a cell.
std::string cell(const std::string& text) {
  const std::vector<std::string_view> characters = split_characters(text);
  const std::size_t length = std::min(characters.size(), kCell - 1);
  std::string kept;
  for (std::size_t i = 0; i < length; ++i) kept += characters[i];
  return std::string(kCell - length, ' ') + kept;
}

std::string columns_text(const Numbers& numbers, const StepLabels& labels, std::size_t first, std::size_t count) {
  std::string text(kCell, ' ');
  for (std::size_t j = first; j < first + count; ++j) text += cell(label(labels.columns, j));
  text += "\n";
  for (std::size_t i = 0; i < numbers.rows; ++i) {
    text += cell(label(labels.rows, i));
    for (std::size_t j = first; j < first + count; ++j) text += cell(short_number(numbers.at(i, j)));
    text += "\n";
  }
  return text;
}

// In lines of the terminal's width, each of which begins with blanks; words stay whole.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string lines, line(indent, ' ');
  for (const std::string_view word : split_blanks(text)) {
    if (line.size() > indent && line.size() + 1 + word.size() > kWidth) {
      lines += line + "\n";
      line = std::string(indent, ' ');
    }
    if (line.size() > indent) line += " ";
    line += word;
  }
  return lines + line + "\n";
}

}  // namespace

std::string short_number(double value) {
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::abs(value);
  if (size >= 10'000 || (size != 0 && size < 0.001)) {
    std::string text = fmt::format("{:.1e}", value);
    if (text[text.size() - 2] == '0') text.erase(text.size() - 2, 1);  // of the exponent
    return text;
  }
  return size < 0.01 ? fmt::format("{:.2g}", value) : fmt::format("{:.3g}", value);
}

std::string matrix_text(const Numbers& numbers, const StepLabels& labels, bool shows_all) {
  std::string text;
  const std::size_t shown = shows_all ? numbers.columns : std::min(numbers.columns, kColumns);
  for (std::size_t first = 0; first < shown; first += kColumns)
    text += columns_text(numbers, labels, first, std::min(kColumns, shown - first));
  if (shown < numbers.columns) text += fmt::format("        ... and {} more columns\n", numbers.columns - shown);
  return text;
}

std::string step_text(const Step& step, const StepLabels& labels, bool shows_all) {
  const Numbers& numbers = step.numbers;
  std::string text = fmt::format("{}: {}  [{}, {}]\n", step.box, step.title, numbers.rows, numbers.columns);
  text += matrix_text(numbers, labels, shows_all);
  if (!step.because || numbers.values.empty()) return text;
  const std::string place = fmt::format("{}, column {}", label(labels.rows, 0), label(labels.columns, 0));
  return text + wrapped(fmt::format("{}: {} = {}", place, short_number(numbers.at(0, 0)), step.because(0, 0)), 4);
}

}  // namespace examples
