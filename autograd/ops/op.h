// What ops share in their backward functions, and how they take the next dropout.
#pragma once

#include "../kernels/kernels.h"
#include "../ops.h"

namespace seppo::inline SEPPO_ABI {

// dx += factor dy, if x requires a gradient.
inline void add_grad(const Tensor& x, const real* dy, real factor = 1) {
  if (!x.requires_grad()) return;
  const auto [dx, beta] = grad_target(x);
  kernels::axpy(dx, beta, dy, factor, x.numel());
}

// grad_target(x), or null if x is empty or does not require a gradient.
inline GradTarget target_if_required(const Tensor& x) {
  return x.defined() && x.requires_grad() ? grad_target(x) : GradTarget{nullptr, 0};
}

// Takes the next site of tape().random; p = 0, and no site, in eval mode.
inline kernels::Dropping next_dropping(const char* op, double p) {
  check<ArgumentError>(p >= 0 && p <= 1, op, ": p = ", p, " is not in [0, 1]");
  Tape& t = tape();
  if (p == 0 || t.mode == Mode::eval) return {};
  check<StateError>(t.random.site < RandomContext::kSites, op, ": the dropouts of one step have used up its ",
                    RandomContext::kSites, " masks: set tape().random for each step");
  const kernels::Dropping dropping{p, t.random};
  ++t.random.site;
  return dropping;
}

}  // namespace seppo::inline SEPPO_ABI
