// Arrays and matrices, row by row: scaled additions, copies, sums, dropout and a step of Adam. Plain loops where the
// compiler vectorises them as well as we would.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/arrays.cpp"
#include <hwy/foreach_target.h>

#include "../core/simd-inl.h"
#include "dropout-inl.h"
#include "kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::HWY_NAMESPACE {
namespace {

void axpy(real* y, real beta, const real* x, real factor, std::size_t n) {
  if (beta == 0)
    for (std::size_t i = 0; i < n; ++i) y[i] = factor * x[i];
  else
    for (std::size_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

void axpy_wide(double* sums, const real* x, real factor, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sums[i] += double{factor} * double{x[i]};
}

void add(real* y, const real* a, const real* b, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

// The sums of the first `count` columns: halves of the rows are added, down to blocks of kMostTerms.
V column_sum(const real* x, std::size_t ldx, std::size_t rows, std::size_t count) {
  if (rows > kMostTerms) {
    const std::size_t blocks = (rows + kMostTerms - 1) / kMostTerms;
    const std::size_t half = blocks / 2 * kMostTerms;
    const V above = column_sum(x, ldx, half, count);
    const V below = column_sum(x + half * ldx, ldx, rows - half, count);
    return above + below;
  }
  V total = hn::Zero(D());
  for (std::size_t i = 0; i < rows; ++i) total += load(x + i * ldx, count);
  return total;
}

// A strip of columns one vector wide at a time, down all rows.
void add_column_sums(real* sums, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for_each(cols, [&](Part at) HWY_ATTR {
    const V total = column_sum(x + at.begin, ldx, rows, at.count);
    accumulate(total, 1, sums, at);
  });
}

void copy_rows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i) {
    real* const to = y + i * ldy;
    const real* const from = x + i * ldx;
    for_each(cols, [&](Part at) HWY_ATTR { store(load(from, at), to, at); });
  }
}

void add_rows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) y[i * ldy + j] += x[i * ldx + j];
}

double sum(const real* x, std::size_t n) {
  DoubleSum sum;
  for_each(n, [&](Part at) HWY_ATTR { sum.add(load(x, at)); });
  return sum.total();
}

double squared_norm(const real* x, std::size_t n) {
  DoubleSum sum;
  for_each(n, [&](Part at) HWY_ATTR { sum.add_square(load(x, at)); });
  return sum.total();
}

void dropout(real* y, real beta, const real* x, const Dropping& dropping, std::size_t first, std::size_t last) {
  constexpr std::size_t kGroup = DropoutFactors::kGroup;
  const DropoutFactors random(dropping);
  real factors[kGroup];
  for (std::size_t i = first; i < last; i += kGroup) {
    random(factors, static_cast<std::uint32_t>(i / kGroup));
    const std::size_t count = std::min(kGroup, last - i);
    for_each(count, [&](Part at) HWY_ATTR { accumulate(load(x + i, at) * load(factors, at), beta, y + i, at); });
  }
}

void adam(real* p, real* gradient, real* m, real* v, std::size_t n, const AdamStep& a) {
  const auto constant = [](double value) HWY_ATTR { return set(static_cast<real>(value)); };
  // Squares of less underflow: then v is 0, and a smaller eps alone would make huge steps.
  const double least = std::sqrt(double{std::numeric_limits<real>::min()});
  constexpr real kLargest = std::numeric_limits<real>::max();
  const V beta1 = constant(a.beta1);
  const V rest1 = constant(1 - a.beta1);
  const V beta2 = constant(a.beta2);
  const V rest2 = constant(1 - a.beta2);
  const V scale = constant(a.gradient_scale);
  const V l2 = constant(a.decoupled ? 0 : a.weight_decay);
  const V kept = constant(a.decoupled ? 1 - a.lr * a.weight_decay : 1);  // of the weight
  const V rate = constant(a.lr / a.correction1);
  const V root = constant(1 / std::sqrt(a.correction2));
  const V eps = constant(std::max(a.eps, least));
  const V limit = constant(0.5 * std::sqrt(double{kLargest}));
  for_each(n, [&](Part at) HWY_ATTR {
    const V weight = load(p, at);
    const V given = hn::MulAdd(l2, weight, scale * load(gradient, at));
    const V size = hn::Abs(given);
    const auto is_cut = hn::And(size > limit, size <= set(kLargest));  // NaN and infinity stay what they are
    const V g = hn::IfThenElse(is_cut, hn::CopySign(limit, given), given);
    const V mean = hn::MulAdd(beta1, load(m, at), rest1 * g);
    const V square = hn::MulAdd(beta2, load(v, at), rest2 * (g * g));
    const V step = mean / hn::MulAdd(hn::Sqrt(square), root, eps);
    store(hn::NegMulAdd(rate, step, kept * weight), p, at);
    store(mean, m, at);
    store(square, v, at);
    store(hn::Zero(D()), gradient, at);
  });
}

}  // namespace
}  // namespace kernels::HWY_NAMESPACE
}  // namespace SEPPO_ABI
}  // namespace seppo
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels {
SEPPO_KERNEL(axpy);
SEPPO_KERNEL(axpy_wide);
SEPPO_KERNEL(add);
SEPPO_KERNEL(add_column_sums);
SEPPO_KERNEL(copy_rows);
SEPPO_KERNEL(add_rows);
SEPPO_KERNEL(sum);
SEPPO_KERNEL(squared_norm);
SEPPO_KERNEL(dropout);
SEPPO_KERNEL(adam);
}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
#endif
