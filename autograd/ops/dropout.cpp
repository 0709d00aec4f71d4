// Dropout: backward draws the mask again rather than storing it.
#include "op.h"

namespace seppo {
inline namespace SEPPO_ABI {

Tensor dropout(const Tensor& x, double p) {
  const kernels::Dropping dropping = next_dropping("dropout", p);
  if (dropping.p == 0) return x;
  Tensor y = tape().create(x.shape());
  apply(dropping, y.data(), 0, x.data(), x.numel());
  record("dropout", y, {x}, [=] {
    const auto [dx, beta] = grad_target(x);
    apply(dropping, dx, beta, grad_of(y), x.numel());
  });
  return y;
}

Tensor add_dropout(const Tensor& x, const Tensor& y, double p) {
  check(x.shape() == y.shape(), "add_dropout: x ", x, " and y ", y, " differ in shape");
  const kernels::Dropping dropping = next_dropping("add_dropout", p);
  if (dropping.p == 0) return x + y;
  Tensor out = tape().create(x.shape());
  std::copy_n(x.data(), x.numel(), out.data());
  apply(dropping, out.data(), 1, y.data(), x.numel());
  record("add_dropout", out, {x, y}, [=] {
    add_grad(x, grad_of(out));
    if (const auto [dy, beta] = target_if_required(y); dy) apply(dropping, dy, beta, grad_of(out), y.numel());
  });
  return out;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
