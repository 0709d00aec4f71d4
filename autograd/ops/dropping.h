// The next dropout of the current step, for ops that contain one.
#pragma once

#include "../kernels/kernels.h"
#include "../core/tape.h"

namespace seppo::inline SEPPO_ABI {

// Takes the next site of tape().random; p = 0, and no site, in eval mode.
inline kernels::Dropping next_dropping(const char* op, double p) {
  check<ArgumentError>(p >= 0 && p <= 1, op, ": p = ", p, " is not in [0, 1]");
  Tape& t = tape();
  if (p == 0 || t.mode == Mode::eval) return {};
  return {p, {t.random.seed, t.random.step, t.random.sample, t.random.site++}};
}

}  // namespace seppo::inline SEPPO_ABI
