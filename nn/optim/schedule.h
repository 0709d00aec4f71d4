// Schedule: the learning rate of a step, which counts from 1.
#pragma once

#include "../../autograd/core/check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

enum class ScheduleKind { cosine, linear, noam, constant };

inline std::span<const char* const> enum_names(ScheduleKind) {
  static constexpr const char* kNames[] = {"cosine", "linear", "noam", "const"};
  return kNames;
}

// Linear warm-up to lr in warmup_steps; then a cosine or linear decay to min_lr at the last of `steps`, or no decay. So
// with one step and no warm-up, that step has min_lr.
// Noam's rises likewise, then falls as 1 / sqrt(step) (Vaswani et al. 2017, 5.3: lr = 1 / sqrt(d_model warmup_steps)).
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double lr = 1e-3, min_lr = 0;
  std::int64_t warmup_steps = 0, steps = 0;

  // Throws ArgumentError for noam without warm-up.
  double operator()(std::int64_t step) const {
    const double s = static_cast<double>(step), w = static_cast<double>(warmup_steps);
    check<ArgumentError>(kind != ScheduleKind::noam || w > 0, "schedule: noam needs warm-up");
    if (kind == ScheduleKind::noam)
      return lr * std::sqrt(w) * std::min(1 / std::sqrt(std::max(s, 1.0)), std::max(s, 1.0) / (w * std::sqrt(w)));
    const double rise = w > 0 ? std::min(1.0, s / w) : 1.0;
    if (kind == ScheduleKind::constant) return lr * rise;
    const double fall_steps = static_cast<double>(steps) - w;  // 0 if warm-up takes them all
    const double way = fall_steps > 0 ? std::clamp((s - w) / fall_steps, 0.0, 1.0) : 0.0;
    const double left = kind == ScheduleKind::linear ? 1 - way : 0.5 * (1 + std::cos(std::numbers::pi * way));
    return rise * (min_lr + (lr - min_lr) * left);
  }
};

}  // namespace SEPPO_ABI
}  // namespace seppo
