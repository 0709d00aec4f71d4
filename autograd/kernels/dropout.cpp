#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/dropout.cpp"
#include <hwy/foreach_target.h>

#include "dropout-inl.h"
#include "kernels.h"
#include "../core/simd-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

void Dropout(real* y, real beta, const real* x, double p, const DropoutKey& key, std::size_t n) {
  const DropoutFactors random(p, key);
  real factors[DropoutFactors::kGroup];
  for (std::size_t i = 0; i < n; i += DropoutFactors::kGroup) {
    random(factors, static_cast<std::uint32_t>(i / DropoutFactors::kGroup));
    for_each(std::min(DropoutFactors::kGroup, n - i), [&](std::size_t j, std::size_t count) HWY_ATTR {
      accumulate(hn::Mul(load(x + i + j, count), load(factors + j, count)), beta, y + i + j, count);
    });
  }
}

void AddDropped(real* out, const real* x, const real* y, const Dropping& dropping, std::size_t n) {
  const DropoutFactors random(dropping.p, dropping.key);
  real factors[DropoutFactors::kGroup];
  for (std::size_t i = 0; i < n; i += DropoutFactors::kGroup) {
    random(factors, static_cast<std::uint32_t>(i / DropoutFactors::kGroup));
    for_each(std::min(DropoutFactors::kGroup, n - i), [&](std::size_t j, std::size_t count) HWY_ATTR {
      store(hn::MulAdd(load(y + i + j, count), load(factors + j, count), load(x + i + j, count)), out + i + j, count);
    });
  }
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {

HWY_EXPORT(Dropout);
HWY_EXPORT(AddDropped);

void dropout(real* y, real beta, const real* x, double p, const DropoutKey& key, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(Dropout)(y, beta, x, p, key, n);
}

void add_dropped(real* out, const real* x, const real* y, const Dropping& dropping, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(AddDropped)(out, x, y, dropping, n);
}

}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
