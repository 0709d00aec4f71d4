// Functions of one array, a vector at a time: formula and derivative side by side.
//
// To add one: a struct here, its name in the table below and in kernels.h, and one line in ops/unary.cpp
// and ops.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/elementwise.cpp"
#include <hwy/foreach_target.h>

#include "../core/simd-inl.h"
#include "kernels.h"

#include <cmath>
#include <numbers>

HWY_BEFORE_NAMESPACE();
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::HWY_NAMESPACE {
namespace {

constexpr real kInvSqrt2 = static_cast<real>(1 / std::numbers::sqrt2);
constexpr real kInvSqrt2Pi = static_cast<real>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);

// The standard normal distribution at x: its density, and Phi(x), its integral up to x.
struct Normal {
  V density, phi;
};

#ifdef SEPPO_FLOAT64
// f(x) in each lane, by a scalar function.
template <class F>
V each_lane(V x, const F& f) {
  const D d;
  real values[HWY_MAX_BYTES / sizeof(real)];
  hn::StoreU(x, d, values);
  for (std::size_t l = 0; l < lanes(); ++l) values[l] = f(values[l]);
  return hn::LoadU(d, values);
}

Normal normal(V x) {
  const auto density = [](real v) { return kInvSqrt2Pi * std::exp(real{-0.5} * v * v); };
  const auto phi = [](real v) { return real{0.5} * std::erfc(-v * kInvSqrt2); };
  return {each_lane(x, density), each_lane(x, phi)};
}
#else
// erfc by Abramowitz and Stegun (1964), 7.1.26: within 1.5e-7.
HWY_INLINE Normal normal(V x) {
  const V one = set(1);
  const V z = hn::Abs(x) * set(kInvSqrt2);
  const V e = exp_nonpositive(hn::Neg(z * z));
  const V t = one / hn::MulAdd(set(0.3275911f), z, one);
  V polynomial = set(1.061405429f);
  for (const real c : {-1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f})
    polynomial = hn::MulAdd(polynomial, t, set(c));
  const V tail = set(0.5f) * e * (polynomial * t);  // Phi(-|x|)
  const V phi = hn::IfThenElse(x < hn::Zero(D()), tail, one - tail);
  return {set(kInvSqrt2Pi) * e, phi};
}
#endif

HWY_INLINE V sigmoid(V x) { return set(1) / (set(1) + exp(hn::Neg(x))); }
HWY_INLINE V tanh(V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(D(), x)); }

// forward: y = f(x). backward: dy f'(x), by x or by y.

struct Relu {
  static V forward(V x) {
    const V zero = hn::Zero(D());
    return hn::IfThenElse(x < zero, zero, x);
  }
  static V backward(V dy, V x, V) { return hn::IfThenElseZero(x > hn::Zero(D()), dy); }
};

struct Gelu {  // x Phi(x)
  static V forward(V x) { return x * normal(x).phi; }
  static V backward(V dy, V x, V) {
    const Normal at = normal(x);
    return dy * hn::MulAdd(x, at.density, at.phi);
  }
};

struct GeluTanh {  // x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3)
  struct Parts {
    V x, tanh_u, slope_u;
  };
  static Parts parts(V value) {
    const V limit = set(30);  // tanh is 1 well before, and no power overflows
    const V x = hn::IfThenElse(hn::Abs(value) > limit, hn::CopySignToAbs(limit, value), value);
    const V factor = set(static_cast<real>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi));
    const V cubic = set(static_cast<real>(0.044715));
    const V squared = x * x;
    const V u = factor * x * hn::MulAdd(cubic, squared, set(1));
    const V slope_u = factor * hn::MulAdd(set(3), cubic * squared, set(1));
    return {x, tanh(u), slope_u};
  }
  static V forward(V x) { return set(0.5) * x * (set(1) + parts(x).tanh_u); }
  static V backward(V dy, V x, V) {  // (1 + t) / 2 + x/2 (1 - t^2) u', t = tanh u
    const Parts at = parts(x);
    const V slope_of_tanh = hn::NegMulAdd(at.tanh_u, at.tanh_u, set(1));
    return dy * set(0.5) * (set(1) + at.tanh_u + at.x * at.slope_u * slope_of_tanh);
  }
};

struct Silu {  // x s, s = sigmoid(x)
  static V forward(V x) { return x * sigmoid(x); }
  static V backward(V dy, V x, V) {  // s + x s (1 - s)
    const V s = sigmoid(x);
    return dy * hn::MulAdd(x * s, set(1) - s, s);
  }
};

struct Tanh {
  static V forward(V x) { return tanh(x); }
  static V backward(V dy, V, V y) { return dy * hn::NegMulAdd(y, y, set(1)); }
};

struct Sigmoid {
  static V forward(V x) { return sigmoid(x); }
  static V backward(V dy, V, V y) { return dy * (y * (set(1) - y)); }
};

struct Softplus {  // log(1 + e^x) = max(x, 0) + log(1 + e^-|x|)
  static V forward(V x) {
    const V rest = hn::Log1p(D(), exp(hn::Neg(hn::Abs(x))));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Max(x, hn::Zero(D())) + rest);
  }
  static V backward(V dy, V x, V) { return dy * sigmoid(x); }
};

struct Erf {
#ifdef SEPPO_FLOAT64
  static V forward(V x) {
    return each_lane(x, [](real v) { return std::erf(v); });
  }
#else
  // x P(x^2) / Q(x^2), fitted for the least relative error, 3.3e-7 with rounding; from 3.92 on it rounds to 1.
  static V forward(V x) {
    const V limit = set(3.92f);
    const V one = set(1);
    const V at = hn::Max(hn::Neg(limit), hn::Min(x, limit));
    const V u = at * at;
    V p = set(2.0499351e-6f);
    for (const float c : {2.8487932e-4f, 3.7658240e-3f, 5.2749332e-2f, 0.19041236f, 1.1283791f})
      p = hn::MulAdd(p, u, set(c));
    V q = set(3.8089966e-5f);
    for (const float c : {1.1625708e-3f, 1.4969637e-2f, 0.11411139f, 0.50208127f, 1.f}) q = hn::MulAdd(q, u, set(c));
    const V y = hn::Max(hn::Neg(one), hn::Min(at * p / q, one));
    return hn::IfThenElse(hn::IsNaN(x), x, y);
  }
#endif
  static V backward(V dy, V x, V) {  // 2 / sqrt(pi) e^(-x^2)
    const V factor = set(2 * std::numbers::inv_sqrtpi_v<real>);
    return dy * (factor * exp(hn::Neg(x * x)));
  }
};

struct Exp {
  static V forward(V x) { return exp(x); }
  static V backward(V dy, V, V y) { return dy * y; }
};

template <class Op>
void forward(real* y, const real* x, std::size_t n) {
  for_each(n, [&](Part at) HWY_ATTR { store(Op::forward(load(x, at)), y, at); });
}

template <class Op>
void backward(real* dx, real beta, const real* dy, const real* x, const real* y, std::size_t n) {
  for_each(n, [&](Part at) HWY_ATTR {
    const V slope = Op::backward(load(dy, at), load(x, at), load(y, at));
    accumulate(slope, beta, dx, at);
  });
}

template <class Op>
constexpr kernels::Unary kUnary{forward<Op>, backward<Op>};

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

}  // namespace
}  // namespace kernels::HWY_NAMESPACE
}  // namespace SEPPO_ABI
}  // namespace seppo
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels {
SEPPO_KERNEL(unary);
}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
#endif
