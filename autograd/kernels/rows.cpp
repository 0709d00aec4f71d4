// Extremes, softmax and its relatives on one row: a pass for the maximum, one for the exponentials and their sum, one
// to scale.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/rows.cpp"
#include <hwy/foreach_target.h>

#include "kernels.h"
#include "rows-inl.h"

#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

void softmax_row(real* y, const real* x, std::size_t count, std::size_t n) {
  const real total = exp_row(y, x, 1, row_max(x, count), count);
  const real inverse = total == 0 ? real{0} : 1 / total;  // all were -inf
  for (std::size_t j = 0; j < count; ++j) y[j] *= inverse;
  std::fill(y + count, y + n, real{0});
}

void softmax_row_backward(real* dx, real beta, const real* dy, const real* y, std::size_t n) {
  const V total = set(dot_row(dy, y, n));
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    accumulate(hn::Mul(load(y + j, count), hn::Sub(load(dy + j, count), total)), beta, dx + j, count);
  });
}

LogSumExp log_sum_exp(const real* x, std::size_t n) {
  const real shift = row_max(x, n);
  const V s = set(shift), zero = hn::Zero(D());
  V total = zero;
  DoubleSum below;
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    const V difference = hn::Sub(load(x + j, count), s);
    total = hn::Add(total, first(exp_nonpositive(difference), zero, count));
    below.add(first(difference, zero, count));
  });
  return {shift, std::log(sum_lanes(total)), below.total()};
}

void log_softmax_row_backward(real* dx, real beta, const real* dy, const real* y, std::size_t n) {
  V sum = hn::Zero(D());
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR { sum = hn::Add(sum, load(dy + j, count)); });
  const V total = set(sum_lanes(sum));
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    accumulate(hn::NegMulAdd(exp_nonpositive(load(y + j, count)), total, load(dy + j, count)), beta, dx + j, count);
  });
}

void log_sum_exp_backward(real* dx, real beta, const real* x, const LogSumExp& sum, real uniform, real scale,
                          std::size_t n) {
  const V m = set(sum.max), l = set(sum.log_sum), f = set(scale), u = set(uniform);
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    const V p = exp_nonpositive(hn::Sub(hn::Sub(load(x + j, count), m), l));
    accumulate(hn::Mul(f, hn::Sub(p, u)), beta, dx + j, count);
  });
}

real extreme(const real* x, real sign, std::size_t n) {
  const V s = set(sign), lowest = set(-std::numeric_limits<real>::infinity());
  V top = lowest;
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    const V v = first(hn::Mul(s, load(x + j, count)), lowest, count);
    top = hn::IfThenElse(hn::Or(hn::Gt(v, top), hn::IsNaN(v)), v, top);
  });
  return hn::AllFalse(D(), hn::IsNaN(top)) ? sign * max_lanes(top) : std::numeric_limits<real>::quiet_NaN();
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {
SEPPO_KERNEL(softmax_row);
SEPPO_KERNEL(softmax_row_backward);
SEPPO_KERNEL(log_sum_exp);
SEPPO_KERNEL(log_softmax_row_backward);
SEPPO_KERNEL(log_sum_exp_backward);
SEPPO_KERNEL(extreme);
}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
