// Gradients on first touch, and those of views, which are their bases'.
#include "gradient.h"

#include "tape.h"

#include <algorithm>
#include <cstddef>

namespace seppo {
inline namespace SEPPO_ABI {

real* grad_of(const Tensor& x) {
  const GradTarget target = grad_target(x);
  if (target.beta == 0) std::fill_n(target.grad, x.numel(), real{0});
  return target.grad;
}

namespace {

// Of a leaf that was frozen after it was used, or a view of one: what is added to it goes nowhere.
GradTarget dropped(const Tensor& x) {
  return {static_cast<real*>(tape().arena().allocate_recycled(x.numel() * sizeof(real))), 0};
}

// Of a view without a gradient of its own. Apart, to keep grad_target() short: few tensors are views.
[[gnu::noinline]] GradTarget target_within_base(const Tensor& x) {
  const real* const values = x.data();  // throws if the leaf has ended, whose node may be another's now
  Node* owner = x.node().base;
  while (owner->shares_gradient()) owner = owner->base;
  if (!owner->requires_grad) return dropped(x);
  const Tensor base(*owner);
  const bool is_whole = x.numel() == base.numel();
  const GradTarget target = is_whole ? grad_target(base) : GradTarget{grad_of(base), 1};
  return {target.grad + (values - base.data()), target.beta};
}

}  // namespace

GradTarget grad_target(const Tensor& x) {
  Node& n = x.node();
  if (n.shares_gradient()) [[unlikely]]
    return target_within_base(x);
  if (!n.tape) return n.requires_grad ? GradTarget{tape().leaf_gradient(x), 1} : dropped(x);
  if (n.grad) return {n.grad, 1};
  n.grad = static_cast<real*>(n.tape->arena().allocate_recycled(x.numel() * sizeof(real)));
  return {n.grad, 0};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
