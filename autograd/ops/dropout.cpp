// Dropout: the mask is computed again by backward, not stored.
#include "../kernels/kernels.h"
#include "../ops.h"
#include "dropping.h"

namespace seppo::inline SEPPO_ABI {

Tensor dropout(const Tensor& x, double p) {
  const kernels::Dropping dropping = next_dropping("dropout", p);
  if (dropping.p == 0) return x;
  Tensor y = tape().create(x.shape());
  kernels::dropout(y.data(), 0, x.data(), p, dropping.key, x.numel());
  record("dropout", y, {x}, [=] {
    const auto [dx, beta] = grad_target(x);
    kernels::dropout(dx, beta, grad_of(y), p, dropping.key, x.numel());
  });
  return y;
}

Tensor add_dropout(const Tensor& x, const Tensor& y, double p) {
  check(x.shape() == y.shape(), "add_dropout: x ", x, " and y ", y, " differ in shape");
  const kernels::Dropping dropping = next_dropping("add_dropout", p);
  if (dropping.p == 0) return x + y;
  Tensor out = tape().create(x.shape());
  kernels::add_dropped(out.data(), x.data(), y.data(), dropping, x.numel());
  record("add_dropout", out, {x, y}, [=] {
    if (x.requires_grad()) {
      const auto [dx, beta] = grad_target(x);
      kernels::axpy(dx, beta, grad_of(out), 1, x.numel());
    }
    if (y.requires_grad()) {
      const auto [dy, beta] = grad_target(y);
      kernels::dropout(dy, beta, grad_of(out), p, dropping.key, y.numel());
    }
  });
  return out;
}

}  // namespace seppo::inline SEPPO_ABI
