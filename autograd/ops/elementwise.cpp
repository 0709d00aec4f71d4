// Creation, unary ops, broadcasting binary ops, dropout.
#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/ops.h>
#include <seppo/autograd/ops/dropping.h>

#include <algorithm>
#include <array>

namespace seppo::inline SEPPO_ABI {

Tensor zeros(const Shape& shape) { return full(shape, 0); }

Tensor full(const Shape& shape, real value) {
  Tensor y = tape().create(shape);
  std::fill_n(y.data(), y.size(), value);
  return y;
}

Tensor tensor(const Shape& shape, std::span<const real> values) {
  check(static_cast<std::size_t>(shape.size()) == values.size(), "tensor: shape ", shape, " has ", shape.size(),
        " elements, ", values.size(), " values given");
  Tensor y = tape().create(shape);
  std::copy(values.begin(), values.end(), y.data());
  return y;
}

Tensor tensor(const Shape& shape, std::initializer_list<real> values) {
  return tensor(shape, std::span<const real>(values.begin(), values.size()));
}

Tensor variable(const Shape& shape, std::span<const real> values) {
  Tensor x = tensor(shape, values);
  x.node().requires_grad = true;
  return x;
}

// ---- unary ---------------------------------------------------------------------------------------

namespace {

Tensor unary(kernels::Unary op, const Tensor& x) {
  Tensor y = tape().create(x.shape());
  kernels::unary(op, y.data(), x.data(), x.size());
  record(y, {x}, [=] {
    const auto [dx, beta] = x.grad_target();
    kernels::unary_backward(op, dx, beta, y.grad(), x.data(), y.data(), x.size());
  });
  return y;
}

}  // namespace

Tensor relu(const Tensor& x) { return unary(kernels::Unary::relu, x); }
Tensor gelu(const Tensor& x) { return unary(kernels::Unary::gelu, x); }
Tensor tanh(const Tensor& x) { return unary(kernels::Unary::tanh, x); }
Tensor sigmoid(const Tensor& x) { return unary(kernels::Unary::sigmoid, x); }
Tensor exp(const Tensor& x) { return unary(kernels::Unary::exp, x); }
Tensor log(const Tensor& x) { return unary(kernels::Unary::log, x); }

Tensor scale(const Tensor& x, real factor) {
  Tensor y = tape().create(x.shape());
  kernels::scale(y.data(), x.data(), factor, x.size());
  record(y, {x}, [=] {
    const auto [dx, beta] = x.grad_target();
    kernels::axpy(dx, beta, y.grad(), factor, x.size());
  });
  return y;
}

Tensor dropout(const Tensor& x, double p) {
  const kernels::Dropping dropping = next_dropping("dropout", p);
  if (dropping.p == 0) return x;
  Tensor y = tape().create(x.shape());
  kernels::dropout(y.data(), 0, x.data(), p, dropping.key, x.size());
  record(y, {x}, [=] {
    const auto [dx, beta] = x.grad_target();
    kernels::dropout(dx, beta, y.grad(), p, dropping.key, x.size());
  });
  return y;
}

Tensor add_dropout(const Tensor& x, const Tensor& y, double p) {
  check(x.shape() == y.shape(), "add_dropout: x ", x, " and y ", y, " differ in shape");
  const kernels::Dropping dropping = next_dropping("add_dropout", p);
  if (dropping.p == 0) return x + y;
  Tensor out = tape().create(x.shape());
  kernels::add_dropped(out.data(), x.data(), y.data(), dropping, x.size());
  record(out, {x, y}, [=] {
    if (x.requires_grad()) {
      const auto [dx, beta] = x.grad_target();
      kernels::axpy(dx, beta, out.grad(), 1, x.size());
    }
    if (y.requires_grad()) {
      const auto [dy, beta] = y.grad_target();
      kernels::dropout(dy, beta, out.grad(), p, dropping.key, y.size());
    }
  });
  return out;
}

// ---- binary --------------------------------------------------------------------------------------

namespace {

// The result's elements as runs along the last axis; each operand steps by its stride, 0 where it
// repeats.
struct Broadcast {
  std::array<std::size_t, 3> sizes{1, 1, 1}, stride_a{}, stride_b{};
  kernels::BinaryRun run{1, 1, 1};

