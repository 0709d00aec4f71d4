// Schedule: the learning rate of a step, which counts from 1.
#pragma once

#include "../../autograd/core/real.h"

#include <cstdint>
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
  double operator()(std::int64_t step) const;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
