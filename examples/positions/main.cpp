// positions: the positional encodings as pictures, and what sets the sinusoid apart.
#include "app/checkpoint_config.h"
#include "app/command_line.h"

#include <seppo/nn/io/safetensors.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>

namespace {

using examples::CommandLine;
using seppo::PositionalEncoding;

struct Table {
  std::string name;
  int rows, columns;
  std::vector<double> values;
  double at(int n, int j) const { return values[static_cast<std::size_t>(n * columns + j)]; }
};

Table encode(const std::string& name, int length, int width) {
  const seppo::Positions kind = examples::parse_positions(name);
  Table table{name, length, width, {}};
  for (int n = 0; n < length; ++n)
    for (int j = 0; j < width; ++j) table.values.push_back(PositionalEncoding::value(kind, n, j, length, width));
  return table;
}

// Each value as a shade, from the lowest of the table to the highest.
std::string heat_map(const Table& table) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  const auto [low, high] = std::minmax_element(table.values.begin(), table.values.end());
  std::string text = fmt::format("{}: rows are positions, columns dimensions; ' ' is {:.2g}, '@' is {:.2g}\n",
                                 table.name, *low, *high);
  for (int n = 0; n < table.rows; ++n) {
    text += fmt::format("{:>5} | ", n);
    for (int j = 0; j < table.columns; ++j) {
      const double share = *high > *low ? (table.at(n, j) - *low) / (*high - *low) : 0;
      text += kShades[static_cast<std::size_t>(std::lround(share * 9))];
    }
    text += " |\n";
  }
  return text;
}

std::string svg(const Table& table) {
  constexpr int kCell = 12, kLeft = 40, kTop = 28;
  const auto [low, high] = std::minmax_element(table.values.begin(), table.values.end());
  const int width = kLeft + table.columns * kCell + 8, height = kTop + table.rows * kCell + 8;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"10\"><style>svg{{background:#fff;color:#222}}text{{fill:currentColor}}rect{{fill:#0b61a4}}"
      "@media(prefers-color-scheme:dark){{svg{{background:#16181c;color:#ddd}}rect{{fill:#6db3f2}}}}</style>\n"
      "<text x=\"{2}\" y=\"16\" font-size=\"13\">{3}</text>\n",
      width, height, kLeft, table.name);
  for (int n = 0; n < table.rows; ++n) {
    if (n % 4 == 0)
      text +=
          fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft - 4, kTop + n * kCell + 10, n);
    for (int j = 0; j < table.columns; ++j)
      text += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill-opacity=\"{:.3f}\"/>\n",
                          kLeft + j * kCell, kTop + n * kCell, kCell, kCell,
                          *high > *low ? (table.at(n, j) - *low) / (*high - *low) : 0);
  }
  return text + "</svg>\n";
}

// Positions that no other position's row equals.
int distinct_rows(const Table& table) {
  std::set<std::vector<long>> rows;
  for (int n = 0; n < table.rows; ++n) {
    std::vector<long> row;
    for (int j = 0; j < table.columns; ++j) row.push_back(std::lround(1e9 * table.at(n, j)));
    rows.insert(row);
  }
  return static_cast<int>(rows.size());
}

// A step of k positions is one rotation for each pair of columns, whatever the position: PE(n + k) = M_k PE(n). The
// largest error over all positions.
double rotation_error(const Table& table, int k) {
  double worst = 0;
  for (int n = 0; n + k < table.rows; ++n)
    for (int j = 0; j + 1 < table.columns; j += 2) {
      const double angle = k / std::pow(10000.0, static_cast<double>(j) / table.columns);
      const double sine = table.at(n, j), cosine = table.at(n, j + 1);
      worst = std::max({worst, std::abs(std::cos(angle) * sine + std::sin(angle) * cosine - table.at(n + k, j)),
                        std::abs(std::cos(angle) * cosine - std::sin(angle) * sine - table.at(n + k, j + 1))});
    }
  return worst;
}

int run(const std::vector<std::string>& arguments) {
  int length = 32, width = 32;
  std::filesystem::path folder;
  CommandLine line(
      "usage: positions [options]",
      "Draws the positional encodings that are not learned, tells how many positions each keeps apart, and shows\n"
      "that for the sinusoid a step of k positions is the same rotation everywhere.");
  line.integer("length", &length, 1, 4096, "positions");
  line.integer("width", &width, 1, 512, "dimensions");
  line.path("svg", &folder, "folder for pictures, one for each encoding");
  if (!line.parse(arguments)) return 0;
  if (!folder.empty()) std::filesystem::create_directories(folder);

  for (const std::string& name : examples::position_names()) {
    if (name == "learned" || name == "none") continue;
    const Table table = encode(name, length, width);
    std::cout << heat_map(table)
              << fmt::format("keeps {} of {} positions apart; largest value {:.3g}\n\n", distinct_rows(table), length,
                             *std::max_element(table.values.begin(), table.values.end()));
    if (!folder.empty()) seppo::write_file_atomically(folder / (name + ".svg"), svg(table));
  }
  const Table sinusoid = encode("sinusoid", length, width - width % 2);
  std::cout << "sinusoid: PE(n + k) = M_k PE(n), M_k made of rotations by k / 10000^(2i/d):\n";
  for (const int k : {1, 3, 10})
    if (k < length)
      std::cout << fmt::format("  k = {:>2}: largest error over all positions {:.1e}\n", k,
                               rotation_error(sinusoid, k));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::guarded(argv[0], [&] { return run({argv + 1, argv + argc}); });
}
