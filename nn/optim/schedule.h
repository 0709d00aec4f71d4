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

// The one-cycle policy (Smith and Topin 2017): from a low rate up to `lr`, then down to almost nothing, along half
// cosines; as PyTorch's OneCycleLR with its defaults, but momentum stays as it is. The peak is after rise * steps
// steps, so that it may be before the first one. A schedule of a Trainer:
//
//   trainer.set_schedule(OneCycle{.lr = 0.01, .steps = 1000});
struct OneCycle {
  double lr = 1e-3;            // that of the peak
  std::int64_t steps = 0;      // in the whole training
  double rise = 0.3;           // the share of them until then
  double start = 1.0 / 25;     // the first step's rate, unless the peak is before it, as a share of lr
  double end = start / 10000;  // the last step's, and that of all later ones

  // Throws ArgumentError unless steps is positive, rise is in [0, 1], and lr, start and end are finite and not
  // negative.
  double operator()(std::int64_t step) const;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
