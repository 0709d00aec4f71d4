// Learning-rate schedules: functions of the step, which counts from 1.
#pragma once

#include "../../autograd/core/check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <span>

namespace seppo::inline SEPPO_ABI {

using Schedule = std::function<double(std::int64_t step)>;

enum class ScheduleKind { cosine, linear, noam, constant };

inline std::span<const char* const> enum_names(ScheduleKind) {
  static constexpr const char* kNames[] = {"cosine", "linear", "noam", "const"};
  return kNames;
}

namespace detail {
// step / warmup, at most 1
inline double warm_up(std::int64_t step, std::int64_t warmup_steps) {
  return warmup_steps > 0 ? std::min(1.0, static_cast<double>(step) / static_cast<double>(warmup_steps)) : 1.0;
}
// How far the step is from the end of warm-up (0) to the last step (1); 0 if warm-up takes all steps.
inline double progress(std::int64_t step, std::int64_t warmup_steps, std::int64_t steps) {
  const double way = static_cast<double>(steps - warmup_steps);
  return way > 0 ? std::clamp(static_cast<double>(step - warmup_steps) / way, 0.0, 1.0) : 0.0;
}
}  // namespace detail

inline Schedule constant_schedule(double lr, std::int64_t warmup_steps = 0) {
  return [=](std::int64_t step) { return lr * detail::warm_up(step, warmup_steps); };
}

// factor d_model^-0.5 min(step^-0.5, step warmup^-1.5) (Vaswani et al. 2017, 5.3)
inline Schedule noam_schedule(int d_model, std::int64_t warmup_steps, double factor = 1) {
  check<ArgumentError>(d_model > 0 && warmup_steps > 0, "noam schedule: d_model ", d_model, " and warm-up ",
                       warmup_steps, " must be positive");
  return [=](std::int64_t step) {
    const double s = static_cast<double>(std::max<std::int64_t>(step, 1)), w = static_cast<double>(warmup_steps);
    return factor / std::sqrt(static_cast<double>(d_model)) * std::min(1 / std::sqrt(s), s / (w * std::sqrt(w)));
  };
}

// Linear warm-up to lr, then half a cosine down to min_lr at the last step.
inline Schedule cosine_schedule(double lr, std::int64_t warmup_steps, std::int64_t steps, double min_lr = 0) {
  return [=](std::int64_t step) {
    const double fall = 0.5 * (1 + std::cos(std::numbers::pi * detail::progress(step, warmup_steps, steps)));
    return detail::warm_up(step, warmup_steps) * (min_lr + (lr - min_lr) * fall);
  };
}

// Linear warm-up to lr, then linearly down to min_lr at the last step.
inline Schedule linear_schedule(double lr, std::int64_t warmup_steps, std::int64_t steps, double min_lr = 0) {
  return [=](std::int64_t step) {
    return detail::warm_up(step, warmup_steps) *
           (min_lr + (lr - min_lr) * (1 - detail::progress(step, warmup_steps, steps)));
  };
}

}  // namespace seppo::inline SEPPO_ABI
