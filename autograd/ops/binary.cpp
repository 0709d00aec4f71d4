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

// Elements of a, b and their result, where a and b move on by a stride of 0 or 1; and the gradient dy.
struct Run {
  std::size_t n, stride_a, stride_b;
  const real *a, *b, *y, *dy;
};

// What a slope is computed from: the gradient of the result, the operands, and the result.
struct Point {
  real dy, a, b, y;
};

// d = beta d + slope(point) over a run. An operand that stays, with stride 0, takes the sum.
template <class Sum, class Slope>
void add_slopes(Sum* d, real beta, std::size_t stride, const Run& run, const Slope& slope) {
  const auto term = [=](std::size_t i, std::size_t ia, std::size_t ib) {
    return slope(Point{run.dy[i], run.a[ia], run.b[ib], run.y[i]});
  };
  const auto for_each = [&](const auto& f) { along(run.n, run.stride_a, run.stride_b, f); };
  if (stride == 0) {
    double total = 0;
    for_each([=, &total](std::size_t i, std::size_t ia, std::size_t ib) { total += double{term(i, ia, ib)}; });
    *d = (beta == 0 ? 0 : *d) + static_cast<Sum>(total);
  } else if (beta == 0) {
    for_each([=](std::size_t i, std::size_t ia, std::size_t ib) { d[i] = Sum{term(i, ia, ib)}; });
  } else {
    for_each([=](std::size_t i, std::size_t ia, std::size_t ib) { d[i] += Sum{term(i, ia, ib)}; });
  }
}

// Gradients of broadcast operands are added to, so they must exist, zeroed, before the other operand's is overwritten:
// one may be a view of the other.
void begin_if_broadcast(const Tensor& x, const Tensor& y) {
  if (x.numel() != y.numel()) grad_if_required(x);
}

// da += slope_a(point), db += slope_b(point)
template <class SlopeA, class SlopeB>
void add_gradients(const Walk<3>& walk, const Tensor& y, const Tensor& a, const Tensor& b, const SlopeA& slope_a,
                   const SlopeB& slope_b) {
  begin_if_broadcast(a, y);
  begin_if_broadcast(b, y);
  const GradTarget da = target_if_required(a);
  const GradTarget db = target_if_required(b);
  const TermSums sums_a(da.grad, a.numel(), repeats(a, y));
  const TermSums sums_b(db.grad, b.numel(), repeats(b, y));
  walk.for_each_run([&](const auto& at) {
    const Run run{.n = walk.n(),
                  .stride_a = walk.stride(1),
                  .stride_b = walk.stride(2),
                  .a = a.data() + at[1],
                  .b = b.data() + at[2],
                  .y = y.data() + at[0],
                  .dy = grad_of(y) + at[0]};
    if (sums_a) sums_a.at(at[1], [&](auto* d) { add_slopes(d, da.beta, run.stride_a, run, slope_a); });
    if (sums_b) sums_b.at(at[2], [&](auto* d) { add_slopes(d, db.beta, run.stride_b, run, slope_b); });
  });
  sums_a.finish();
  sums_b.finish();
}

// y = f(a, b). The slopes are dy times the derivatives.
template <class F, class SlopeA, class SlopeB>
Tensor map(const char* name, const Tensor& a, const Tensor& b, const F& f, const SlopeA& slope_a,
           const SlopeB& slope_b) {
  Tensor y = tape().create(broadcast_shape(name, {{"lhs", a}, {"rhs", b}}));
  const Walk<3> walk = broadcast(y.shape(), a.shape(), b.shape());
  walk.for_each_run([&](const auto& at) {
    real* const to = y.data() + at[0];
    const real* const p = a.data() + at[1];
    const real* const q = b.data() + at[2];
    along(walk.n(), walk.stride(1), walk.stride(2),
          [=](std::size_t i, std::size_t ia, std::size_t ib) { to[i] = f(p[ia], q[ib]); });
  });
  record(name, y, {a, b}, [=] { add_gradients(walk, y, a, b, slope_a, slope_b); });
  return y;
}

// y = 1 where holds(a, b), else 0.
template <class F>
Tensor compare(const char* name, const Tensor& a, const Tensor& b, const F& holds) {
  const NoGrad no_grad;
  const auto value = [=](real p, real q) { return static_cast<real>(holds(p, q)); };
  const auto zero = [](Point) { return real{0}; };
  return map(name, a, b, value, zero, zero);
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
  if (a->shape() == b->shape()) return add_same(a, b);
  const auto slope = [](Point at) { return at.dy; };
  return map("add", a, b, std::plus<>(), slope, slope);
}

Tensor sub(const Operand& a, const Operand& b) {
  const auto slope_a = [](Point at) { return at.dy; };
  const auto slope_b = [](Point at) { return -at.dy; };
  return map("sub", a, b, std::minus<>(), slope_a, slope_b);
}

