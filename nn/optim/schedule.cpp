// Schedule: the formulas, with steps as real numbers.
#include "schedule.h"

#include "../../autograd/core/check.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// The share of lr that warm-up has reached, 1 after it.
double warm_up(const Schedule& s, double step) {
  const auto warmup_steps = static_cast<double>(s.warmup_steps);
  return warmup_steps > 0 ? std::min(1.0, step / warmup_steps) : 1.0;
}

// The share that has passed of the steps after warm-up; 0 if there are none.
double progress(const Schedule& s, double step) {
  const auto warmup_steps = static_cast<double>(s.warmup_steps);
  const double decay_steps = static_cast<double>(s.steps) - warmup_steps;
  return decay_steps > 0 ? std::clamp((step - warmup_steps) / decay_steps, 0.0, 1.0) : 0.0;
}

double constant(const Schedule& s, double step) { return s.lr * warm_up(s, step); }

// From lr to min_lr, when `left` of the decay is left, from 1 to 0.
double decayed(const Schedule& s, double step, double left) {
  return warm_up(s, step) * (s.min_lr + (s.lr - s.min_lr) * left);
}

double linear(const Schedule& s, double step) { return decayed(s, step, 1 - progress(s, step)); }

double cosine(const Schedule& s, double step) {
  return decayed(s, step, 0.5 * (1 + std::cos(std::numbers::pi * progress(s, step))));
}

double noam(const Schedule& s, double step) {
  check<ArgumentError>(s.warmup_steps > 0, "schedule: noam needs warm-up");
  const auto w = static_cast<double>(s.warmup_steps);
  const double n = std::max(step, 1.0);
  const double falling = 1 / std::sqrt(n);
  const double rising = n / (w * std::sqrt(w));
  return s.lr * std::sqrt(w) * std::min(falling, rising);
}

// From `from` to `to`, along half a cosine, as `passed` goes from 0 to 1.
double half_cosine(double from, double to, double passed) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * passed));
}

void check_cycle(const OneCycle& c) {
  const auto is_rate = [](double rate) { return rate >= 0 && std::isfinite(rate); };
  check<ArgumentError>(c.steps > 0, "one cycle: steps ", c.steps, " is not positive");
  check<ArgumentError>(c.rise >= 0 && c.rise <= 1, "one cycle: rise ", c.rise, " is not in [0, 1]");
  check<ArgumentError>(is_rate(c.lr) && is_rate(c.start) && is_rate(c.end), "one cycle: lr ", c.lr, ", start ", c.start,
                       " or end ", c.end, " is negative or not finite");
}

}  // namespace

double OneCycle::operator()(std::int64_t step) const {
  check_cycle(*this);
  const auto last = static_cast<double>(steps - 1);  // counted from 0
  const double now = std::clamp(static_cast<double>(step - 1), 0.0, last);
  const double peak = rise * static_cast<double>(steps) - 1;  // before the first step in a short cycle
  if (now > peak) return half_cosine(lr, lr * end, (now - peak) / (last - peak));
  return half_cosine(lr * start, lr, peak > 0 ? now / peak : 1);
}

double Schedule::operator()(std::int64_t step) const {
  const auto n = static_cast<double>(step);
  switch (kind) {
    case ScheduleKind::cosine:
      return cosine(*this, n);
    case ScheduleKind::linear:
      return linear(*this, n);
    case ScheduleKind::noam:
      return noam(*this, n);
    case ScheduleKind::constant:
      break;
  }
  return constant(*this, n);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
