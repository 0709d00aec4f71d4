// The progress line: a bar, and as many figures as fit into the width of the terminal.
#include "app/progress.h"

#include "app/terminal.h"

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace examples {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kRefresh = std::chrono::milliseconds(100);

std::string clock_text(double seconds) {
  const auto s = static_cast<long>(seconds + 0.5);
  return s < 3600 ? fmt::format("{:02}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

LogFormat chosen(LogFormat format) {
  if (format != LogFormat::automatic) return format;
  const char* terminal = std::getenv("TERM");
  const bool moves = ::isatty(STDERR_FILENO) == 1 && terminal && std::string_view(terminal) != "dumb";
  return moves ? LogFormat::bar : LogFormat::plain;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress(LogFormat format, std::int64_t steps, int interval)
    : format_(chosen(format)), steps_(steps), interval_(interval), start_(Clock::now()), shown_(start_ - kRefresh) {}

Progress::~Progress() { erase_bar(); }

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

// As many figures as fit into `width`; the least important are left out first.
std::string Progress::line(const seppo::StepResult& r, std::size_t width) const {
  const double rate = static_cast<double>(r.step - first_) / std::max(seconds(), 1e-9);
  struct Figure {
    int rank;
    std::string text;
  };
  const Figure figures[] = {
      {0, fmt::format("step {:>6}/{}", r.step, steps_)},
      {0, fmt::format(" | loss {:#.4g}", r.loss)},
      {2, fmt::format(" | acc {:.4f}", r.accuracy)},
      {4, fmt::format(" | gnorm {:#.3g}", r.gradient_norm)},
      {3, fmt::format(" | lr {:.1e}", r.lr)},
      {5, fmt::format(" | {:.0f} steps/s", rate)},
      {1, fmt::format(" | eta {}", clock_text(static_cast<double>(last_ - r.step) / std::max(rate, 1e-9)))}};
  std::string text;
  for (int rank = 5; rank >= 0 && (text.empty() || text.size() > width); --rank) {
    text.clear();
    for (const Figure& figure : figures)
      if (figure.rank <= rank) text += figure.text;
  }
  return text;
}

void Progress::step(const seppo::StepResult& step) {
  if (format_ == LogFormat::none) return;
  if (format_ == LogFormat::plain) {
    if (step.step % interval_ == 0) print(line(step, 200) + "\n");
    return;
  }
  if (Clock::now() - shown_ < kRefresh && step.step < last_) return;
  shown_ = Clock::now();
  constexpr std::size_t kShortest = 8, kLongest = 30;  // of the bar
  const std::size_t width = terminal_width(STDERR_FILENO) - 1;
  const std::string text = line(step, width > 40 + kShortest ? width - kShortest - 1 : width);
  const std::size_t room = width > text.size() ? std::min(width - text.size() - 1, kLongest) : 0;
  std::string bar;
  if (room >= kShortest) {
    const auto filled =
        room * static_cast<std::size_t>(step.step) / static_cast<std::size_t>(std::max<std::int64_t>(steps_, 1));
    for (std::size_t i = 0; i < room; ++i) bar += i < filled ? "━" : "─";
    bar += ' ';
  }
  print("\r\x1b[K" + bar + text.substr(0, width));
  bar_visible_ = true;
}

void Progress::note(const std::string& text) {
  if (format_ == LogFormat::none) return;
  erase_bar();
  print(fitted(text, STDERR_FILENO) + "\n");
}

void Progress::erase_bar() {
  if (bar_visible_) print("\r\x1b[K");
  bar_visible_ = false;
}

}  // namespace examples
