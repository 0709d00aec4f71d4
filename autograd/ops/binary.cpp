// Functions of two or three tensors, element by element, with broadcasting.
#include "../kernels/kernels.h"
#include "../ops.h"
#include "broadcast.h"

#include <cmath>

namespace seppo::inline SEPPO_ABI {

Operand::Operand(real value) : tensor(full({}, value)) {}

namespace {

using Plan = Broadcast<2>;

Plan plan_of(const char* name, const Tensor& a, const Tensor& b) {
  return broadcast<2>(broadcast_shape(name, "lhs", a, "rhs", b), {a.shape(), b.shape()});
}

// Those that models spend time in have kernels.
Tensor binary(const char* name, kernels::Binary op, const Tensor& a, const Tensor& b) {
  const Plan plan = plan_of(name, a, b);
  Tensor y = tape().create(plan.shape);
  const kernels::BinaryRun run{plan.n, plan.steps[0], plan.steps[1]};
  plan.for_each_run([&](std::size_t iy, const auto& at) {
    kernels::binary(op, run, y.data() + iy, a.data() + at[0], b.data() + at[1]);
  });
  record(name, y, {a, b}, [=] {
    real* const da = a.requires_grad() ? grad_of(a) : nullptr;
    real* const db = b.requires_grad() ? grad_of(b) : nullptr;
    const real* const dy = grad_of(y);
    plan.for_each_run([&](std::size_t iy, const auto& at) {
      kernels::binary_backward(op, run, da ? da + at[0] : nullptr, db ? db + at[1] : nullptr, dy + iy, a.data() + at[0],
                               b.data() + at[1]);
    });
  });
  return y;
}

// The others are their formulas: y = f(a, b), da += dy slope_a(a, b, y), db += dy slope_b(a, b, y).
template <class F, class SlopeA, class SlopeB>
Tensor map(const char* name, const Tensor& a, const Tensor& b, const F& f, const SlopeA& slope_a,
           const SlopeB& slope_b) {
  const Plan plan = plan_of(name, a, b);
  Tensor y = tape().create(plan.shape);
  // Calls g(element of y, of a, of b) for each element.
  const auto each = [=](const auto& g) {
    plan.for_each_run([&](std::size_t iy, const auto& at) {
      for (std::size_t i = 0; i < plan.n; ++i) g(iy + i, at[0] + i * plan.steps[0], at[1] + i * plan.steps[1]);
    });
  };
  each([&](std::size_t i, std::size_t ia, std::size_t ib) { y.data()[i] = f(a.data()[ia], b.data()[ib]); });
  record(name, y, {a, b}, [=] {
    real* const da = a.requires_grad() ? grad_of(a) : nullptr;
    real* const db = b.requires_grad() ? grad_of(b) : nullptr;
    const real* const dy = grad_of(y);
    each([&](std::size_t i, std::size_t ia, std::size_t ib) {
      if (da) da[ia] += dy[i] * slope_a(a.data()[ia], b.data()[ib], y.data()[i]);
      if (db) db[ib] += dy[i] * slope_b(a.data()[ia], b.data()[ib], y.data()[i]);
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
  kernels::binary(kernels::Binary::add, {y.numel(), 1, 1}, y.data(), a.data(), b.data());
  record("add", y, {a, b}, [=] {
    for (const Tensor& x : {a, b}) {
      if (!x.requires_grad()) continue;
      const auto [dx, beta] = grad_target(x);
      kernels::axpy(dx, beta, grad_of(y), 1, y.numel());
    }
  });
  return y;
}

}  // namespace

Tensor add(const Operand& a, const Operand& b) {
  return a->shape() == b->shape() ? add_same(a, b) : binary("add", kernels::Binary::add, a, b);
}
Tensor sub(const Operand& a, const Operand& b) { return binary("sub", kernels::Binary::sub, a, b); }
Tensor mul(const Operand& a, const Operand& b) { return binary("mul", kernels::Binary::mul, a, b); }
Tensor div(const Operand& a, const Operand& b) { return binary("div", kernels::Binary::div, a, b); }

Tensor pow(const Tensor& x, const Tensor& exponent) {
  return map(
      "pow", x, exponent, [](real a, real b) { return std::pow(a, b); },
      [](real a, real b, real) { return b == 0 ? 0 : b * std::pow(a, b - 1); },
      [](real a, real b, real y) { return a == 0 && b >= 0 ? 0 : y * std::log(a); });
}

Tensor maximum(const Operand& a, const Operand& b) {
  const auto share = [](real own, real other) { return own > other ? real{1} : own == other ? real{0.5} : real{0}; };
  return map(
      "maximum", a, b, [](real p, real q) { return p > q || std::isnan(p) ? p : q; },
      [=](real p, real q, real) { return share(p, q); }, [=](real p, real q, real) { return share(q, p); });
}

Tensor minimum(const Operand& a, const Operand& b) {
  const auto share = [](real own, real other) { return own < other ? real{1} : own == other ? real{0.5} : real{0}; };
  return map(
      "minimum", a, b, [](real p, real q) { return p < q || std::isnan(p) ? p : q; },
      [=](real p, real q, real) { return share(p, q); }, [=](real p, real q, real) { return share(q, p); });
}

Tensor gt(const Operand& a, const Operand& b) {
  return compare("gt", a, b, [](real p, real q) { return p > q; });
}
Tensor ge(const Operand& a, const Operand& b) {
  return compare("ge", a, b, [](real p, real q) { return p >= q; });
}
Tensor lt(const Operand& a, const Operand& b) {
  return compare("lt", a, b, [](real p, real q) { return p < q; });
}
Tensor le(const Operand& a, const Operand& b) {
  return compare("le", a, b, [](real p, real q) { return p <= q; });
}
Tensor eq(const Operand& a, const Operand& b) {
  return compare("eq", a, b, [](real p, real q) { return p == q; });
}
Tensor ne(const Operand& a, const Operand& b) {
  return compare("ne", a, b, [](real p, real q) { return p != q; });
}

Tensor where(const Tensor& condition, const Operand& a_operand, const Operand& b_operand) {
  const Tensor a = a_operand, b = b_operand;
  broadcast_shape("where", "condition", condition, "lhs", a);
  broadcast_shape("where", "condition", condition, "rhs", b);
  // The broadcast of all three: first of the two values, then with the condition.
  const Plan values = plan_of("where", a, b);
  int sizes[Shape::kMaxRank];
  const int rank = std::max(values.shape.rank(), condition.rank());
  for (int axis = 1; axis <= rank; ++axis) {
    const int size = size_from_end(values.shape, axis);
    sizes[rank - axis] = size == 1 ? size_from_end(condition.shape(), axis) : size;
  }
  const auto plan = broadcast<3>(Shape(std::span<const int>(sizes, static_cast<std::size_t>(rank))),
                                 {condition.shape(), a.shape(), b.shape()});
  Tensor y = tape().create(plan.shape);
  const auto each = [=](const auto& g) {
    plan.for_each_run([&](std::size_t iy, const auto& at) {
      for (std::size_t i = 0; i < plan.n; ++i)
        g(iy + i, condition.data()[at[0] + i * plan.steps[0]] != 0, at[1] + i * plan.steps[1],
          at[2] + i * plan.steps[2]);
    });
  };
  each([&](std::size_t i, bool holds, std::size_t ia, std::size_t ib) {
    y.data()[i] = holds ? a.data()[ia] : b.data()[ib];
  });
  record("where", y, {a, b}, [=] {
    real* const da = a.requires_grad() ? grad_of(a) : nullptr;
    real* const db = b.requires_grad() ? grad_of(b) : nullptr;
    const real* const dy = grad_of(y);
    each([&](std::size_t i, bool holds, std::size_t ia, std::size_t ib) {
      if (holds && da) da[ia] += dy[i];
      if (!holds && db) db[ib] += dy[i];
    });
  });
  return y;
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, real value) {
  check(broadcast_shape("masked_fill", "x", x, "mask", mask) == x.shape(), "masked_fill: mask ", mask,
        " is larger than x ", x);
  return where(mask, value, x);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  check(x.rank() <= shape.rank(), "expand: x ", x, " has more axes than ", shape);
  for (int axis = 1; axis <= x.rank(); ++axis)
    check(x.size(-axis) == shape[-axis] || x.size(-axis) == 1, "expand: x ", x, " dim ", x.rank() - axis, " = ",
          x.size(-axis), " is neither 1 nor that of ", shape, " dim ", shape.rank() - axis, " = ", shape[-axis]);
  const auto plan = broadcast<1>(shape, {x.shape()});
  Tensor y = tape().create(shape);
  plan.for_each_run([&](std::size_t iy, const auto& at) {
    for (std::size_t i = 0; i < plan.n; ++i) y.data()[iy + i] = x.data()[at[0] + i * plan.steps[0]];
  });
  record("expand", y, {x}, [=] {
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    plan.for_each_run([&](std::size_t iy, const auto& at) {
      for (std::size_t i = 0; i < plan.n; ++i) dx[at[0] + i * plan.steps[0]] += dy[iy + i];
    });
  });
  return y;
}

}  // namespace seppo::inline SEPPO_ABI
