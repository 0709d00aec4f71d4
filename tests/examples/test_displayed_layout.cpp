// The layout of what is displayed: attention pictures, the progress bar at each terminal width, configs as
// JSON.
// needs: programs: all
#include "app/attention_pictures.h"
#include "app/help_text.h"
#include "app/progress.h"
#include "support/matches.h"
#include "support/terminal.h"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <map>
#include <sstream>

using namespace test;

namespace {

struct Box {
  int x, y, width, height;
  int right() const { return x + width; }
  int bottom() const { return y + height; }
};

Box box_of(const Match& m, std::size_t first) {
  return {std::stoi(m[first]), std::stoi(m[first + 1]), std::stoi(m[first + 2]), std::stoi(m[first + 3])};
}

// What Progress displays for one step on a terminal with this many columns.
std::string shown(int columns, std::int64_t steps, const seppo::StepResult& step) {
  const winsize size{24, static_cast<unsigned short>(columns), 0, 0};
  int terminal = -1, other = -1;
  BOOST_REQUIRE_EQUAL(::openpty(&terminal, &other, nullptr, nullptr, &size), 0);
  std::fflush(stderr);
  const int before = ::dup(2);
  ::dup2(other, 2);
  {
    examples::Progress progress(examples::LogFormat::bar, steps, 1);
    progress.start_at(step.step);  // so that the pace is zero
    progress.step(step);
    progress.note("a note");
  }
  ::dup2(before, 2);
  ::close(before), ::close(other);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(terminal, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  ::close(terminal);
  return text;
}

std::string repeated(const char* text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

// Labels are centred above their columns and beside their rows; nothing overlaps or leaves the picture.
BOOST_AUTO_TEST_CASE(pictures_of_attention) {
  for (const auto& [heads, queries, keys] : {std::tuple{1, 1, 1}, {1, 2, 3}, {3, 5, 2}, {2, 4, 9}}) {
    seppo::AttentionMap map{"layer", {1, heads, queries, keys}, {}};
    for (int i = 0; i < heads * queries * keys; ++i) map.weights.push_back(static_cast<float>(i % 7 + 1) / 8);
    examples::AttentionLabels labels;
    for (int i = 0; i < queries; ++i) labels.queries.push_back("q" + std::to_string(i));
    for (int j = 0; j < keys; ++j) labels.keys.push_back("k" + std::to_string(j));
    const std::string svg = examples::attention_svg(map, labels);
    const auto canvas = matches(svg, "viewBox=\"0 0 ([0-9]+) ([0-9]+)\" width=\"([0-9]+)\" height=\"([0-9]+)\"");
    BOOST_REQUIRE_EQUAL(canvas.size(), 1u);
    BOOST_CHECK(canvas[0][1] == canvas[0][3] && canvas[0][2] == canvas[0][4]);
    const int width = std::stoi(canvas[0][1]), height = std::stoi(canvas[0][2]);

    const auto cells =
        matches(svg,
                "<title>q([0-9]+) looks at k([0-9]+): ([0-9.]+)</title><rect class=\"w\" x=\"([0-9]+)\" "
                "y=\"([0-9]+)\" width=\"([0-9]+)\" height=\"([0-9]+)\" fill-opacity=\"([0-9.]+)\"/>"
                "<rect class=\"c\" x=\"([0-9]+)\" y=\"([0-9]+)\" width=\"([0-9]+)\" height=\"([0-9]+)\"/>");
    const auto over = matches(svg, "translate\\(([0-9]+),([0-9]+)\\) rotate\\(-50\\)\">k([0-9]+)<");
    const auto beside = matches(svg, "<text x=\"([0-9]+)\" y=\"([0-9]+)\" text-anchor=\"end\">q([0-9]+)<");
    const auto titles = matches(svg, "<text x=\"([0-9]+)\" y=\"([0-9]+)\" font-size=\"13\">layer, head ([0-9]+)<");
    BOOST_REQUIRE_EQUAL(cells.size(), map.weights.size());
    BOOST_REQUIRE_EQUAL(over.size(), static_cast<std::size_t>(heads * keys));
    BOOST_REQUIRE_EQUAL(beside.size(), static_cast<std::size_t>(heads * queries));
    BOOST_REQUIRE_EQUAL(titles.size(), static_cast<std::size_t>(heads));
    const Box first = box_of(cells[0], 4);
    const float most = *std::ranges::max_element(map.weights);
    int left = 0, lowest = 0;
    for (int h = 0, at = 0; h < heads; ++h) {
      left = box_of(cells[static_cast<std::size_t>(at)], 4).x;
      if (h > 0) BOOST_CHECK_GE(left, box_of(cells[static_cast<std::size_t>(at - 1)], 4).right() + 70);
      const auto head = static_cast<std::size_t>(h);
      BOOST_CHECK(titles[head][3] == std::to_string(h) && std::stoi(titles[head][1]) == left);
      BOOST_CHECK_LT(std::stoi(titles[head][2]), first.y - 40);  // above the column labels
      for (int i = 0; i < queries; ++i) {
        const auto& name = beside[static_cast<std::size_t>(h * queries + i)];
        BOOST_CHECK(name[3] == std::to_string(i) && std::stoi(name[1]) == left - 5);
        BOOST_CHECK_EQUAL(std::stoi(name[2]), first.y + i * first.height + 15);
        for (int j = 0; j < keys; ++j, ++at) {
          const auto& cell = cells[static_cast<std::size_t>(at)];
          const Box box = box_of(cell, 4), frame = box_of(cell, 9);
          BOOST_CHECK(cell[1] == std::to_string(i) && cell[2] == std::to_string(j));
          BOOST_CHECK(box.width == first.width && box.height == first.height);
          BOOST_CHECK(box.x == left + j * box.width && box.y == first.y + i * box.height);
          BOOST_CHECK(frame.x == box.x && frame.y == box.y && frame.right() == box.right());
          BOOST_CHECK_EQUAL(frame.bottom(), box.bottom());
          BOOST_CHECK_LE(box.right() + 8, width);
          lowest = std::max(lowest, box.bottom());
          const float w = map.weights[static_cast<std::size_t>(at)];
          BOOST_CHECK_SMALL(std::stod(cell[3]) - double{w}, 6e-4);
          BOOST_CHECK_SMALL(std::stod(cell[8]) - double{w / most}, 6e-4);
        }
      }
      for (int j = 0; j < keys; ++j) {  // rotated about the baseline of the first letter, a little right of the centre
        const auto& name = over[static_cast<std::size_t>(h * keys + j)];
        BOOST_CHECK_EQUAL(name[3], std::to_string(j));
        BOOST_CHECK_EQUAL(std::stoi(name[1]), left + j * first.width + first.width / 2 + 3);
        BOOST_CHECK_EQUAL(std::stoi(name[2]), first.y - 5);
      }
    }
    // The colour ramp: ten adjacent shades, from 0 on the left to the largest weight on the right.
    const auto ramp =
        matches(svg,
                "\n<rect class=\"w\" x=\"([0-9]+)\" y=\"([0-9]+)\" width=\"([0-9]+)\" height=\"([0-9]+)\" "
                "fill-opacity=\"([0-9.]+)\"/>");
    BOOST_REQUIRE_EQUAL(ramp.size(), 10u);
    const Box start = box_of(ramp[0], 1);
    BOOST_CHECK(start.x == first.x && start.y > lowest);
    for (std::size_t k = 0; k < 10; ++k) {
      const Box box = box_of(ramp[k], 1);
      BOOST_CHECK(box.x == start.x + static_cast<int>(k) * start.width && box.y == start.y);
      BOOST_CHECK(box.width == 10 && box.height == 12 && box.bottom() < height);
      BOOST_CHECK_CLOSE(std::stod(ramp[k][5]), 0.05 + 0.1 * static_cast<double>(k), 1e-6);
    }
    const auto ends =
        matches(svg, "<text x=\"([0-9]+)\" y=\"([0-9]+)\"(?: text-anchor=\"end\")?>(0|[0-9.]+, the .*)</text>");
    BOOST_REQUIRE_EQUAL(ends.size(), 2u);
    BOOST_CHECK(ends[0][3] == "0" && std::stoi(ends[0][1]) == start.x - 5);
    BOOST_CHECK_EQUAL(std::stoi(ends[1][1]), box_of(ramp[9], 1).right() + 5);
    BOOST_CHECK_GE(width, std::stoi(ends[1][1]) + 250);  // room for the caption
    for (const auto& m : ends) BOOST_CHECK_EQUAL(std::stoi(m[2]), start.y + 10);
  }
}

// As many figures as fit, the least important dropped first, after a bar of 8 to 30 columns.
BOOST_AUTO_TEST_CASE(progress_at_each_width) {
  const std::pair<int, std::string> figures[] = {{0, "step    500/500"}, {0, " | loss 1.234"}, {2, " | acc 0.5000"},
                                                 {4, " | gnorm 2.50"},   {3, " | lr 1.0e-03"}, {5, " | 0 steps/s"},
                                                 {1, " | eta 00:00"}};
  const seppo::StepResult step{.step = 500, .loss = 1.2341, .accuracy = 0.5, .gradient_norm = 2.5, .lr = 1e-3};
  for (int columns = 12; columns <= 180; ++columns) {
    const auto room = static_cast<std::size_t>(columns - 1);  // the last column remains free
    const std::size_t limit = room > 48 ? room - 9 : room;    // 8 for the bar, and a space
    std::string line;
    for (int least = 5; least >= 0; --least) {
      line.clear();
      for (const auto& [rank, text] : figures)
        if (rank <= least) line += text;
      if (line.size() <= limit) break;
    }
    const std::size_t bar = std::min<std::size_t>(30, room > line.size() ? room - line.size() - 1 : 0);
    const std::string expected = (bar >= 8 ? repeated("━", bar) + " " : "") + line.substr(0, room);
    BOOST_CHECK_EQUAL(shown(columns, 500, step), "\r\x1b[K" + expected + "\r\x1b[K" + "a note\r\n");
  }
  // The filled part of the bar is the completed share of the steps.
  for (const std::int64_t done : {1, 250, 499}) {
    const std::string text = shown(200, 500, {.step = done, .loss = 1, .lr = 1});
    const auto filled = static_cast<std::size_t>(30 * done / 500);
    BOOST_CHECK_MESSAGE(text.starts_with("\r\x1b[K" + repeated("━", filled) + repeated("─", 30 - filled) + " step "),
                        text);
  }
}

// --dump-config indents by two spaces per level, and --config accepts its output unchanged, including file names.
BOOST_AUTO_TEST_CASE(configurations_are_printed_and_read) {
  const Folder folder;
  folder.write("t", "some text, and some more text");
  for (const Words& train : {Words{"reverse", "train"}, Words{"charlm", "train", "--data", "t", "--lr", "0.25"}}) {
    Words command = train;
    command.emplace_back("--dump-config");
    const std::string out = folder.run(command).out;
    BOOST_CHECK_EQUAL(out, indented(out) + "\n");
    folder.write("c", out);
    BOOST_CHECK_EQUAL(folder.run({train[0], "train", "--config", "c", "--dump-config"}).out, out);
  }
  fs::remove(folder.path / "t");
  check_refused(folder, {"charlm", "train", "--config", "c"}, 2, "--data: there is no file 't'");
}

// From 60 columns, option texts stand beside the names, otherwise below. Lines are as full as possible.
BOOST_AUTO_TEST_CASE(help_at_some_widths) {
  const Folder folder;
  for (const int columns : {30, 59, 60, 61, 80}) {
    const std::string help = on_terminal(folder, columns, {"reverse", "train", "--help-all"});
    const std::size_t indent = columns >= 60 ? 24 : 6;
    std::istringstream stream(help);
    std::string before, line;
    int entries = 0, wraps = 0;
    while (std::getline(stream, line)) {
      const std::size_t begin = line.find_first_not_of(' ');
      if (line.starts_with("  --lr X")) {
        const std::string gap(indent == 24 ? 16 : 0, ' ');
        BOOST_CHECK_MESSAGE(indent == 24 ? line.starts_with("  --lr X" + gap + "p") : line == "  --lr X", line);
        ++entries;
      }
      if (begin == indent && before.size() > indent &&
          !(before.starts_with("  -") && (indent == 6 || before[23] != ' '))) {
        const std::size_t word = line.find(' ', begin);
        BOOST_CHECK_MESSAGE(before.size() + 1 + std::min(word, line.size()) - begin > static_cast<std::size_t>(columns),
                            columns << ": " << before << "\n"
                                    << line);
        ++wraps;
      }
      before = line;
    }
    BOOST_CHECK(entries == 1 && wraps > 20);
  }
}

// Names and values are shown in full up to a maximum length, and cut beyond it.
BOOST_AUTO_TEST_CASE(long_names_are_cut) {
  const Folder folder;
  for (const std::size_t size : {120u, 121u}) {
    const std::string name(size, 'x');
    folder.write(name, "[");
    const Result r = folder.run({"reverse", "train", "--config", name});
    BOOST_CHECK_EQUAL(r.code, 2);
    BOOST_CHECK_MESSAGE((r.err.find("--config: " + name) != std::string::npos) == (size == 120), r.err);
  }
  for (const std::size_t size : {40u, 41u}) {
    std::string known(size, 'n'), given = known;
    given[7] = 'm';
    BOOST_CHECK_EQUAL(examples::nearest_option(given, {known}), size == 40 ? known : "");
  }
}
