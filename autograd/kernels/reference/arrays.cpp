// Arrays and matrices: scaled additions, copies, sums, dropout, and a step of Adam.
#include "reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels {
namespace reference {

void axpy(real* y, real beta, const real* x, real factor, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) accumulate(y[i], beta, double{factor} * double{x[i]});
}

void axpy_wide(double* sums, const real* x, real factor, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sums[i] += double{factor} * double{x[i]};
}

void add(real* y, const real* a, const real* b, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

void add_column_sums(real* sums, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for (std::size_t j = 0; j < cols; ++j) {
    double total = 0;
    for (std::size_t i = 0; i < rows; ++i) total += double{x[i * ldx + j]};
    accumulate(sums[j], 1, total);
  }
}

void copy_rows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) y[i * ldy + j] = x[i * ldx + j];
}

void add_rows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) y[i * ldy + j] += x[i * ldx + j];
}

double sum(const real* x, std::size_t n) {
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) total += double{x[i]};
  return total;
}

double squared_norm(const real* x, std::size_t n) {
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) total += double{x[i]} * double{x[i]};
  return total;
}

void dropout(real* y, real beta, const real* x, const Dropping& dropping, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) accumulate(y[i], beta, double{x[i]} * dropout_factor(dropping, i));
}

void adam(real* p, real* gradient, real* m, real* v, std::size_t n, const AdamStep& a) {
  const double smallest_square = double{std::numeric_limits<real>::min()};
  const double largest = double{std::numeric_limits<real>::max()};
  const double limit = 0.5 * std::sqrt(largest);  // the square of a larger gradient would overflow
  const double eps = std::max(a.eps, std::sqrt(smallest_square));
  for (std::size_t i = 0; i < n; ++i) {
    double g = a.gradient_scale * double{gradient[i]};
    if (!a.decoupled) g += a.weight_decay * double{p[i]};
    if (std::abs(g) > limit && std::abs(g) <= largest) g = std::copysign(limit, g);
    m[i] = static_cast<real>(a.beta1 * double{m[i]} + (1 - a.beta1) * g);
    v[i] = static_cast<real>(a.beta2 * double{v[i]} + (1 - a.beta2) * g * g);
    const double mean = double{m[i]} / a.correction1;
    const double square = double{v[i]} / a.correction2;
    const double kept = a.decoupled ? 1 - a.lr * a.weight_decay : 1;
    p[i] = static_cast<real>(kept * double{p[i]} - a.lr * mean / (std::sqrt(square) + eps));
    gradient[i] = 0;
  }
}

}  // namespace reference

SEPPO_REFERENCE_KERNEL(axpy);
SEPPO_REFERENCE_KERNEL(axpy_wide);
SEPPO_REFERENCE_KERNEL(add);
SEPPO_REFERENCE_KERNEL(add_column_sums);
SEPPO_REFERENCE_KERNEL(copy_rows);
SEPPO_REFERENCE_KERNEL(add_rows);
SEPPO_REFERENCE_KERNEL(sum);
SEPPO_REFERENCE_KERNEL(squared_norm);
SEPPO_REFERENCE_KERNEL(dropout);
SEPPO_REFERENCE_KERNEL(adam);

}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
