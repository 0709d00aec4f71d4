// Functions of two or three tensors, element by element, with broadcasting.
#include "op.h"
#include "walk.h"

#include <cmath>
#include <functional>

namespace seppo::inline SEPPO_ABI {

Operand::Operand(real value) : tensor(full({}, value)) {}

namespace {

// Those that models spend time in have kernels.
Tensor binary(const char* name, const kernels::Binary& kernel, const Tensor& a, const Tensor& b) {
  Tensor y = tape().create(broadcast_shape(name, {{"lhs", a}, {"rhs", b}}));
  const auto walk = broadcast(y.shape(), a.shape(), b.shape());
  const kernels::BinaryRun run{walk.n(), walk.step(1), walk.step(2)};
  walk.for_each_run([&](const auto& at) { kernel.forward(run, y.data() + at[0], a.data() + at[1], b.data() + at[2]); });
  record(name, y, {a, b}, [=] {
    real *const da = grad_if_required(a), *const db = grad_if_required(b);
    const real* const dy = grad_of(y);
    walk.for_each_run([&](const auto& at) {
      kernel.backward(run, da ? da + at[1] : nullptr, db ? db + at[2] : nullptr, dy + at[0], a.data() + at[1],
                      b.data() + at[2]);
    });
  });
  return y;
}

// The others are their formulas: y = f(a, b), da += dy slope_a(a, b, y), db += dy slope_b(a, b, y).
template <class F, class SlopeA, class SlopeB>
Tensor map(const char* name, const Tensor& a, const Tensor& b, const F& f, const SlopeA& slope_a,
           const SlopeB& slope_b) {
  Tensor y = tape().create(broadcast_shape(name, {{"lhs", a}, {"rhs", b}}));
  const auto walk = broadcast(y.shape(), a.shape(), b.shape());
  walk.for_each([&, to = y.data(), p = a.data(), q = b.data()](std::size_t i, std::size_t ia, std::size_t ib) {
    to[i] = f(p[ia], q[ib]);
  });
  record(name, y, {a, b}, [=] {
    real *const da = grad_if_required(a), *const db = grad_if_required(b);
    const real *const dy = grad_of(y), *const p = a.data(), *const q = b.data();
    walk.for_each([&](std::size_t i, std::size_t ia, std::size_t ib) {
      if (da) da[ia] += dy[i] * slope_a(p[ia], q[ib], y.data()[i]);
      if (db) db[ib] += dy[i] * slope_b(p[ia], q[ib], y.data()[i]);
    });
  });
  return y;
}

// y = 1 where holds(a, b), else 0.
template <class F>
Tensor compare(const char* name, const Tensor& a, const Tensor& b, const F& holds) {
  const NoGrad no_grad;
  const auto zero = [](real, real, real) { return real{0}; };
  return map(
      name, a, b, [=](real p, real q) { return static_cast<real>(holds(p, q)); }, zero, zero);
}

// y = a + b of equal shapes: the residual sum, worth avoiding a pass over zeros.
Tensor add_same(const Tensor& a, const Tensor& b) {
  Tensor y = tape().create(a.shape());
  kernels::binary().add.forward({y.numel(), 1, 1}, y.data(), a.data(), b.data());
  record("add", y, {a, b}, [=] {
    add_grad(a, grad_of(y));
    add_grad(b, grad_of(y));
  });
  return y;
}

}  // namespace

Tensor add(const Operand& a, const Operand& b) {
  return a->shape() == b->shape() ? add_same(a, b) : binary("add", kernels::binary().add, a, b);
}
Tensor sub(const Operand& a, const Operand& b) { return binary("sub", kernels::binary().sub, a, b); }
Tensor mul(const Operand& a, const Operand& b) { return binary("mul", kernels::binary().mul, a, b); }
Tensor div(const Operand& a, const Operand& b) { return binary("div", kernels::binary().div, a, b); }

Tensor pow(const Tensor& x, const Tensor& exponent) {
  return map(
      "pow", x, exponent, [](real a, real b) { return std::pow(a, b); },
      [](real a, real b, real) { return b == 0 ? 0 : b * std::pow(a, b - 1); },
      [](real a, real b, real y) { return a == 0 && b >= 0 ? 0 : y * std::log(a); });
}

namespace {

// maximum for sign 1, minimum for -1.
Tensor extreme_of(const char* name, const Tensor& a, const Tensor& b, real sign) {
  const auto share = [=](real own, real other) {
    return sign * own > sign * other ? real{1} : own == other ? real{0.5} : real{0};
  };
  return map(
      name, a, b, [=](real p, real q) { return sign * p > sign * q || std::isnan(p) ? p : q; },
      [=](real p, real q, real) { return share(p, q); }, [=](real p, real q, real) { return share(q, p); });
}

}  // namespace

Tensor maximum(const Operand& a, const Operand& b) { return extreme_of("maximum", a, b, 1); }
Tensor minimum(const Operand& a, const Operand& b) { return extreme_of("minimum", a, b, -1); }

Tensor gt(const Operand& a, const Operand& b) { return compare("gt", a, b, std::greater<>()); }
Tensor ge(const Operand& a, const Operand& b) { return compare("ge", a, b, std::greater_equal<>()); }
Tensor lt(const Operand& a, const Operand& b) { return compare("lt", a, b, std::less<>()); }
Tensor le(const Operand& a, const Operand& b) { return compare("le", a, b, std::less_equal<>()); }
Tensor eq(const Operand& a, const Operand& b) { return compare("eq", a, b, std::equal_to<>()); }
Tensor ne(const Operand& a, const Operand& b) { return compare("ne", a, b, std::not_equal_to<>()); }

Tensor where(const Tensor& condition, const Operand& a_operand, const Operand& b_operand) {
  const Tensor a = a_operand, b = b_operand;
  Tensor y = tape().create(broadcast_shape("where", {{"condition", condition}, {"lhs", a}, {"rhs", b}}));
  const auto walk = broadcast(y.shape(), condition.shape(), a.shape(), b.shape());
  walk.for_each([&](std::size_t i, std::size_t ic, std::size_t ia, std::size_t ib) {
    y.data()[i] = condition.data()[ic] != 0 ? a.data()[ia] : b.data()[ib];
  });
  record("where", y, {a, b}, [=] {
    real *const da = grad_if_required(a), *const db = grad_if_required(b);
    const real* const dy = grad_of(y);
    walk.for_each([&](std::size_t i, std::size_t ic, std::size_t ia, std::size_t ib) {
      const bool holds = condition.data()[ic] != 0;
      if (holds && da) da[ia] += dy[i];
      if (!holds && db) db[ib] += dy[i];
    });
  });
  return y;
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, real value) {
  check(broadcast_shape("masked_fill", {{"x", x}, {"mask", mask}}) == x.shape(), "masked_fill: mask ", mask,
        " is larger than x ", x);
  return where(mask, value, x);
}

}  // namespace seppo::inline SEPPO_ABI
