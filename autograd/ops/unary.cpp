// Functions of one tensor, element by element.
#include "op.h"

#include <cmath>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// The functions in which models spend time have kernels.
Tensor unary(const char* name, const kernels::Unary& kernel, const Tensor& x) {
  Tensor y = tape().create(x.shape());
  apply(kernel, y.data(), x.data(), x.numel());
  record(name, y, {x}, [=] {
    const auto [dx, beta] = grad_target(x);
    apply_slope(kernel, dx, beta, grad_of(y), x.data(), y.data(), x.numel());
  });
  return y;
}

// The others are written as formulas: y = f(x), dx += dy slope(x, y).
template <class F, class Slope>
Tensor map(const char* name, const Tensor& x, const F& f, const Slope& slope) {
  Tensor y = tape().create(x.shape());
  for (std::size_t i = 0; i < x.numel(); ++i) y.data()[i] = f(x.data()[i]);
  record(name, y, {x}, [=] {
    const auto [dx, beta] = grad_target(x);
    const real* const dy = grad_of(y);
    const real* const from = x.data();
    const real* const to = y.data();
    const std::size_t n = x.numel();
    for (std::size_t i = 0; i < n; ++i) dx[i] = dy[i] * slope(from[i], to[i]) + (beta == 0 ? 0 : dx[i]);
  });
  return y;
}

}  // namespace

Tensor relu(const Tensor& x) { return unary("relu", kernels::unary().relu, x); }
Tensor gelu(const Tensor& x) { return unary("gelu", kernels::unary().gelu, x); }
Tensor gelu_tanh(const Tensor& x) { return unary("gelu_tanh", kernels::unary().gelu_tanh, x); }
Tensor silu(const Tensor& x) { return unary("silu", kernels::unary().silu, x); }
Tensor tanh(const Tensor& x) { return unary("tanh", kernels::unary().tanh, x); }
Tensor sigmoid(const Tensor& x) { return unary("sigmoid", kernels::unary().sigmoid, x); }
Tensor softplus(const Tensor& x) { return unary("softplus", kernels::unary().softplus, x); }
Tensor erf(const Tensor& x) { return unary("erf", kernels::unary().erf, x); }
Tensor exp(const Tensor& x) { return unary("exp", kernels::unary().exp, x); }

Tensor scale(const Tensor& x, real factor) {
  Tensor y = tape().create(x.shape());
  kernels::scale(y.data(), x.data(), factor, x.numel());
  record("scale", y, {x}, [=] { add_grad(x, grad_of(y), factor); });
  return y;
}

using Function = real (*)(real);

namespace {

// Steps between integers: the slope is 0 everywhere.
Tensor step(const char* name, const Tensor& x, Function f) {
  return map(name, x, f, [](real, real) { return real{0}; });
}

}  // namespace

Tensor abs(const Tensor& x) {
  return map("abs", x, Function(std::abs), [](real v, real) { return static_cast<real>((v > 0) - (v < 0)); });
}
Tensor floor(const Tensor& x) { return step("floor", x, std::floor); }
Tensor trunc(const Tensor& x) { return step("trunc", x, std::trunc); }
Tensor round(const Tensor& x) { return step("round", x, std::nearbyint); }

Tensor sqrt(const Tensor& x) {
  return map("sqrt", x, Function(std::sqrt), [](real, real y) { return real{0.5} / y; });
}
Tensor sin(const Tensor& x) {
  return map("sin", x, Function(std::sin), [](real v, real) { return std::cos(v); });
}
Tensor cos(const Tensor& x) {
  return map("cos", x, Function(std::cos), [](real v, real) { return -std::sin(v); });
}
Tensor log(const Tensor& x) {
  return map("log", x, Function(std::log), [](real v, real) { return 1 / v; });
}
Tensor log1p(const Tensor& x) {
  return map("log1p", x, Function(std::log1p), [](real v, real) { return 1 / (1 + v); });
}
Tensor expm1(const Tensor& x) {
  return map("expm1", x, Function(std::expm1), [](real v, real) { return std::exp(v); });
}
Tensor elu(const Tensor& x, real alpha) {
  return map(
      "elu", x, [=](real v) { return v > 0 ? v : alpha * std::expm1(v); },
      [=](real v, real) { return v > 0 ? 1 : alpha * std::exp(v); });
}

Tensor square(const Tensor& x) {
  return map(
      "square", x, [](real v) { return v * v; }, [](real v, real) { return 2 * v; });
}

Tensor rsqrt(const Tensor& x) {
  return map(
      "rsqrt", x, [](real v) { return 1 / std::sqrt(v); }, [](real, real y) { return real{-0.5} * y * y * y; });
}

Tensor pow(const Tensor& x, real exponent) { return pow(x, full({}, exponent)); }

Tensor clamp(const Tensor& x, real low, real high) {
  check<ArgumentError>(!std::isnan(low) && !std::isnan(high), "clamp: a limit is NaN");
  return map(
      "clamp", x, [=](real v) { return std::isnan(v) ? v : std::fmin(std::fmax(v, low), high); },
      [=](real v, real) { return static_cast<real>(v >= low && v <= high); });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
