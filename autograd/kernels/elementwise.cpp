#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/elementwise.cpp"
#include <hwy/foreach_target.h>

#include "kernels.h"
#include "../core/simd-inl.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

constexpr real kInvSqrt2 = static_cast<real>(1 / std::numbers::sqrt2);
constexpr real kInvSqrt2Pi = static_cast<real>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);

// The normal distribution at x: its density, and Phi(x), its integral up to x.
struct Normal {
  V density, phi;
};

#ifdef SEPPO_FLOAT64
Normal normal(V x) {
  const D d;
  real phi[HWY_MAX_BYTES / sizeof(real)], density[HWY_MAX_BYTES / sizeof(real)];
  hn::StoreU(x, d, phi);
  for (std::size_t i = 0; i < lanes(); ++i) {
    density[i] = kInvSqrt2Pi * std::exp(real{-0.5} * phi[i] * phi[i]);
    phi[i] = real{0.5} * std::erfc(-phi[i] * kInvSqrt2);
  }
  return {hn::LoadU(d, density), hn::LoadU(d, phi)};
}
#else
// erfc by Abramowitz and Stegun (1964), 7.1.26: within 1.5e-7.
HWY_INLINE Normal normal(V x) {
  const V z = hn::Mul(hn::Abs(x), set(kInvSqrt2)), one = set(1);
  const V e = exp_nonpositive(hn::Neg(hn::Mul(z, z))), t = hn::Div(one, hn::MulAdd(set(0.3275911f), z, one));
  V polynomial = set(1.061405429f);
  for (const real c : {-1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f})
    polynomial = hn::MulAdd(polynomial, t, set(c));
  const V tail = hn::Mul(hn::Mul(set(0.5f), e), hn::Mul(polynomial, t));  // Phi(-|x|)
  return {hn::Mul(set(kInvSqrt2Pi), e), hn::IfThenElse(hn::Lt(x, hn::Zero(D())), tail, hn::Sub(one, tail))};
}
#endif

HWY_INLINE V tanh(V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(D(), x)); }
HWY_INLINE V sigmoid(V x) { return hn::Div(set(1), hn::Add(set(1), exp(hn::Neg(x)))); }

// gelu's approximation: x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3)
struct GeluTanh {
  V x, tanh_u, slope_u;
  explicit GeluTanh(V value) {
    const V limit = set(30);  // where tanh is 1 long since, and no power overflows
    x = hn::IfThenElse(hn::Gt(hn::Abs(value), limit), hn::CopySignToAbs(limit, value), value);
    const V factor = set(static_cast<real>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi));
    const V cubic = set(static_cast<real>(0.044715)), squared = hn::Mul(x, x);
    tanh_u = tanh(hn::Mul(hn::Mul(factor, x), hn::MulAdd(cubic, squared, set(1))));
    slope_u = hn::Mul(factor, hn::MulAdd(set(3), hn::Mul(cubic, squared), set(1)));
  }
};

void Unary(kernels::Unary op, real* y, const real* x, std::size_t n) {
  const V zero = hn::Zero(D()), one = set(1);
  const auto map = [&](const auto& f) HWY_ATTR {
    for_each(n, [&](std::size_t i, std::size_t count) HWY_ATTR { store(f(load(x + i, count)), y + i, count); });
  };
  switch (op) {
    case kernels::Unary::relu:
      return map([&](V v) HWY_ATTR { return hn::IfThenElse(hn::Lt(v, zero), zero, v); });
    case kernels::Unary::tanh:
      return map([&](V v) HWY_ATTR { return tanh(v); });
    case kernels::Unary::sigmoid:
      return map([&](V v) HWY_ATTR { return sigmoid(v); });
    case kernels::Unary::silu:
      return map([&](V v) HWY_ATTR { return hn::Mul(v, sigmoid(v)); });
    case kernels::Unary::gelu_tanh:
      return map([&](V v) HWY_ATTR { return hn::Mul(hn::Mul(set(0.5), v), hn::Add(one, GeluTanh(v).tanh_u)); });
    case kernels::Unary::exp:
      return map([&](V v) HWY_ATTR { return exp(v); });
    case kernels::Unary::log:
      for (std::size_t i = 0; i < n; ++i) y[i] = std::log(x[i]);
      return;
    case kernels::Unary::gelu:
      return map([&](V v) HWY_ATTR { return hn::Mul(v, normal(v).phi); });
  }
}

