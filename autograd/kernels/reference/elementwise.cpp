// Functions of one array: formula and derivative side by side.
#include "reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels {
namespace reference {

// The standard normal distribution at x: its density, and its integral up to x.
inline real density(real x) {
  const real factor = std::numbers::inv_sqrtpi_v<real> / std::numbers::sqrt2_v<real>;
  return factor * std::exp(real{-0.5} * x * x);
}
inline real integral(real x) { return real{0.5} * std::erfc(-x / std::numbers::sqrt2_v<real>); }

inline real sigmoid_of(real x) { return 1 / (1 + std::exp(-x)); }

// forward: y = f(x). backward: dy f'(x), by x or by y.

struct Relu {
  static real forward(real x) { return x < 0 ? 0 : x; }
  static real backward(real dy, real x, real) { return x > 0 ? dy : 0; }
};

struct Gelu {
  static real forward(real x) { return x * integral(x); }
  static real backward(real dy, real x, real) { return dy * (x * density(x) + integral(x)); }
};

struct GeluTanh {  // x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3)
  static constexpr real kFactor = std::numbers::sqrt2_v<real> * std::numbers::inv_sqrtpi_v<real>;
  static constexpr real kCubic = static_cast<real>(0.044715);

  static real inner(real x) { return kFactor * (x + kCubic * x * x * x); }
  static real slope_of_inner(real x) { return kFactor * (1 + 3 * kCubic * x * x); }
  // tanh is 1 well before, and no power overflows.
  static real limited(real x) { return std::clamp<real>(x, -30, 30); }

  static real forward(real x) { return real{0.5} * x * (1 + std::tanh(inner(limited(x)))); }
  static real backward(real dy, real x, real) {
    const real at = limited(x);
    const real t = std::tanh(inner(at));
    return dy * real{0.5} * (1 + t + at * (1 - t * t) * slope_of_inner(at));
  }
};

struct Silu {
  static real forward(real x) { return x * sigmoid_of(x); }
  static real backward(real dy, real x, real) {
    const real s = sigmoid_of(x);
    return dy * (s + x * s * (1 - s));
  }
};

struct Tanh {
  static real forward(real x) { return std::tanh(x); }
  static real backward(real dy, real, real y) { return dy * (1 - y * y); }
};

struct Sigmoid {
  static real forward(real x) { return sigmoid_of(x); }
  static real backward(real dy, real, real y) { return dy * y * (1 - y); }
};

struct Softplus {  // log(1 + e^x)
  static real forward(real x) { return std::max(x, real{0}) + std::log1p(std::exp(-std::abs(x))); }
  static real backward(real dy, real x, real) { return dy * sigmoid_of(x); }
};

struct Erf {
  static real forward(real x) { return std::erf(x); }
  static real backward(real dy, real x, real) { return dy * 2 * std::numbers::inv_sqrtpi_v<real> * std::exp(-x * x); }
};

struct Exp {
  static real forward(real x) { return std::exp(x); }
  static real backward(real dy, real, real y) { return dy * y; }
};

template <class F>
void forward(real* y, const real* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = F::forward(x[i]);
}

template <class F>
void backward(real* dx, real beta, const real* dy, const real* x, const real* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) accumulate(dx[i], beta, double{F::backward(dy[i], x[i], y[i])});
}

template <class F>
constexpr kernels::Unary kUnary{forward<F>, backward<F>};

const UnaryTable& unary() {
  static constexpr UnaryTable table{.relu = kUnary<Relu>,
                                    .gelu = kUnary<Gelu>,
                                    .gelu_tanh = kUnary<GeluTanh>,
                                    .silu = kUnary<Silu>,
                                    .tanh = kUnary<Tanh>,
                                    .sigmoid = kUnary<Sigmoid>,
                                    .softplus = kUnary<Softplus>,
                                    .erf = kUnary<Erf>,
                                    .exp = kUnary<Exp>};
  return table;
}

}  // namespace reference

SEPPO_REFERENCE_KERNEL(unary);

}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
