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

// The sum of the first `count` columns: halves of the rows are added, down to blocks of kMostTerms.
V column_sum(const real* x, std::size_t ldx, std::size_t rows, std::size_t count) {
  if (rows > kMostTerms) {
    const std::size_t blocks = (rows + kMostTerms - 1) / kMostTerms, half = blocks / 2 * kMostTerms;
    const V above = column_sum(x, ldx, half, count);
    return hn::Add(above, column_sum(x + half * ldx, ldx, rows - half, count));
  }
  V total = hn::Zero(D());
  for (std::size_t i = 0; i < rows; ++i) total = hn::Add(total, load(x + i * ldx, count));
  return total;
}

// A strip of columns one vector wide at a time, down all rows.
void add_column_sums(real* sums, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for_each(cols, [&](std::size_t j, std::size_t count)
                     HWY_ATTR { accumulate(column_sum(x + j, ldx, rows, count), 1, sums + j, count); });
}

void copy_rows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for_each(cols, [&](std::size_t j, std::size_t n) HWY_ATTR { store(load(x + i * ldx + j, n), y + i * ldy + j, n); });
}

void add_rows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) y[i * ldy + j] += x[i * ldx + j];
}

double sum(const real* x, std::size_t n) {
  DoubleSum sum;
  for_each(n, [&](std::size_t i, std::size_t count) HWY_ATTR { sum.add(load(x + i, count)); });
  return sum.total();
}

double squared_norm(const real* x, std::size_t n) {
  DoubleSum sum;
  for_each(n, [&](std::size_t i, std::size_t count) HWY_ATTR { sum.add_square(load(x + i, count)); });
  return sum.total();
}

void dropout(real* y, real beta, const real* x, const Dropping& dropping, std::size_t first, std::size_t last) {
  const DropoutFactors random(dropping);
  real factors[DropoutFactors::kGroup];
  for (std::size_t i = first; i < last; i += DropoutFactors::kGroup) {
    random(factors, static_cast<std::uint32_t>(i / DropoutFactors::kGroup));
    for_each(std::min(DropoutFactors::kGroup, last - i), [&](std::size_t j, std::size_t count) HWY_ATTR {
      accumulate(hn::Mul(load(x + i + j, count), load(factors + j, count)), beta, y + i + j, count);
    });
  }
}

void adam(real* p, real* gradient, real* m, real* v, std::size_t n, const AdamStep& a) {
  const auto constant = [](double value) HWY_ATTR { return set(static_cast<real>(value)); };
  const V beta1 = constant(a.beta1), rest1 = constant(1 - a.beta1);
  const V beta2 = constant(a.beta2), rest2 = constant(1 - a.beta2);
  // Squares of less underflow: then v is 0, and a smaller eps alone would make huge steps.
  const double least = std::sqrt(double{std::numeric_limits<real>::min()});
  const V scale = constant(a.gradient_scale), eps = constant(std::max(a.eps, least));
  const V l2 = constant(a.decoupled ? 0 : a.weight_decay);
  const V shrink = constant(a.decoupled ? 1 - a.lr * a.weight_decay : 1);
  const V rate = constant(a.lr / a.correction1), root = constant(1 / std::sqrt(a.correction2));
  constexpr real kLargest = std::numeric_limits<real>::max();
  const V limit = constant(0.5 * std::sqrt(double{kLargest})), largest = set(kLargest);
  for_each(n, [&](std::size_t i, std::size_t count) HWY_ATTR {
    V x = load(p + i, count);
    V g = hn::MulAdd(l2, x, hn::Mul(scale, load(gradient + i, count)));
    const V size = hn::Abs(g);  // NaN and infinity stay what they are
    g = hn::IfThenElse(hn::And(hn::Gt(size, limit), hn::Le(size, largest)), hn::CopySign(limit, g), g);
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
