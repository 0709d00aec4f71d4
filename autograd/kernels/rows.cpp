#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/rows.cpp"
#include <hwy/foreach_target.h>

#include "kernels.h"
#include "../core/simd-inl.h"

#include <algorithm>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

real row_max(const real* x, std::size_t n) {
  const V lowest = set(std::numeric_limits<real>::lowest());
  V top = lowest;
  for_each(n, [&](std::size_t j, std::size_t count)
                  HWY_ATTR { top = hn::Max(top, first(load(x + j, count), lowest, count)); });
  return max_lanes(top);
}

// y = exp(x - shift) over n elements; returns the sum.
real exp_row(real* y, const real* x, real shift, std::size_t n) {
  const V s = set(shift), zero = hn::Zero(D());
  V total = zero;
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    const V e = first(exp_nonpositive(hn::Sub(load(x + j, count), s)), zero, count);
    total = hn::Add(total, e);
    store(e, y + j, count);
  });
  return sum_lanes(total);
}

void SoftmaxRow(real* y, const real* x, std::size_t count, std::size_t n) {
  const real total = exp_row(y, x, row_max(x, count), count);
  const real inverse = total == 0 ? real{0} : 1 / total;  // every element was -inf
  for (std::size_t j = 0; j < count; ++j) y[j] *= inverse;
  std::fill(y + count, y + n, real{0});
}

void SoftmaxRowBackward(real* dx, real beta, const real* dy, const real* y, std::size_t n) {
  V dot = hn::Zero(D());
  for_each(n, [&](std::size_t j, std::size_t count)
                  HWY_ATTR { dot = hn::MulAdd(load(dy + j, count), load(y + j, count), dot); });
  const V total = set(sum_lanes(dot));
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    accumulate(hn::Mul(load(y + j, count), hn::Sub(load(dy + j, count), total)), beta, dx + j, count);
  });
}

real LogSumExp(const real* x, std::size_t n) {
  const real shift = row_max(x, n);
  const V s = set(shift), zero = hn::Zero(D());
  V total = zero;
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    total = hn::Add(total, first(exp_nonpositive(hn::Sub(load(x + j, count), s)), zero, count));
  });
  return shift + std::log(sum_lanes(total));
}

void LogSoftmaxRowBackward(real* dx, real beta, const real* dy, const real* y, std::size_t n) {
  V sum = hn::Zero(D());
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR { sum = hn::Add(sum, load(dy + j, count)); });
  const V total = set(sum_lanes(sum));
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    accumulate(hn::NegMulAdd(exp_nonpositive(load(y + j, count)), total, load(dy + j, count)), beta, dx + j, count);
  });
}

void CrossEntropyRowBackward(real* dx, real beta, const real* x, real lse, std::size_t target, real smoothing,
                             real scale, std::size_t n) {
  const V l = set(lse), f = set(scale), uniform = set(smoothing / static_cast<real>(n));
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    const V p = exp_nonpositive(hn::Sub(load(x + j, count), l));
    accumulate(hn::Mul(f, hn::Sub(p, uniform)), beta, dx + j, count);
  });
  dx[target] -= scale * (1 - smoothing);
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {

HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(SoftmaxRowBackward);
HWY_EXPORT(LogSumExp);
HWY_EXPORT(LogSoftmaxRowBackward);
HWY_EXPORT(CrossEntropyRowBackward);

void softmax_row(real* y, const real* x, std::size_t count, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(SoftmaxRow)(y, x, count, n);
}

void softmax_row_backward(real* dx, real beta, const real* dy, const real* y, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(SoftmaxRowBackward)(dx, beta, dy, y, n);
}

real log_sum_exp(const real* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(LogSumExp)(x, n); }

void log_softmax_row_backward(real* dx, real beta, const real* dy, const real* y, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(LogSoftmaxRowBackward)(dx, beta, dy, y, n);
}

void cross_entropy_row_backward(real* dx, real beta, const real* x, real log_sum_exp, std::size_t target,
                                real smoothing, real scale, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(CrossEntropyRowBackward)(dx, beta, x, log_sum_exp, target, smoothing, scale, n);
}

}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
