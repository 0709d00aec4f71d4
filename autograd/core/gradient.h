// Where a backward function adds up the gradients of its op's inputs. All allocate on first touch.
//
//   record("negate", y, {x}, [=] {
//     const real* dy = grad_of(y);
//     real* dx = grad_of(x);
//     for (std::size_t i = 0; i < x.numel(); ++i) dx[i] -= dy[i];
//   });
#pragma once

#include "tensor.h"

namespace seppo {
inline namespace SEPPO_ABI {

// grad = beta * grad + term. beta is 0 when the memory is uninitialised and must be overwritten, else 1.
struct GradTarget {
  real* grad;
  real beta;
};

real* grad_of(const Tensor& x);           // zeros at first; add to it
GradTarget grad_target(const Tensor& x);  // for code that can overwrite instead of adding to zeros

// grad_of(x), or null if x is empty or does not require a gradient.
inline real* grad_if_required(const Tensor& x) { return x.defined() && x.requires_grad() ? grad_of(x) : nullptr; }
// grad_target(x), or null if x is empty or does not require a gradient.
inline GradTarget target_if_required(const Tensor& x) {
  return x.defined() && x.requires_grad() ? grad_target(x) : GradTarget{nullptr, 0};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