void UnaryBackward(kernels::Unary op, real* dx, real beta, const real* dy, const real* x, const real* y,
                   std::size_t n) {
  const V zero = hn::Zero(D()), one = set(1);
  // dx = beta dx + f(dy, the saved value)
  const auto map = [&](const real* saved, const auto& f) HWY_ATTR {
    for_each(n, [&](std::size_t i, std::size_t count)
                    HWY_ATTR { accumulate(f(load(dy + i, count), load(saved + i, count)), beta, dx + i, count); });
  };
  switch (op) {
    case kernels::Unary::relu:
      return map(x, [&](V g, V v) HWY_ATTR { return hn::IfThenElse(hn::Gt(v, zero), g, zero); });
    case kernels::Unary::tanh:
      return map(y, [&](V g, V v) HWY_ATTR { return hn::Mul(g, hn::NegMulAdd(v, v, one)); });
    case kernels::Unary::sigmoid:
      return map(y, [&](V g, V v) HWY_ATTR { return hn::Mul(g, hn::Mul(v, hn::Sub(one, v))); });
    case kernels::Unary::exp:
      return map(y, [&](V g, V v) HWY_ATTR { return hn::Mul(g, v); });
    case kernels::Unary::log:
      return map(x, [&](V g, V v) HWY_ATTR { return hn::Div(g, v); });
    case kernels::Unary::gelu:
      return map(x, [&](V g, V v) HWY_ATTR {
        const Normal at = normal(v);
        return hn::Mul(g, hn::MulAdd(v, at.density, at.phi));
      });
    case kernels::Unary::gelu_tanh:  // (1 + t) / 2 + x/2 (1 - t^2) u'
      return map(x, [&](V g, V v) HWY_ATTR {
        const GeluTanh at(v);
        const V bend = hn::Mul(hn::Mul(at.x, at.slope_u), hn::NegMulAdd(at.tanh_u, at.tanh_u, one));
        return hn::Mul(hn::Mul(g, set(0.5)), hn::Add(hn::Add(one, at.tanh_u), bend));
      });
    case kernels::Unary::silu:  // s + x s (1 - s)
      return map(x, [&](V g, V v) HWY_ATTR {
        const V s = sigmoid(v);
        return hn::Mul(g, hn::MulAdd(hn::Mul(v, s), hn::Sub(one, s), s));
      });
  }
}

// Plain loops: with the steps known, the compiler vectorises them for each instruction set.
template <std::size_t kStepA, std::size_t kStepB, class F>
HWY_INLINE void binary_run(std::size_t n, real* y, const real* a, const real* b, const F& f) {
  for (std::size_t i = 0; i < n; ++i) y[i] = f(a[i * kStepA], b[i * kStepB]);
}

template <class F>
HWY_INLINE void binary_steps(BinaryRun run, real* y, const real* a, const real* b, const F& f) {
  if (run.step_a && run.step_b) return binary_run<1, 1>(run.n, y, a, b, f);
  if (run.step_a) return binary_run<1, 0>(run.n, y, a, b, f);
  if (run.step_b) return binary_run<0, 1>(run.n, y, a, b, f);
  binary_run<0, 0>(run.n, y, a, b, f);
}

void Binary(kernels::Binary op, BinaryRun run, real* y, const real* a, const real* b) {
  switch (op) {
    case kernels::Binary::add:
      return binary_steps(run, y, a, b, [](real p, real q) HWY_ATTR { return p + q; });
    case kernels::Binary::sub:
      return binary_steps(run, y, a, b, [](real p, real q) HWY_ATTR { return p - q; });
    case kernels::Binary::mul:
      return binary_steps(run, y, a, b, [](real p, real q) HWY_ATTR { return p * q; });
    case kernels::Binary::div:
      return binary_steps(run, y, a, b, [](real p, real q) HWY_ATTR { return p / q; });
  }
}

// d += sum or elements of f(i)
template <class F>
HWY_INLINE void add_run(real* d, std::size_t step, std::size_t n, const F& f) {
  if (!d) return;
  if (step) {
    for (std::size_t i = 0; i < n; ++i) d[i] += f(i);
  } else {
    real total = 0;
    for (std::size_t i = 0; i < n; ++i) total += f(i);
    *d += total;
  }
}

