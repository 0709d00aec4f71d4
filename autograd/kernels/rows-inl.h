// Passes over one row, shared by softmax and attention; included once per instruction set, like simd-inl.h.
#if defined(SEPPO_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SEPPO_ROWS_INL_H
#undef SEPPO_ROWS_INL_H
#else
#define SEPPO_ROWS_INL_H
#endif

#include "../core/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

inline real row_max(const real* x, std::size_t n) {
  const V lowest = set(hwy::LowestValue<real>());
  V top = lowest;
  for_each(n, [&](std::size_t j, std::size_t count)
                  HWY_ATTR { top = hn::Max(top, first(load(x + j, count), lowest, count)); });
  return max_lanes(top);
}

// y = exp(scale (x - top)), which is at most 1; returns the sum.
inline real exp_row(real* y, const real* x, real scale, real top, std::size_t n) {
  const V f = set(scale), t = set(top), zero = hn::Zero(D());
  V total = zero;
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    const V e = first(exp_nonpositive(hn::Mul(hn::Sub(load(x + j, count), t), f)), zero, count);
    total = hn::Add(total, e);
    store(e, y + j, count);
  });
  return sum_lanes(total);
}

inline real dot_row(const real* x, const real* y, std::size_t n) {
  V dot = hn::Zero(D());
  for_each(n, [&](std::size_t j, std::size_t count)
                  HWY_ATTR { dot = hn::MulAdd(load(x + j, count), load(y + j, count), dot); });
  return sum_lanes(dot);
}

// out = x y
inline void multiply_row(real* out, const real* x, const real* y, std::size_t n) {
  for_each(n, [&](std::size_t j, std::size_t count)
                  HWY_ATTR { store(hn::Mul(load(x + j, count), load(y + j, count)), out + j, count); });
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