Tensor mul(const Operand& a, const Operand& b) {
  const auto slope_a = [](Point at) { return at.dy * at.b; };
  const auto slope_b = [](Point at) { return at.dy * at.a; };
  return map("mul", a, b, std::multiplies<>(), slope_a, slope_b);
}

Tensor div(const Operand& a, const Operand& b) {
  const auto slope_a = [](Point at) { return at.dy / at.b; };
  const auto slope_b = [](Point at) { return -at.dy / at.b * at.y; };  // b^2 may overflow
  return map("div", a, b, std::divides<>(), slope_a, slope_b);
}

Tensor pow(const Tensor& x, const Tensor& exponent) {
  const auto power = [](real a, real b) { return std::pow(a, b); };
  const auto slope_x = [](Point at) { return at.b == 0 ? 0 : at.dy * at.b * std::pow(at.a, at.b - 1); };
  const auto slope_exponent = [](Point at) { return at.a == 0 && at.b >= 0 ? 0 : at.dy * at.y * std::log(at.a); };
  return map("pow", x, exponent, power, slope_x, slope_exponent);
}

namespace {

// The maximum for sign 1, the minimum for -1.
Tensor maximum_or_minimum(const char* name, const Tensor& a, const Tensor& b, real sign) {
  const auto choice = [=](real p, real q) { return sign * p > sign * q || std::isnan(p) ? p : q; };
  const auto share = [=](real own, real other) {  // 1, or half of it if they are equal
    return real{0.5} * static_cast<real>((sign * own > sign * other) + (sign * own >= sign * other));
  };
  const auto slope_a = [=](Point at) { return at.dy * share(at.a, at.b); };
  const auto slope_b = [=](Point at) { return at.dy * share(at.b, at.a); };
  return map(name, a, b, choice, slope_a, slope_b);
}

}  // namespace

Tensor maximum(const Operand& a, const Operand& b) { return maximum_or_minimum("maximum", a, b, 1); }
Tensor minimum(const Operand& a, const Operand& b) { return maximum_or_minimum("minimum", a, b, -1); }

Tensor gt(const Operand& a, const Operand& b) { return compare("gt", a, b, std::greater<>()); }
Tensor ge(const Operand& a, const Operand& b) { return compare("ge", a, b, std::greater_equal<>()); }
Tensor lt(const Operand& a, const Operand& b) { return compare("lt", a, b, std::less<>()); }
Tensor le(const Operand& a, const Operand& b) { return compare("le", a, b, std::less_equal<>()); }
Tensor eq(const Operand& a, const Operand& b) { return compare("eq", a, b, std::equal_to<>()); }
Tensor ne(const Operand& a, const Operand& b) { return compare("ne", a, b, std::not_equal_to<>()); }

namespace {

// Without branches, which would often be mispredicted.
real choose(bool condition, real a, real b) {
  const real choice[] = {b, a};
  return choice[condition];
}

// da += dy where the condition holds, db += dy where it does not. Either may be null.
template <class A, class B>
void add_chosen(const Walk<4>& walk, A* da, B* db, const real* condition, const real* dy) {
  walk.for_each([=](std::size_t i, std::size_t ic, std::size_t ia, std::size_t ib) {
    const bool holds = condition[ic] != 0;
    if (da) da[ia] += A{choose(holds, dy[i], 0)};
    if (db) db[ib] += B{choose(holds, 0, dy[i])};
  });
}

void add_chosen(const Walk<4>& walk, const Tensor& y, const Tensor& condition, const Tensor& a, const Tensor& b) {
  const TermSums sums_a(grad_if_required(a), a.numel(), repeats(a, y));
  const TermSums sums_b(grad_if_required(b), b.numel(), repeats(b, y));
  sums_a.at(0,
            [&](auto* da) { sums_b.at(0, [&](auto* db) { add_chosen(walk, da, db, condition.data(), grad_of(y)); }); });
  sums_a.finish();
  sums_b.finish();
}

}  // namespace

Tensor where(const Tensor& condition, const Operand& a_operand, const Operand& b_operand) {
  const Tensor a = a_operand;
  const Tensor b = b_operand;
  Tensor y = tape().create(broadcast_shape("where", {{"condition", condition}, {"lhs", a}, {"rhs", b}}));
  const Walk<4> walk = broadcast(y.shape(), condition.shape(), a.shape(), b.shape());
  real* const to = y.data();
  const real* const holds = condition.data();
  const real* const from_a = a.data();
  const real* const from_b = b.data();
  walk.for_each([=](std::size_t i, std::size_t ic, std::size_t ia, std::size_t ib) {
    to[i] = choose(holds[ic] != 0, from_a[ia], from_b[ib]);
  });
  // The condition gets no gradient, but a change of it before backward is an error.
  record("where", y, {a, b, detach(condition)}, [=] { add_chosen(walk, y, condition, a, b); });
  return y;
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, real value) {
  check(broadcast_shape("masked_fill", {{"x", x}, {"mask", mask}}) == x.shape(), "masked_fill: mask ", mask,
        " is larger than x ", x);
  return where(mask, value, x);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
