// positions: the positional encodings as pictures, and what sets the sinusoid apart.
#include "app/command_line.h"
#include "app/course_positions.h"
#include "app/paths.h"

#include <seppo/nn/io/text_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>

namespace {

using examples::CommandLine;
using examples::Positions;

constexpr Positions kDrawn[] = {Positions::sinusoid, Positions::cosinusoid, Positions::floor_sinusoid,
                                Positions::count,    Positions::simple,     Positions::binary};

const char* name_of(Positions kind) { return enum_names(kind)[static_cast<std::size_t>(kind)]; }

struct Table {
  std::string name;
  int rows, columns;
  std::vector<double> values;
  double at(int n, int j) const { return values[static_cast<std::size_t>(n * columns + j)]; }
};

Table encode(Positions kind, int length, int width) {
  Table table{name_of(kind), length, width, {}};
  for (int n = 0; n < length; ++n)
    for (int j = 0; j < width; ++j) table.values.push_back(examples::position_value(kind, n, j, length, width));
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

// Zero is blank, positive values are red, negative ones blue; the larger the magnitude, the deeper the colour.
std::string svg(const Table& table) {
  constexpr int kCell = 12, kLeft = 56, kTop = 48, kRamp = 120;
  double most = 0;
  for (const double v : table.values) most = std::max(most, std::abs(v));
  const auto cell = [&](int x, int y, int width, double v) {
    return fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill-opacity=\"{:.3f}\"/>\n",
                       v < 0 ? 'n' : 'p', x, y, width, kCell, most > 0 ? std::abs(v) / most : 0);
  };
  const auto text = [](int x, int y, const char* anchor, const std::string& content, const char* more = "") {
    return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more, content);
  };
  const int right = kLeft + table.columns * kCell, bottom = kTop + table.rows * kCell;
  const int width = std::max(right + 16, kLeft + kRamp + 60), height = bottom + 48;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"10\"><style>svg{{background:#fff;color:#222}}text{{fill:currentColor}}"
      ".p{{fill:#b2182b}}.n{{fill:#2166ac}}.frame{{fill:none;stroke:#8888}}"
      "@media(prefers-color-scheme:dark){{svg{{background:#16181c;color:#ddd}}.p{{fill:#f4775e}}.n{{fill:#6db3f2}}}}"
      "</style>\n",
      width, height);
  svg += text(kLeft, 16, "start", table.name, " font-size=\"13\"") +
         text((kLeft + right) / 2, 30, "middle", "dimension") +
         fmt::format("<text transform=\"translate(14,{}) rotate(-90)\" text-anchor=\"middle\">position</text>\n",
                     (kTop + bottom) / 2);
  for (int j = 0; j < table.columns; j += 8)
    svg += text(kLeft + j * kCell + kCell / 2, kTop - 4, "middle", std::to_string(j));
  for (int n = 0; n < table.rows; ++n) {
    if (n % 4 == 0) svg += text(kLeft - 4, kTop + n * kCell + 10, "end", std::to_string(n));
    for (int j = 0; j < table.columns; ++j) svg += cell(kLeft + j * kCell, kTop + n * kCell, kCell, table.at(n, j));
  }
  for (int step = 0; step < 20; ++step)
    svg += cell(kLeft + step * kRamp / 20, bottom + 14, kRamp / 20, most * (step - 9.5) / 9.5);
  const char* const frame = "<rect class=\"frame\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n";
  return svg + fmt::format(fmt::runtime(frame), kLeft, kTop, table.columns * kCell, table.rows * kCell) +
         fmt::format(fmt::runtime(frame), kLeft, bottom + 14, kRamp, kCell) +
         text(kLeft, bottom + 38, "middle", fmt::format("{:.3g}", -most)) +
         text(kLeft + kRamp / 2, bottom + 38, "middle", "0") +
         text(kLeft + kRamp, bottom + 38, "middle", fmt::format("{:.3g}", most)) + "</svg>\n";
}

// The number of different rows: how many positions the encoding can tell apart.
int distinct_rows(const Table& table) {
  std::set<std::vector<long>> rows;
  for (int n = 0; n < table.rows; ++n) {
    std::vector<long> row;
    for (int j = 0; j < table.columns; ++j) row.push_back(std::lround(1e9 * table.at(n, j)));
    rows.insert(row);
  }
  return static_cast<int>(rows.size());
}

// The least and the largest distance of neighbours, |PE(n + 1) - PE(n)|.
std::string distances(Positions kind, int length, int width) {
  const Table table = encode(kind, length, width);
  double least = INFINITY, most = 0;
  for (int n = 0; n + 1 < length; ++n) {
    double squares = 0;
    for (int j = 0; j < width; ++j) squares += std::pow(table.at(n + 1, j) - table.at(n, j), 2);
    least = std::min(least, std::sqrt(squares));
    most = std::max(most, std::sqrt(squares));
  }
  return fmt::format("{:.3g} {:.3g}", least, most);
}

void print_distances(int width) {
  std::cout << fmt::format(
      "\nleast and largest distance of neighbours in sequences of 4, 16, 64 and 256 positions, width {}:\n", width);
  for (const Positions kind : kDrawn) {
    std::cout << fmt::format("  {:<16}", name_of(kind));
    for (const int length : {4, 16, 64, 256}) std::cout << fmt::format("{:>18}", distances(kind, length, width));
    std::cout << "\n";
  }
}

// PE(i) . PE(j) for all pairs of positions.
Table products(const Table& table) {
  Table products{table.name + ", PE(i).PE(j)", table.rows, table.rows, {}};
  for (int i = 0; i < table.rows; ++i)
    for (int j = 0; j < table.rows; ++j) {
      double sum = 0;
      for (int c = 0; c < table.columns; ++c) sum += table.at(i, c) * table.at(j, c);
      products.values.push_back(sum);
    }
  return products;
}

