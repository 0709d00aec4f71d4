// Variance, standard deviation and norm over any axes. In double precision: neither the squares of large numbers
// overflow, nor does a mean far above the spread show.
#include "folding.h"
#include "op.h"

#include <algorithm>
#include <cmath>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

struct Spread {
  bool is_centred;  // around the mean, otherwise around 0
  bool is_root;
  double divisor;
};

// Calls f(element of x, element of the result) for each element of x.
template <class F>
void for_each(const Folding& r, const F& f) {
  r.walk.for_each([&](std::size_t ix, std::size_t iy) { f(ix, iy); });
}

double* zeros_of(std::size_t n) {
  double* const values = tape().allocate<double>(n);
  std::fill_n(values, n, 0.0);
  return values;
}

// The means of the elements that each of n elements of the result stands for.
double* means_of(const real* x, const Folding& r, std::size_t n) {
  double* const means = zeros_of(n);
  for_each(r, [=](std::size_t ix, std::size_t iy) { means[iy] += double{x[ix]}; });
  for (std::size_t i = 0; i < n; ++i) means[i] /= static_cast<double>(r.count);
  return means;
}

// The sums of (x - mean)^2.
double* squares_of(const real* x, const double* means, const Folding& r, std::size_t n) {
  double* const squares = zeros_of(n);
  for_each(r, [=](std::size_t ix, std::size_t iy) {
    const double difference = double{x[ix]} - means[iy];
    squares[iy] += difference * difference;
  });
  return squares;
}

// y = sum (x - mean)^2 / divisor, or the root of it: dx += dy slope (x - mean), as gradients through the mean cancel.
Tensor spread(const char* op, const Tensor& x, const Folding& r, const Spread& s) {
  Tensor y = tape().create(r.result);
  const std::size_t n = y.numel();
  const double* const means = s.is_centred ? means_of(x.data(), r, n) : zeros_of(n);
  double* const slopes = squares_of(x.data(), means, r, n);  // the sums of squares become slopes
  for (std::size_t i = 0; i < n; ++i) {
    const double square = slopes[i] / s.divisor;
    if (s.is_root) {
      const double root = std::sqrt(square);
      y.data()[i] = static_cast<real>(root);
      slopes[i] = root == 0 ? 0 : 1 / root / s.divisor;
    } else {
      y.data()[i] = static_cast<real>(square);
      slopes[i] = 2 / s.divisor;
    }
  }
  record(op, y, {x}, [=] {
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    const real* const at = x.data();
    for_each(r, [=](std::size_t ix, std::size_t iy) {
      dx[ix] += static_cast<real>(double{dy[iy]} * slopes[iy] * (double{at[ix]} - means[iy]));
    });
  });
  return y;
}

Tensor variance(const char* op, const Tensor& x, const Axes& axes, double correction, bool keepdim, bool is_root) {
  const Folding r(op, x, axes, keepdim);
  const double divisor = static_cast<double>(r.count) - correction;
  check(r.count > 0 && divisor > 0, op, ": of ", r.count, " elements of x ", x, " with correction ", correction);
  return spread(op, x, r, {.is_centred = true, .is_root = is_root, .divisor = divisor});
}

}  // namespace

Tensor var(const Tensor& x, const Axes& axes, double correction, bool keepdim) {
  return variance("var", x, axes, correction, keepdim, false);
}

Tensor stddev(const Tensor& x, const Axes& axes, double correction, bool keepdim) {
  return variance("stddev", x, axes, correction, keepdim, true);
}

Tensor norm(const Tensor& x, const Axes& axes, bool keepdim) {
  return spread("norm", x, Folding("norm", x, axes, keepdim), {.is_centred = false, .is_root = true, .divisor = 1});
}

}  // namespace SEPPO_ABI
}  // namespace seppo
