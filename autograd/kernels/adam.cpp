// One step of Adam in one pass over the parameters: values, gradients and both moments are read and written once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/adam.cpp"
#include <hwy/foreach_target.h>

#include "../core/simd-inl.h"
#include "kernels.h"

#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

void adam(real* p, real* gradient, real* m, real* v, std::size_t n, const AdamStep& a) {
  const auto constant = [](double value) HWY_ATTR { return set(static_cast<real>(value)); };
  const V beta1 = constant(a.beta1), rest1 = constant(1 - a.beta1);
  const V beta2 = constant(a.beta2), rest2 = constant(1 - a.beta2);
  const V scale = constant(a.gradient_scale), eps = constant(a.eps);
  const V l2 = constant(a.decoupled ? 0 : a.weight_decay);
  const V shrink = constant(a.decoupled ? 1 - a.lr * a.weight_decay : 1);
  const V rate = constant(a.lr / a.correction1), root = constant(1 / std::sqrt(a.correction2));
  for_each(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
    V x = load(p + i, count);
    const V g = hn::MulAdd(l2, x, hn::Mul(scale, load(gradient + i, count)));
    const V m1 = hn::MulAdd(beta1, load(m + i, count), hn::Mul(rest1, g));
    const V v1 = hn::MulAdd(beta2, load(v + i, count), hn::Mul(rest2, hn::Mul(g, g)));
    const V denominator = hn::MulAdd(hn::Sqrt(v1), root, eps);
    x = hn::NegMulAdd(rate, hn::Div(m1, denominator), hn::Mul(shrink, x));
    store(x, p + i, count);
    store(m1, m + i, count);
    store(v1, v + i, count);
    store(hn::Zero(D()), gradient + i, count);
  });
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {
SEPPO_KERNEL(adam);
}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