  // Calls f(offset in the result, in a, in b) for each run.
  template <class F>
  void for_each_run(const F& f) const {
    std::size_t y = 0;
    for (std::size_t i = 0; i < sizes[0]; ++i)
      for (std::size_t j = 0; j < sizes[1]; ++j)
        for (std::size_t k = 0; k < sizes[2]; ++k, y += run.n)
          f(y, i * stride_a[0] + j * stride_a[1] + k * stride_a[2],
            i * stride_b[0] + j * stride_b[1] + k * stride_b[2]);
  }
};

Shape broadcast_shape(const char* op, const Tensor& a, const Tensor& b) {
  int sizes[Shape::kMaxRank];
  const int rank = std::max(a.rank(), b.rank());
  for (int axis = 1; axis <= rank; ++axis) {
    const int in_a = axis <= a.rank() ? a.dim(-axis) : 1, in_b = axis <= b.rank() ? b.dim(-axis) : 1;
    check(in_a == in_b || in_a == 1 || in_b == 1, op, ": sizes differ and neither is 1: lhs ", a, " dim ",
          a.rank() - axis, " = ", in_a, ", rhs ", b, " dim ", b.rank() - axis, " = ", in_b);
    sizes[rank - axis] = in_a == 1 ? in_b : in_a;
  }
  return Shape(std::span<const int>(sizes, static_cast<std::size_t>(rank)));
}

Broadcast broadcast(const Tensor& a, const Tensor& b, const Shape& shape) {
  Broadcast plan;
  if (a.shape() == b.shape()) {
    plan.run = {a.size(), 1, 1};
    return plan;
  }
  std::size_t stride_a = 1, stride_b = 1;
  for (int axis = 1; axis <= shape.rank(); ++axis) {
    const auto size = static_cast<std::size_t>(shape[-axis]);
    const auto size_a = static_cast<std::size_t>(axis <= a.rank() ? a.dim(-axis) : 1);
    const auto size_b = static_cast<std::size_t>(axis <= b.rank() ? b.dim(-axis) : 1);
    const std::size_t step_a = size_a == size ? stride_a : 0, step_b = size_b == size ? stride_b : 0;
    if (axis == 1) {
      plan.run = {size, step_a, step_b};
    } else {
      const auto outer = static_cast<std::size_t>(Shape::kMaxRank - axis);
      plan.sizes[outer] = size;
      plan.stride_a[outer] = step_a;
      plan.stride_b[outer] = step_b;
    }
    stride_a *= size_a;
    stride_b *= size_b;
  }
  return plan;
}

Tensor binary(const char* name, kernels::Binary op, const Tensor& a, const Tensor& b) {
  Tensor y = tape().create(broadcast_shape(name, a, b));
  const Broadcast plan = broadcast(a, b, y.shape());
  plan.for_each_run([&](std::size_t iy, std::size_t ia, std::size_t ib) {
    kernels::binary(op, plan.run, y.data() + iy, a.data() + ia, b.data() + ib);
  });
  record(y, {a, b}, [=] {
    real* const da = a.requires_grad() ? a.grad() : nullptr;
    real* const db = b.requires_grad() ? b.grad() : nullptr;
    const real* const dy = y.grad();
    plan.for_each_run([&](std::size_t iy, std::size_t ia, std::size_t ib) {
      kernels::binary_backward(op, plan.run, da ? da + ia : nullptr, db ? db + ib : nullptr, dy + iy, a.data() + ia,
                               b.data() + ib);
    });
  });
  return y;
}

// y = a + b of equal shapes: the residual sum, worth avoiding a pass over zeros.
Tensor add_same(const Tensor& a, const Tensor& b) {
  Tensor y = tape().create(a.shape());
  kernels::binary(kernels::Binary::add, {y.size(), 1, 1}, y.data(), a.data(), b.data());
  record(y, {a, b}, [=] {
    for (const Tensor& x : {a, b}) {
      if (!x.requires_grad()) continue;
      const auto [dx, beta] = x.grad_target();
      kernels::axpy(dx, beta, y.grad(), 1, y.size());
    }
  });
  return y;
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() ? add_same(a, b) : binary("add", kernels::Binary::add, a, b);
}
Tensor sub(const Tensor& a, const Tensor& b) { return binary("sub", kernels::Binary::sub, a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary("mul", kernels::Binary::mul, a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary("div", kernels::Binary::div, a, b); }

}  // namespace seppo::inline SEPPO_ABI
