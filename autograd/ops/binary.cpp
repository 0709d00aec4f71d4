// Functions of two or three tensors, element by element, with broadcasting.
#include "../core/guards.h"
#include "op.h"
#include "term_sums.h"
#include "walk.h"

#include <cmath>
#include <functional>

namespace seppo {
inline namespace SEPPO_ABI {

Operand::Operand(real value) : tensor(full({}, value)) {}

namespace {

// y = f(a, b), da += slope_a(dy, a, b, y), db += slope_b(dy, a, b, y): dy times the derivative.
template <class F, class SlopeA, class SlopeB>
Tensor map(const char* name, const Tensor& a, const Tensor& b, const F& f, const SlopeA& slope_a,
           const SlopeB& slope_b) {
  Tensor y = tape().create(broadcast_shape(name, {{"lhs", a}, {"rhs", b}}));
  const auto walk = broadcast(y.shape(), a.shape(), b.shape());
  walk.for_each_run([&](const auto& at) {
    real* const to = y.data() + at[0];
    const real *const p = a.data() + at[1], *const q = b.data() + at[2];
    along(walk.n(), walk.step(1), walk.step(2),
          [=](std::size_t i, std::size_t ia, std::size_t ib) { to[i] = f(p[ia], q[ib]); });
  });
  record(name, y, {a, b}, [=] {
    for (const Tensor& x : {a, b})  // zeros first where elements repeat: one may be part of the other
      if (x.numel() != y.numel()) grad_if_required(x);
    const GradTarget da = target_if_required(a), db = target_if_required(b);
    const TermSums sums_a(da.grad, a.numel(), repeats(a, y)), sums_b(db.grad, b.numel(), repeats(b, y));
    walk.for_each_run([&](const auto& at) {
      const real *const dy = grad_of(y) + at[0], *const r = y.data() + at[0];
      const real *const p = a.data() + at[1], *const q = b.data() + at[2];
      const auto add = [&]<class Sum>(Sum* d, real beta, std::size_t step, const auto& slope) {
        const std::size_t n = walk.n(), step_a = walk.step(1), step_b = walk.step(2);
        const auto term = [=](std::size_t i, std::size_t ia, std::size_t ib) {
          return slope(dy[i], p[ia], q[ib], r[i]);
        };
        if (step && beta == 0) {
          along(n, step_a, step_b, [=](std::size_t i, std::size_t ia, std::size_t ib) { d[i] = Sum{term(i, ia, ib)}; });
        } else if (step) {
          along(n, step_a, step_b,
                [=](std::size_t i, std::size_t ia, std::size_t ib) { d[i] += Sum{term(i, ia, ib)}; });
        } else {
          double total = 0;
          along(n, step_a, step_b,
                [=, &total](std::size_t i, std::size_t ia, std::size_t ib) { total += double{term(i, ia, ib)}; });
          *d = (beta == 0 ? 0 : *d) + static_cast<Sum>(total);
        }
      };
      if (sums_a) sums_a.at(at[1], [&](auto* d) { add(d, da.beta, walk.step(1), slope_a); });
      if (sums_b) sums_b.at(at[2], [&](auto* d) { add(d, db.beta, walk.step(2), slope_b); });
    });
    sums_a.finish();
    sums_b.finish();
  });
  return y;
}

// y = 1 where holds(a, b), else 0.
template <class F>
Tensor compare(const char* name, const Tensor& a, const Tensor& b, const F& holds) {
  const NoGrad no_grad;
  const auto zero = [](real, real, real, real) { return real{0}; };
  return map(
      name, a, b, [=](real p, real q) { return static_cast<real>(holds(p, q)); }, zero, zero);
}

// y = a + b of equal shapes: the residual sum, whose gradient is often a copy.
Tensor add_same(const Tensor& a, const Tensor& b) {
  Tensor y = tape().create(a.shape());
  kernels::add(y.data(), a.data(), b.data(), y.numel());
  record("add", y, {a, b}, [=] {
    add_grad(a, grad_of(y));
    add_grad(b, grad_of(y));
  });
  return y;
}

}  // namespace

Tensor add(const Operand& a, const Operand& b) {
  const auto slope = [](real dy, real, real, real) { return dy; };
  return a->shape() == b->shape() ? add_same(a, b) : map("add", a, b, std::plus<>(), slope, slope);
}
Tensor sub(const Operand& a, const Operand& b) {
  return map(
      "sub", a, b, std::minus<>(), [](real dy, real, real, real) { return dy; },
      [](real dy, real, real, real) { return -dy; });
}
Tensor mul(const Operand& a, const Operand& b) {
  return map(
      "mul", a, b, std::multiplies<>(), [](real dy, real, real q, real) { return dy * q; },
      [](real dy, real p, real, real) { return dy * p; });
}
Tensor div(const Operand& a, const Operand& b) {
  return map(
      "div", a, b, std::divides<>(), [](real dy, real, real q, real) { return dy / q; },
      [](real dy, real, real q, real y) { return -dy / q * y; });  // q^2 may overflow
}

Tensor pow(const Tensor& x, const Tensor& exponent) {
  return map(
      "pow", x, exponent, [](real a, real b) { return std::pow(a, b); },
      [](real dy, real a, real b, real) { return b == 0 ? 0 : dy * b * std::pow(a, b - 1); },
      [](real dy, real a, real b, real y) { return a == 0 && b >= 0 ? 0 : dy * y * std::log(a); });
}

namespace {

// maximum for sign 1, minimum for -1.
Tensor extreme_of(const char* name, const Tensor& a, const Tensor& b, real sign) {
  const auto share = [=](real own, real other) {  // 1, or half of it if they are equal
    return real{0.5} * static_cast<real>((sign * own > sign * other) + (sign * own >= sign * other));
  };
  return map(
      name, a, b, [=](real p, real q) { return sign * p > sign * q || std::isnan(p) ? p : q; },
      [=](real dy, real p, real q, real) { return dy * share(p, q); },
      [=](real dy, real p, real q, real) { return dy * share(q, p); });
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
  walk.for_each([to = y.data(), c = condition.data(), from_a = a.data(), from_b = b.data()](
                    std::size_t i, std::size_t ic, std::size_t ia, std::size_t ib) {
    const real choice[] = {from_b[ib], from_a[ia]};  // a branch would often be mispredicted
    to[i] = choice[c[ic] != 0];
  });
  record("where", y, {a, b, detach(condition)}, [=] {  // no gradient, but a change before backward is an error
    real *const to_a = grad_if_required(a), *const to_b = grad_if_required(b);
    const TermSums sums_a(to_a, a.numel(), repeats(a, y)), sums_b(to_b, b.numel(), repeats(b, y));
    const real* const dy = grad_of(y);
    sums_a.at(0, [&]<class A>(A* da) {
      sums_b.at(0, [&]<class B>(B* db) {
        walk.for_each([=, c = condition.data()](std::size_t i, std::size_t ic, std::size_t ia, std::size_t ib) {
          const real slope[] = {0, dy[i]};
          if (da) da[ia] += A{slope[c[ic] != 0]};
          if (db) db[ib] += B{slope[c[ic] == 0]};
        });
      });
    });
    sums_a.finish();
    sums_b.finish();
  });
  return y;
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, real value) {
  check(broadcast_shape("masked_fill", {{"x", x}, {"mask", mask}}) == x.shape(), "masked_fill: mask ", mask,
        " is larger than x ", x);
  return where(mask, value, x);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
