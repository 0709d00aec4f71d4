// Dropout: backward draws the mask again instead of storing it.
#include "op.h"

namespace seppo::inline SEPPO_ABI {

Tensor dropout(const Tensor& x, double p) {
  const kernels::Dropping dropping = next_dropping("dropout", p);
  if (dropping.p == 0) return x;
  Tensor y = tape().create(x.shape());
  kernels::dropout(y.data(), 0, x.data(), dropping, x.numel());
  record("dropout", y, {x}, [=] {
    const auto [dx, beta] = grad_target(x);
    kernels::dropout(dx, beta, grad_of(y), dropping, x.numel());
  });
  return y;
}

Tensor add_dropout(const Tensor& x, const Tensor& y, double p) {
  check(x.shape() == y.shape(), "add_dropout: x ", x, " and y ", y, " differ in shape");
  const kernels::Dropping dropping = next_dropping("add_dropout", p);
  if (dropping.p == 0) return x + y;
  Tensor out = tape().create(x.shape());
  std::copy_n(x.data(), x.numel(), out.data());
  kernels::dropout(out.data(), 1, y.data(), dropping, x.numel());
  record("add_dropout", out, {x, y}, [=] {
    add_grad(x, grad_of(out));
    if (const auto [dy, beta] = target_if_required(y); dy)
      kernels::dropout(dy, beta, grad_of(out), dropping, y.numel());
  });
  return out;
}

}  // namespace seppo::inline SEPPO_ABI
