// Dropout: the mask is computed again by backward, not stored.
#include "../kernels/kernels.h"
#include "../ops.h"
#include "dropping.h"

namespace seppo::inline SEPPO_ABI {

Tensor dropout(const Tensor& x, double p) {
  const kernels::Dropping dropping = next_dropping("dropout", p);
  if (dropping.p == 0) return x;
  Tensor y = tape().create(x.shape());
  kernels::dropout(y.data(), 0, x.data(), p, dropping.key, x.size());
  record("dropout", y, {x}, [=] {
    const auto [dx, beta] = x.grad_target();
    kernels::dropout(dx, beta, y.grad(), p, dropping.key, x.size());
  });
  return y;
}

Tensor add_dropout(const Tensor& x, const Tensor& y, double p) {
  check(x.shape() == y.shape(), "add_dropout: x ", x, " and y ", y, " differ in shape");
  const kernels::Dropping dropping = next_dropping("add_dropout", p);
  if (dropping.p == 0) return x + y;
  Tensor out = tape().create(x.shape());
  kernels::add_dropped(out.data(), x.data(), y.data(), dropping, x.size());
  record("add_dropout", out, {x, y}, [=] {
    if (x.requires_grad()) {
      const auto [dx, beta] = x.grad_target();
      kernels::axpy(dx, beta, out.grad(), 1, x.size());
    }
    if (y.requires_grad()) {
      const auto [dy, beta] = y.grad_target();
      kernels::dropout(dy, beta, out.grad(), p, dropping.key, y.size());
    }
  });
  return out;
}

}  // namespace seppo::inline SEPPO_ABI