// The products with position 0, up to where they rise for the first time: a product does not tell the distance.
void print_products(const Table& sinusoid) {
  const Table all = products(sinusoid);
  std::cout << "\nsinusoid: PE(0).PE(k), which depends on the distance alone:\n  k ";
  const int shown = std::min(all.rows, 12);
  for (int k = 0; k < shown; ++k) std::cout << fmt::format("{:>6}", k);
  std::cout << "\n    ";
  for (int k = 0; k < shown; ++k) std::cout << fmt::format("{:>6.2f}", all.at(0, k));
  int rise = 1;
  while (rise < all.rows && all.at(0, rise) <= all.at(0, rise - 1)) ++rise;
  if (rise < all.rows) std::cout << fmt::format("\n  falls until k = {}, then rises again", rise - 1);
  std::cout << "\n";
}

// Some columns of an encoding, or the products with position 0, as curves over the positions.
std::string curves(const Table& table, const std::vector<int>& columns, const std::string& title) {
  constexpr int kLeft = 48, kTop = 40, kWidth = 480, kHeight = 180;
  constexpr const char* kColours[] = {"#c2410c", "#0b7ac4", "#2e8b45", "#9155c0"};
  const auto extremes = std::minmax_element(table.values.begin(), table.values.end());
  const double low = *extremes.first, high = *extremes.second;
  const double span = std::max(high - low, 1e-9);
  const auto y = [&](double v) { return kTop + kHeight - (v - low) / span * kHeight; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"11\"><style>svg{{background:#fff;color:#222}}text{{fill:currentColor}}"
      "polyline,rect{{fill:none}}polyline{{stroke-width:1.5}}rect{{stroke:#8888}}"
      "@media(prefers-color-scheme:dark){{svg{{background:#16181c;color:#ddd}}}}</style>\n"
      "<text x=\"{2}\" y=\"18\" font-size=\"13\">{3}</text>\n",
      kLeft + kWidth + 24, kTop + kHeight + 40, kLeft, title);
  for (const double v : {low, high})
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.3g}</text>\n", kLeft - 6, y(v) + 4, v);
  svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n", kLeft, kTop, kWidth, kHeight);
  const double step = static_cast<double>(kWidth) / std::max(1, table.rows - 1);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::string points;
    for (int n = 0; n < table.rows; ++n)
      points += fmt::format("{:.1f},{:.1f} ", kLeft + n * step, y(table.at(n, columns[c])));
    svg += fmt::format("<polyline stroke=\"{}\" points=\"{}\"/>\n", kColours[c], points);
    if (columns.size() > 1)
      svg += fmt::format("<text style=\"fill:{}\" x=\"{}\" y=\"{}\">dimension {}</text>\n", kColours[c],
                         kLeft + 8 + 110 * static_cast<int>(c), kTop + kHeight + 30, columns[c]);
  }
  for (int n = 0; n < table.rows; n += std::max(1, (table.rows + 7) / 8))
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", kLeft + n * step,
                       kTop + kHeight + 15, n);
  return svg + "</svg>\n";
}

// The largest error of PE(n + k) = M_k PE(n) over all positions n: a step of k positions rotates each pair of columns
// by an angle that does not depend on n.
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

// Four columns as waves, from short to long; the products as a map and, with position 0, as a curve.
void draw_sinusoid(const std::filesystem::path& folder, const Table& sinusoid) {
  std::vector<int> columns;
  for (const int j : {0, 2, 8, 16})
    if (j < sinusoid.columns) columns.push_back(j);
  seppo::write_text(folder / "waves.svg", curves(sinusoid, columns, "sinusoid by position"));
  const Table all = products(sinusoid);
  seppo::write_text(folder / "products.svg", svg(all));
  seppo::write_text(folder / "products-with-0.svg", curves(all, {0}, "sinusoid, PE(0).PE(k) by k"));
}

int run(const examples::Arguments& arguments) {
  int length = 32, width = 32;
  std::filesystem::path folder;
  CommandLine line(
      "positions [options]",
      "Draws the positional encodings that are not learned; tells how many positions each keeps apart, how far "
      "neighbours are from each other, and how the sinusoid's products depend on the distance; and shows that for the "
      "sinusoid a step of k positions is the same rotation everywhere.");
  line("length", length, {1, 4096}, "positions");
  line("width", width, {2, 512}, "dimensions");
  line("svg", folder, "folder for pictures: one per encoding, and the sinusoid's waves and products");
  if (!line.parse(arguments)) return 0;
  if (!folder.empty()) examples::prepare_folder("svg", folder);

  for (const Positions kind : kDrawn) {
    const Table table = encode(kind, length, width);
    std::cout << heat_map(table)
              << fmt::format("keeps {} of {} positions apart; largest value {:.3g}\n\n", distinct_rows(table), length,
                             *std::max_element(table.values.begin(), table.values.end()));
    if (!folder.empty()) seppo::write_text(folder / (table.name + ".svg"), svg(table));
  }
  const Table sinusoid = encode(Positions::sinusoid, length, width - width % 2);
  std::cout << "sinusoid: PE(n + k) = M_k PE(n), M_k made of rotations by k / 10000^(2i/d):\n";
  for (const int k : {1, 3, 10})
    if (k < length)
      std::cout << fmt::format("  k = {:>2}: largest error over all positions {:.1e}\n", k,
                               rotation_error(sinusoid, k));
  print_products(sinusoid);
  print_distances(width);
  if (!folder.empty()) draw_sinusoid(folder, sinusoid);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run_command(argc, argv, run); }
