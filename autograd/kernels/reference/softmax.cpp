// Softmax and its relatives on one row.
#include "reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels {
namespace reference {

inline real largest(const real* x, std::size_t n) {
  real top = std::numeric_limits<real>::lowest();
  for (std::size_t j = 0; j < n; ++j) top = std::max(top, x[j]);
  return top;
}

real max_or_min(const real* x, real sign, std::size_t n) {
  real top = -std::numeric_limits<real>::infinity();
  for (std::size_t j = 0; j < n; ++j) {
    if (std::isnan(x[j])) return x[j];
    top = std::max(top, sign * x[j]);
  }
  return sign * top;
}

void softmax_row(real* y, const real* x, std::size_t count, std::size_t n) {
  const real top = largest(x, count);
  double total = 0;
  for (std::size_t j = 0; j < count; ++j) {
    y[j] = std::exp(x[j] - top);
    total += double{y[j]};
  }
  const double inverse = total == 0 ? 0 : 1 / total;  // all were -inf
  for (std::size_t j = 0; j < count; ++j) y[j] = static_cast<real>(double{y[j]} * inverse);
  for (std::size_t j = count; j < n; ++j) y[j] = 0;
}

void softmax_row_backward(real* dx, real beta, const real* dy, const real* y, std::size_t n) {
  double dot = 0;
  for (std::size_t j = 0; j < n; ++j) dot += double{dy[j]} * double{y[j]};
  for (std::size_t j = 0; j < n; ++j) accumulate(dx[j], beta, double{y[j]} * (double{dy[j]} - dot));
}

LogSumExp log_sum_exp(const real* x, std::size_t n) {
  const real top = largest(x, n);
  double total = 0, below = 0;
  for (std::size_t j = 0; j < n; ++j) {
    total += double{std::exp(x[j] - top)};
    below += double{x[j] - top};
  }
  return {top, std::log(static_cast<real>(total)), below};
}

void log_softmax_row_backward(real* dx, real beta, const real* dy, const real* y, std::size_t n) {
  double total = 0;
  for (std::size_t j = 0; j < n; ++j) total += double{dy[j]};
  for (std::size_t j = 0; j < n; ++j) accumulate(dx[j], beta, double{dy[j]} - double{std::exp(y[j])} * total);
}

void log_sum_exp_backward(real* dx, real beta, const real* x, const LogSumExp& sum, real uniform, real scale,
                          std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) {
    const real p = std::exp(x[j] - sum.max - sum.log_sum);
    accumulate(dx[j], beta, double{scale} * (double{p} - double{uniform}));
  }
}

}  // namespace reference

SEPPO_REFERENCE_KERNEL(max_or_min);
SEPPO_REFERENCE_KERNEL(softmax_row);
SEPPO_REFERENCE_KERNEL(softmax_row_backward);
SEPPO_REFERENCE_KERNEL(log_sum_exp);
SEPPO_REFERENCE_KERNEL(log_softmax_row_backward);
SEPPO_REFERENCE_KERNEL(log_sum_exp_backward);

}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