void BinaryBackward(kernels::Binary op, BinaryRun run, real* da, real* db, const real* dy, const real* a,
                    const real* b) {
  const std::size_t n = run.n, sa = run.step_a, sb = run.step_b;
  switch (op) {
    case kernels::Binary::add:
      add_run(da, sa, n, [&](std::size_t i) HWY_ATTR { return dy[i]; });
      return add_run(db, sb, n, [&](std::size_t i) HWY_ATTR { return dy[i]; });
    case kernels::Binary::sub:
      add_run(da, sa, n, [&](std::size_t i) HWY_ATTR { return dy[i]; });
      return add_run(db, sb, n, [&](std::size_t i) HWY_ATTR { return -dy[i]; });
    case kernels::Binary::mul:
      add_run(da, sa, n, [&](std::size_t i) HWY_ATTR { return dy[i] * b[i * sb]; });
      return add_run(db, sb, n, [&](std::size_t i) HWY_ATTR { return dy[i] * a[i * sa]; });
    case kernels::Binary::div:
      add_run(da, sa, n, [&](std::size_t i) HWY_ATTR { return dy[i] / b[i * sb]; });
      return add_run(db, sb, n, [&](std::size_t i) HWY_ATTR { return -dy[i] * a[i * sa] / (b[i * sb] * b[i * sb]); });
  }
}

void Scale(real* y, const real* x, real factor, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = factor * x[i];
}

void Axpy(real* y, real beta, const real* x, real factor, std::size_t n) {
  if (beta == 0) return Scale(y, x, factor, n);
  for (std::size_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

void ReluMask(real* dy, const real* y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) dy[i] = y[i] > 0 ? dy[i] : real{0};
}

void AddColumnSums(real* sums, const real* x, std::size_t rows, std::size_t cols) {
  for_each(cols, [&](std::size_t j, std::size_t count) HWY_ATTR {
    V total = hn::Zero(D());
    for (std::size_t i = 0; i < rows; ++i) total = hn::Add(total, load(x + i * cols + j, count));
    accumulate(total, 1, sums + j, count);
  });
}

void CopyRows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for_each(cols, [&](std::size_t j, std::size_t n) HWY_ATTR { store(load(x + i * ldx + j, n), y + i * ldy + j, n); });
}

void AddRows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) y[i * ldy + j] += x[i * ldx + j];
}

double Sum(const real* x, std::size_t n) {
  DoubleSum sum;
  for_each(n, [&](std::size_t i, std::size_t count) HWY_ATTR { sum.add(load(x + i, count)); });
  return sum.total();
}

double SquaredNorm(const real* x, std::size_t n) {
  DoubleSum sum;
  for_each(n, [&](std::size_t i, std::size_t count) HWY_ATTR { sum.add_square(load(x + i, count)); });
  return sum.total();
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {

HWY_EXPORT(Unary);
HWY_EXPORT(UnaryBackward);
HWY_EXPORT(Binary);
HWY_EXPORT(BinaryBackward);
HWY_EXPORT(Scale);
HWY_EXPORT(Axpy);
HWY_EXPORT(ReluMask);
HWY_EXPORT(AddColumnSums);
HWY_EXPORT(CopyRows);
HWY_EXPORT(AddRows);
HWY_EXPORT(Sum);
HWY_EXPORT(SquaredNorm);

void unary(enum Unary op, real* y, const real* x, std::size_t n) { HWY_DYNAMIC_DISPATCH(Unary)(op, y, x, n); }

void unary_backward(enum Unary op, real* dx, real beta, const real* dy, const real* x, const real* y, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(UnaryBackward)(op, dx, beta, dy, x, y, n);
}

void binary(enum Binary op, BinaryRun run, real* y, const real* a, const real* b) {
  HWY_DYNAMIC_DISPATCH(Binary)(op, run, y, a, b);
}

void binary_backward(enum Binary op, BinaryRun run, real* da, real* db, const real* dy, const real* a, const real* b) {
  HWY_DYNAMIC_DISPATCH(BinaryBackward)(op, run, da, db, dy, a, b);
}

void scale(real* y, const real* x, real factor, std::size_t n) { HWY_DYNAMIC_DISPATCH(Scale)(y, x, factor, n); }

void axpy(real* y, real beta, const real* x, real factor, std::size_t n) {
  HWY_DYNAMIC_DISPATCH(Axpy)(y, beta, x, factor, n);
}

void relu_mask(real* dy, const real* y, std::size_t n) { HWY_DYNAMIC_DISPATCH(ReluMask)(dy, y, n); }

void add_column_sums(real* sums, const real* x, std::size_t rows, std::size_t cols) {
  HWY_DYNAMIC_DISPATCH(AddColumnSums)(sums, x, rows, cols);
}

void copy_rows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  HWY_DYNAMIC_DISPATCH(CopyRows)(y, ldy, x, ldx, rows, cols);
}

void add_rows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  HWY_DYNAMIC_DISPATCH(AddRows)(y, ldy, x, ldx, rows, cols);
}

double sum(const real* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(Sum)(x, n); }

double squared_norm(const real* x, std::size_t n) { return HWY_DYNAMIC_DISPATCH(SquaredNorm)(x, n); }

}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
