// Dropout of an array: factors are drawn a group of 128 at a time and multiplied in.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/dropout.cpp"
#include <hwy/foreach_target.h>

#include "../core/simd-inl.h"
#include "dropout-inl.h"
#include "kernels.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

void dropout(real* y, real beta, const real* x, const Dropping& dropping, std::size_t n) {
  const DropoutFactors random(dropping);
  real factors[DropoutFactors::kGroup];
  for (std::size_t i = 0; i < n; i += DropoutFactors::kGroup) {
    random(factors, static_cast<std::uint32_t>(i / DropoutFactors::kGroup));
    for_each(std::min(DropoutFactors::kGroup, n - i), [&](std::size_t j, std::size_t count) HWY_ATTR {
      accumulate(hn::Mul(load(x + i + j, count), load(factors + j, count)), beta, y + i + j, count);
    });
  }
}

void add_dropped(real* out, const real* x, const real* y, const Dropping& dropping, std::size_t n) {
  const DropoutFactors random(dropping);
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
SEPPO_KERNEL(dropout);
SEPPO_KERNEL(add_dropped);
}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
