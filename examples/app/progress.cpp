#include "app/progress.h"

#include <fmt/format.h>

#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace examples {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kRefresh = std::chrono::milliseconds(100);

std::string clock_text(double seconds) {
  const auto s = static_cast<long>(seconds + 0.5);
  return s < 3600 ? fmt::format("{:02}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(const std::string& format, std::int64_t steps, int interval)
    : steps_(steps), interval_(interval), start_(Clock::now()), shown_(start_ - kRefresh) {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  format_ = format == "none"                                    ? Format::none
            : format == "bar" || (format == "auto" && terminal) ? Format::bar
                                                                : Format::plain;
}

Progress::~Progress() { erase_bar(); }

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

std::string Progress::line(const StepReport& r) const {
  const double rate = static_cast<double>(r.step) / std::max(seconds(), 1e-9);
  return fmt::format("step {:>6}/{} | loss {:.4f} | acc {:.4f} | gnorm {:.2f} | lr {:.1e} | {:.0f} steps/s | eta {}",
                     r.step, steps_, r.loss, r.accuracy, r.gradient_norm, r.lr, rate,
                     clock_text(static_cast<double>(steps_ - r.step) / std::max(rate, 1e-9)));
}

void Progress::step(const StepReport& report) {
  if (format_ == Format::none) return;
  if (format_ == Format::plain) {
    if (report.step % interval_ == 0) fmt::print(stderr, "{}\n", line(report));
    return;
  }
  if (Clock::now() - shown_ < kRefresh && report.step < steps_) return;
  shown_ = Clock::now();
  const std::string text = line(report);
  const std::size_t width = terminal_width();
  const std::size_t room = width > text.size() + 10 ? std::min<std::size_t>(width - text.size() - 4, 30) : 0;
  std::string bar;
  if (room > 0) {
    const auto filled =
        room * static_cast<std::size_t>(report.step) / static_cast<std::size_t>(std::max<std::int64_t>(steps_, 1));
    for (std::size_t i = 0; i < room; ++i) bar += i < filled ? "━" : "─";
    bar += ' ';
  }
  fmt::print(stderr, "\r\x1b[K{}{}", bar, text.substr(0, width - 1));
  std::fflush(stderr);
  bar_visible_ = true;
}

void Progress::note(const std::string& text) {
  if (format_ == Format::none) return;
  erase_bar();
  fmt::print(stderr, "{}\n", text);
}

void Progress::erase_bar() {
  if (bar_visible_) fmt::print(stderr, "\r\x1b[K");
  bar_visible_ = false;
}

}  // namespace examples
