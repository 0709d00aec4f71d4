// The pictures of positions and attention_lab: every value is drawn at the right place and size.
// needs: programs: all
#include "support/matches.h"
#include "support/program.h"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <iomanip>
#include <set>

using namespace test;

namespace {

// The capture groups of each match.
std::vector<Match> groups(const std::string& text, const std::string& pattern) {
  std::vector<Match> found = matches(text, pattern);
  for (Match& m : found) m.erase(m.begin());
  return found;
}

std::string general(double x, int digits) {
  std::ostringstream text;
  text << std::setprecision(digits) << x;
  return text.str();
}

// Vaswani et al. 2017, 3.5, with sine and cosine in this order or swapped, and the simpler encodings taught in courses.
double position(const std::string& kind, int n, int j, int length, int width) {
  const double angle = n / std::pow(10000.0, (j - j % 2) / static_cast<double>(width));
  if (kind == "sinusoid") return j % 2 == 0 ? std::sin(angle) : std::cos(angle);
  if (kind == "cosinusoid") return j % 2 == 0 ? std::cos(angle) : std::sin(angle);
  if (kind == "floor-sinusoid") return j % 2 == 0 ? std::sin(n) : std::cos(n);
  if (kind == "count") return n;
  if (kind == "simple") return n / static_cast<double>(length);
  return static_cast<int>(n / std::pow(2, j)) % 2;  // binary
}

struct Box {
  int x = 0, y = 0, width = 0, height = 0;
  int right() const { return x + width; }
  int bottom() const { return y + height; }
  bool operator==(const Box&) const = default;
};
Box box(const std::vector<std::string>& m, std::size_t first) {
  return {std::stoi(m[first]), std::stoi(m[first + 1]), std::stoi(m[first + 2]), std::stoi(m[first + 3])};
}

void check_map(const std::string& svg, const std::string& kind, int length, int width) {
  double most = 0;
  for (int n = 0; n < length; ++n)
    for (int j = 0; j < width; ++j) most = std::max(most, std::abs(position(kind, n, j, length, width)));
  const std::string rect = R"re( x="(-?\d+)" y="(-?\d+)" width="(\d+)" height="(\d+)")re";
  const auto cells = groups(svg, R"re(<rect class="([np])")re" + rect + R"re( fill-opacity="([\d.]+)")re");
  const auto frames = groups(svg, R"re(<rect class="frame")re" + rect);
  const auto texts = groups(svg, R"re(<text x="(-?\d+)" y="(-?\d+)" text-anchor="(\w+)"[^>]*>([^<]*)</text>)re");
  const std::size_t count = static_cast<std::size_t>(length * width);
  BOOST_REQUIRE_EQUAL(cells.size(), count + 20);
  BOOST_REQUIRE_EQUAL(frames.size(), 2u);
  const Box first = box(cells[0], 1), frame = box(frames[0], 0);
  // The opacity is the value's share of the largest value, to three digits.
  const auto check_colour = [&](const std::vector<std::string>& cell, double share) {
    BOOST_CHECK(std::abs(share) < 1e-6 || cell[0] == (share < 0 ? "n" : "p"));
    BOOST_CHECK_SMALL(std::stod(cell[5]) - std::abs(share), 0.000501);
  };
  for (int n = 0; n < length; ++n)
    for (int j = 0; j < width; ++j) {
      const auto& cell = cells[static_cast<std::size_t>(n * width + j)];
      const Box here = box(cell, 1);
      BOOST_CHECK(here == Box({first.x + j * first.width, first.y + n * first.height, first.width, first.height}));
      check_colour(cell, position(kind, n, j, length, width) / most);
    }
  BOOST_CHECK(frame == Box({first.x, first.y, first.width * width, first.height * length}));
  const Box ramp = box(frames[1], 0);
  BOOST_CHECK(ramp.x == first.x && ramp.y > frame.bottom());
  for (int step = 0, x = ramp.x; step < 20; ++step) {  // from the lowest to the highest, without gaps
    const auto& cell = cells[count + static_cast<std::size_t>(step)];
    BOOST_CHECK(box(cell, 1) == Box({x, ramp.y, ramp.width / 20, ramp.height}));
    check_colour(cell, (2 * step - 19) / 19.0);
    x += ramp.width / 20;
  }
  const auto check_text = [&](const std::string& content, const std::string& anchor, int x, int above, int below) {
    const bool is_there = std::any_of(texts.begin(), texts.end(), [&](const auto& t) {
      const int y = std::stoi(t[1]);
      return t[3] == content && t[2] == anchor && std::abs(std::stoi(t[0]) - x) <= 1 && y > above && y <= below;
    });
    BOOST_CHECK_MESSAGE(is_there, kind << ": no '" << content << "' at " << x << " between " << above << ", " << below);
  };
  check_text(kind, "start", frame.x, 10, frame.y - 20);
  check_text("dimension", "middle", frame.x + frame.width / 2, 10, frame.y - 14);
  std::size_t labels = 5;
  for (int j = 0; j < width; j += 8, ++labels)
    check_text(std::to_string(j), "middle", first.x + j * first.width + first.width / 2, frame.y - 8, frame.y - 1);
  for (int n = 0; n < length; n += 4, ++labels)
    check_text(std::to_string(n), "end", frame.x - 4, frame.y + n * first.height + 7, frame.y + (n + 1) * first.height);
  check_text(general(-most, 3), "middle", ramp.x, ramp.bottom() + 9, ramp.bottom() + 20);
  check_text("0", "middle", ramp.x + ramp.width / 2, ramp.bottom() + 9, ramp.bottom() + 20);
  check_text(general(most, 3), "middle", ramp.right(), ramp.bottom() + 9, ramp.bottom() + 20);
  BOOST_CHECK_EQUAL(texts.size(), labels);
  const auto upright = groups(svg, R"re(translate\((\d+),(\d+)\) rotate\(-90\)" text-anchor="middle">position<)re");
  BOOST_REQUIRE_EQUAL(upright.size(), 1u);
  BOOST_CHECK_EQUAL(std::stoi(upright[0][1]), frame.y + frame.height / 2);
  // Everything lies within the picture, which is no larger than necessary.
  const auto size = groups(svg, R"re(viewBox="0 0 (\d+) (\d+)" width="(\d+)" height="(\d+)")re");
  BOOST_REQUIRE(size.size() == 1 && size[0][0] == size[0][2] && size[0][1] == size[0][3]);
  BOOST_CHECK_EQUAL(std::stoi(size[0][0]), std::max(frame.right() + 16, ramp.right() + 60));
  BOOST_CHECK_EQUAL(std::stoi(size[0][1]), std::stoi(texts.back()[1]) + 10);  // 10 is the height of a letter
}

struct Curve {
  std::string name;
  std::vector<double> values;
};

// The slope of the line that best fits log y over log x.
double power(const std::vector<double>& x, const std::vector<double>& y) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double a = std::log(x[i]), b = std::log(y[i]);
    n += 1;
    sx += a;
    sy += b;
    sxx += a * a;
    sxy += a * b;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

void check_plot(const std::string& svg, const std::vector<double>& lengths, const std::vector<Curve>& curves) {
  double low = 1e300, high = 0;
  for (const Curve& c : curves)
    for (const double v : c.values) low = std::min(low, v), high = std::max(high, v);
  const auto ticks = groups(svg, R"re(<line x1="([\d.]+)" x2="([\d.]+)" y1="([\d.]+)" y2="([\d.]+)"/>)re"
                                 R"re(<text x="([\d.]+)" y="([\d.]+)" text-anchor="end">([^<]*)</text>)re");
  const auto below = groups(svg, R"re(<text x="([\d.]+)" y="([\d.]+)" text-anchor="middle">(\d+)</text>)re");
  const auto lines = groups(svg, R"re(<polyline points="([^"]*)" class="l(\d)"/>)re");
  const auto points =
      groups(svg, R"re(<circle cx="([\d.]+)" cy="([\d.]+)" r="3" class="d(\d)"><title>(.*) at (\d+): )re"
                  R"re(([^<]*)</title></circle>)re");
  const auto names = groups(svg, R"re(<text x="([\d.]+)" y="([\d.]+)" class="d(\d)">(.*), power (.*)</text>)re");
  BOOST_REQUIRE(lines.size() == curves.size() && names.size() == curves.size() && !ticks.empty());
  BOOST_REQUIRE_EQUAL(points.size(), curves.size() * lengths.size());
  BOOST_REQUIRE_EQUAL(below.size(), lengths.size());
  // The plot area: the axes are logarithmic, and the measurements reach from edge to edge.
  const double left = std::stod(ticks[0][0]), right = std::stod(ticks[0][1]), top = 40, bottom = 260;
  BOOST_CHECK_EQUAL(right - left, 300);
  const auto x = [&](double v) {
    return left + std::log(v / lengths.front()) / std::log(lengths.back() / lengths.front()) * (right - left);
  };
  const auto y = [&](double v) { return bottom - std::log(v / low) / std::log(high / low) * (bottom - top); };
  const auto near = [](const std::string& text, double v) { return std::abs(std::stod(text) - v) < 0.0501; };
  for (std::size_t i = 0; i < lengths.size(); ++i)
    BOOST_CHECK(std::abs(std::stod(below[i][0]) - x(lengths[i])) < 0.501 && std::stod(below[i][1]) > bottom + 11 &&
                std::stod(below[i][2]) == lengths[i]);
  for (std::size_t c = 0; c < curves.size(); ++c) {
    std::string corners;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto& p = points[c * lengths.size() + i];
      corners += p[0] + "," + p[1] + " ";
      BOOST_CHECK_MESSAGE(near(p[0], x(lengths[i])) && near(p[1], y(curves[c].values[i])), p[3] << " at " << p[4]);
      BOOST_CHECK_EQUAL(p[2] + p[3] + p[4] + p[5],
                        std::to_string(c) + curves[c].name + general(lengths[i], 6) + general(curves[c].values[i], 3));
    }
    BOOST_CHECK_EQUAL(lines[c][0] + lines[c][1], corners + std::to_string(c));
    BOOST_CHECK_EQUAL(names[c][2] + names[c][3], std::to_string(c) + curves[c].name);
    BOOST_CHECK_SMALL(std::stod(names[c][4]) - power(lengths, curves[c].values), 0.00501);
    BOOST_CHECK_EQUAL(std::stod(names[c][0]), left);
  }
  for (std::size_t c = 1; c < names.size(); ++c)
    BOOST_CHECK_GT(std::stod(names[c][1]), std::stod(names[c - 1][1]) + 10);
  // 1, 2 and 5 times each power of ten, or the powers alone if the values span more than three decades.
  std::vector<double> round;
  for (int k = -12; k < 12; ++k)
    for (const int digit : {1, 2, 5})
      if (digit == 1 || high <= 1000 * low) round.push_back(digit * std::pow(10, k));
  std::erase_if(round, [&](double v) { return v < low || v > high; });
  if (round.size() < 2) round = {low, high};
  BOOST_REQUIRE_EQUAL(ticks.size(), round.size());
  for (std::size_t i = 0; i < round.size(); ++i) {
    const auto& t = ticks[i];
    BOOST_CHECK(near(t[2], y(round[i])) && t[2] == t[3] && t[0] == ticks[0][0] && t[1] == ticks[0][1]);
    BOOST_CHECK(std::stod(t[4]) < left && std::abs(std::stod(t[5]) - std::stod(t[2]) - 4) < 0.11);
    BOOST_CHECK_EQUAL(t[6], general(round[i], 6));
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(positions_are_drawn_as_they_are) {
  for (const auto& [length, width] : {std::pair{40, 16}, {5, 3}}) {
    const Folder folder;
    const Result r = folder.run(
        {"positions", "--length", std::to_string(length), "--width", std::to_string(width), "--svg", "maps"});
    BOOST_REQUIRE_EQUAL(r.code, 0);
    std::string expected;
    for (const char* kind : {"sinusoid", "cosinusoid", "floor-sinusoid", "count", "simple", "binary"}) {
      std::set<std::vector<double>> rows;
      double low = 1e9, high = -1e9;
      for (int n = 0; n < length; ++n) {
        std::vector<double> row;
        for (int j = 0; j < width; ++j) row.push_back(position(kind, n, j, length, width));
        for (const double v : row) low = std::min(low, v), high = std::max(high, v);
        rows.insert(row);
      }
      expected += std::string(kind) + ": rows are positions, columns dimensions; ' ' is " + general(low, 2) +
                  ", '@' is " + general(high, 2) + "\n";
      for (int n = 0; n < length; ++n) {
        std::ostringstream line;
        line << std::setw(5) << n << " | ";
        for (int j = 0; j < width; ++j)
          line << " .:-=+*#%@"[std::lround(9 * (position(kind, n, j, length, width) - low) / (high - low))];
        expected += line.str() + " |\n";
      }
      expected += "keeps " + std::to_string(rows.size()) + " of " + std::to_string(length) +
                  " positions apart; largest value " + general(high, 3) + "\n\n";
      check_map(read(folder.path / "maps" / (std::string(kind) + ".svg")), kind, length, width);
    }
    BOOST_CHECK_EQUAL(r.out.substr(0, r.out.find("sinusoid: PE(n + k)")), expected);
    // Offsets k are shown only if two positions are that far apart; an odd width is treated as the even one below it.
    const auto errors = groups(r.out, R"(k = +(\d+): largest error over all positions (.*)\n)");
    BOOST_REQUIRE_EQUAL(errors.size(), length > 10 ? 3u : 2u);
    for (std::size_t i = 0; i < errors.size(); ++i) {
      BOOST_CHECK_EQUAL(errors[i][0], std::vector<std::string>({"1", "3", "10"})[i]);
      BOOST_CHECK_LT(std::stod(errors[i][1]), 1e-12);
      if (length > 10) BOOST_CHECK_GT(std::stod(errors[i][1]), 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(distances_and_products_of_positions) {
  const Folder folder;
  constexpr int kWidth = 6, kLength = 40;
  const Result r = folder.run({"positions", "--length", "40", "--width", "6", "--svg", "maps"});
  BOOST_REQUIRE_EQUAL(r.code, 0);
  for (const char* kind : {"sinusoid", "cosinusoid", "floor-sinusoid", "count", "simple", "binary"}) {
    std::string line = "\n  " + std::string(kind) + std::string(16 - std::string(kind).size(), ' ');
    for (const int length : {4, 16, 64, 256}) {
      double least = 1e9, most = 0;
      for (int n = 1; n < length; ++n) {
        double squares = 0;
        for (int j = 0; j < kWidth; ++j)
          squares += std::pow(position(kind, n, j, length, kWidth) - position(kind, n - 1, j, length, kWidth), 2);
        least = std::min(least, std::sqrt(squares));
        most = std::max(most, std::sqrt(squares));
      }
      const std::string both = general(least, 3) + " " + general(most, 3);
      line += std::string(18 - both.size(), ' ') + both;
    }
    BOOST_CHECK_MESSAGE(r.out.find(line + "\n") != std::string::npos, line << "\n" << r.out);
  }
  const auto product = [](int k) {
    double sum = 0;
    for (int j = 0; j < kWidth; ++j) sum += position("sinusoid", 0, j, 40, 6) * position("sinusoid", k, j, 40, 6);
    return sum;
  };
  const auto shown = matches(r.out, R"(PE\(0\)\.PE\(k\).*\n  k +0 .*\n +(.*)\n  falls until k = (\d+), then rises)");
  BOOST_REQUIRE_EQUAL(shown.size(), 1u);
  const Words numbers = words(shown[0][1]);
  BOOST_REQUIRE_EQUAL(numbers.size(), 12u);
  for (int k = 0; k < 12; ++k) BOOST_CHECK_SMALL(std::stod(numbers[static_cast<std::size_t>(k)]) - product(k), 0.00501);
  const int lowest = std::stoi(shown[0][2]);
  for (int k = 1; k <= lowest; ++k) BOOST_CHECK_LE(product(k), product(k - 1));
  BOOST_CHECK_GT(product(lowest + 1), product(lowest));
  // The curves: a point for each position, the lowest value at the bottom of the frame and the highest at its top.
  for (const auto& [file, lines] : {std::pair{"waves.svg", 2u}, {"products-with-0.svg", 1u}}) {
    const std::string svg = read(folder.path / "maps" / file);
    const auto curves = groups(svg, R"re(<polyline stroke="[^"]*" points="([^"]*) "/>)re");
    BOOST_REQUIRE_EQUAL(curves.size(), lines);
    const auto frame = groups(svg, R"re(<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"/>)re");
    BOOST_REQUIRE_EQUAL(frame.size(), 1u);
    const Box box_of_curves = box(frame[0], 0);
    for (const auto& curve : curves) {
      const auto points = groups(curve[0], R"(([\d.]+),([\d.]+))");
      BOOST_REQUIRE_EQUAL(points.size(), static_cast<std::size_t>(kLength));
      BOOST_CHECK_SMALL(std::stod(points[0][0]) - box_of_curves.x, 0.06);
      BOOST_CHECK_SMALL(std::stod(points.back()[0]) - box_of_curves.right(), 0.06);
      for (const auto& p : points)
        BOOST_CHECK(std::stod(p[1]) > box_of_curves.y - 0.06 && std::stod(p[1]) < box_of_curves.bottom() + 0.06);
    }
  }
  const std::string with_0 = read(folder.path / "maps" / "products-with-0.svg");
  BOOST_CHECK(with_0.find(">3</text>") != std::string::npos);  // PE(0).PE(0), the highest
}

BOOST_AUTO_TEST_CASE(what_attention_lab_measures_is_what_it_draws) {
  const Folder folder;
  for (const bool is_long : {true, false}) {
    const Result r = folder.run({"attention_lab", "--lengths", is_long ? "16,64,256,1024" : "100,130", "--width", "4",
                                 "--repeats", "3", "--plot", "p.svg", "--json"});
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    const Json j = last_line(r.out);
    const std::vector<double> lengths = j["lengths"].numbers();
    const std::vector<Curve> ms{{"two products", j["products_ms"].numbers()}, {"fused", j["fused_ms"].numbers()}},
        mb{{"two products", j["products_mb"].numbers()}, {"fused", j["fused_mb"].numbers()}};
    const std::string svg = read(folder.path / "p.svg");
    const std::size_t half = svg.find(">memory, MB, by length<");
    BOOST_REQUIRE(half != std::string::npos && svg.find(">forward and backward, ms, by length<") < half);
    check_plot(svg.substr(0, half), lengths, ms);
    check_plot(svg.substr(half), lengths, mb);
    for (const std::size_t c : {0u, 1u})
      BOOST_CHECK_SMALL(j["memory_powers"][c].get<double>() - power(lengths, mb[c].values), 1e-9);
    std::vector<std::vector<double>> rows;
    for (std::size_t i = 0; i < lengths.size(); ++i)
      rows.push_back({lengths[i], ms[0].values[i], ms[1].values[i], mb[0].values[i], mb[1].values[i]});
    rows.push_back({0, power(lengths, ms[0].values), power(lengths, ms[1].values), power(lengths, mb[0].values),
                    power(lengths, mb[1].values)});
    const std::string spread = R"((?: \([\d.]+, [\d.]+\))?)", number = " +(-?[\\d.]+)";
    const auto printed = groups(r.out, R"(\n +(\d+|power))" + number + spread + number + spread + number + number);
    BOOST_REQUIRE_EQUAL(printed.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      BOOST_CHECK_EQUAL(printed[i][0], i < lengths.size() ? general(rows[i][0], 6) : "power");
      for (std::size_t c = 1; c < 5; ++c) BOOST_CHECK_SMALL(std::stod(printed[i][c]) - rows[i][c], 0.00501);
    }
    // The fastest pass is followed by the median and the slowest.
    const auto spreads = groups(r.out, R"(([\d.]+) \(([\d.]+), ([\d.]+)\))");
    BOOST_REQUIRE_EQUAL(spreads.size(), 2 * lengths.size());
    for (std::size_t i = 0; i < spreads.size(); ++i) {
      const std::vector<double> told = j["median_and_slowest_ms"][i / 2][i % 2].numbers();
      BOOST_CHECK(ms[i % 2].values[i / 2] <= told[0] && told[0] <= told[1]);
      BOOST_CHECK_SMALL(std::stod(spreads[i][1]) - told[0], 0.00501);
      BOOST_CHECK_SMALL(std::stod(spreads[i][2]) - told[1], 0.00501);
    }
    double worst = 0;
    for (const auto& m : groups(r.out, R"(\n  .*[a-z] +([\d.]+e[-+]\d+))")) worst = std::max(worst, std::stod(m[0]));
    BOOST_CHECK_LT(std::abs(worst - j["largest_difference"].get<double>()), 0.06 * worst);
  }
  const Result one = folder.run({"attention_lab", "--lengths", "16384", "--help"});
  BOOST_CHECK_EQUAL(one.code, 0);
  const Result short_one = folder.run({"attention_lab", "--lengths", "7", "--width", "4", "--plot", "p.svg"});
  BOOST_CHECK(short_one.code == 0 && short_one.out.find("power") == std::string::npos);
  BOOST_CHECK(read(folder.path / "p.svg").find("nan") == std::string::npos);
}
