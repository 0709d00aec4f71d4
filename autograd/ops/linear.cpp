// Matrix products.
#include "../blas/gemm.h"
#include "../kernels/kernels.h"
#include "../ops.h"

#include <algorithm>

namespace seppo::inline SEPPO_ABI {
namespace {

// The products of a batched matmul. Leading axes broadcast; an operand that repeats has stride 0.
struct Batches {
  std::size_t outer = 1, inner = 1;
  std::size_t a_outer = 0, a_inner = 0, b_outer = 0, b_inner = 0;
  std::size_t m, n, k;

  template <class F>
  void for_each(const F& f) const {
    for (std::size_t i = 0; i < outer; ++i)
      for (std::size_t j = 0; j < inner; ++j)
        f((i * a_outer + j * a_inner) * m * k, (i * b_outer + j * b_inner) * k * n, (i * inner + j) * m * n);
  }
};

int leading(const Tensor& x, int axis) { return axis <= x.rank() ? x.size(-axis) : 1; }

Shape matmul_shape(const Tensor& a, const Tensor& b) {
  check(a.rank() >= 1 && b.rank() >= 1, "matmul: both operands need at least one axis: lhs ", a, ", rhs ", b);
  check(a.size(-1) == b.size(-2), "matmul: inner sizes differ: lhs ", a, " dim ", a.rank() - 1, " = ", a.size(-1),
        ", rhs ", b, " dim ", b.rank() - 2, " = ", b.size(-2));
  int sizes[Shape::kMaxRank];
  const int rank = std::max(a.rank(), b.rank());
  for (int axis = 3; axis <= rank; ++axis) {
    const int in_a = leading(a, axis), in_b = leading(b, axis);
    check(in_a == in_b || in_a == 1 || in_b == 1, "matmul: batch sizes differ and neither is 1: lhs ", a, " dim ",
          a.rank() - axis, " = ", in_a, ", rhs ", b, " dim ", b.rank() - axis, " = ", in_b);
    sizes[rank - axis] = in_a == 1 ? in_b : in_a;
  }
  sizes[rank - 2] = a.size(-2);
  sizes[rank - 1] = b.size(-1);
  return Shape(std::span<const int>(sizes, static_cast<std::size_t>(rank)));
}

Batches matmul_batches(const Tensor& a, const Tensor& b, const Shape& y) {
  const auto size = [](int s) { return static_cast<std::size_t>(s); };
  Batches plan;
  plan.k = size(a.size(-1));
  plan.n = size(b.size(-1));
  plan.m = size(a.size(-2));
  if (b.rank() == 2) {  // one product over all rows of a
    plan.m = size(1) * static_cast<std::size_t>(y.rows());
    return plan;
  }
  if (y.rank() >= 3) plan.inner = size(y[-3]);
  if (y.rank() >= 4) plan.outer = size(y[-4]);
  plan.a_inner = leading(a, 3) == 1 ? 0 : 1;
  plan.b_inner = leading(b, 3) == 1 ? 0 : 1;
  plan.a_outer = leading(a, 4) == 1 ? 0 : size(leading(a, 3));
  plan.b_outer = leading(b, 4) == 1 ? 0 : size(leading(b, 3));
  return plan;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.rank() == 1) return squeeze(matmul(unsqueeze(a, 0), b), b.rank() == 1 ? 0 : -2);
  if (b.rank() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);
  Tensor y = tape().create(matmul_shape(a, b));
  const Batches plan = matmul_batches(a, b, y.shape());
  const std::size_t m = plan.m, n = plan.n, k = plan.k;
  plan.for_each([&](std::size_t ia, std::size_t ib, std::size_t iy) {
    gemm(Trans::no, Trans::no, m, n, k, a.data() + ia, k, b.data() + ib, n, 0, y.data() + iy, n);
  });
  // dA = dY B^T, dB = A^T dY
  record("matmul", y, {a, b}, [=] {
    const real* const dy = grad_of(y);
    if (a.requires_grad()) {
      real* const da = grad_of(a);
      plan.for_each([&](std::size_t ia, std::size_t ib, std::size_t iy) {
        gemm(Trans::no, Trans::yes, m, k, n, dy + iy, n, b.data() + ib, n, 1, da + ia, k);
      });
    }
    if (b.requires_grad()) {
      real* const db = grad_of(b);
      plan.for_each([&](std::size_t ia, std::size_t ib, std::size_t iy) {
        gemm(Trans::yes, Trans::no, k, n, m, a.data() + ia, k, dy + iy, n, 1, db + ib, n);
      });
    }
  });
  return y;
}

namespace {

Tensor linear_output(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check(weight.rank() == 2 && x.rank() >= 1, op, ": needs x [..., in] and weight [out, in]: x ", x, ", weight ",
        weight);
  check(x.size(-1) == weight.size(1), op, ": inner sizes differ: x ", x, " dim ", x.rank() - 1, " = ", x.size(-1),
        ", weight ", weight, " dim 1 = ", weight.size(1));
  if (bias.defined())
    check(bias.rank() == 1 && bias.size(0) == weight.size(0), op, ": bias ", bias, " must have the size of weight ",
          weight, " dim 0 = ", weight.size(0));
  int sizes[Shape::kMaxRank];
  std::copy(x.shape().sizes().begin(), x.shape().sizes().end(), sizes);
  sizes[x.rank() - 1] = weight.size(0);
  return tape().create(Shape(std::span<const int>(sizes, static_cast<std::size_t>(x.rank()))));
}

template <class F>
void record_linear(const char* op, const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const F& backward) {
  if (bias.defined())
    record(op, y, {x, weight, bias}, backward);
  else
    record(op, y, {x, weight}, backward);
}

// y = x W^T + b
void product(const Tensor& y, const real* x, const Tensor& weight, const Tensor& bias) {
  const std::size_t rows = y.rows(), out = weight.rows(), in = weight.cols();
  gemm_plus_row(Trans::no, Trans::yes, rows, out, in, x, in, weight.data(), in, bias.defined() ? bias.data() : nullptr,
                y.data(), out);
}

// dx = beta dx + dy W
void add_input_gradient(GradTarget dx, const Tensor& y, const Tensor& weight) {
  const std::size_t rows = y.rows(), out = weight.rows(), in = weight.cols();
  gemm(Trans::no, Trans::no, rows, in, out, grad_of(y), out, weight.data(), in, dx.beta, dx.grad, in);
}

// dW += dy^T x; db += the sum of dy's rows
void add_parameter_gradients(const Tensor& y, const real* x, const Tensor& weight, const Tensor& bias) {
  const std::size_t rows = y.rows(), out = weight.rows(), in = weight.cols();
  if (weight.requires_grad()) {
    const auto [dw, beta] = grad_target(weight);
    gemm(Trans::yes, Trans::no, out, in, rows, grad_of(y), out, x, in, beta, dw, in);
  }
  if (bias.defined() && bias.requires_grad()) kernels::add_column_sums(grad_of(bias), grad_of(y), rows, out);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  if (activation == Activation::gelu) return gelu(linear(x, weight, bias));
  Tensor y = linear_output("linear", x, weight, bias);
  product(y, x.data(), weight, bias);
  if (activation == Activation::relu) kernels::unary(kernels::Unary::relu, y.data(), y.data(), y.numel());
  record_linear("linear", y, x, weight, bias, [=] {
    if (activation == Activation::relu) kernels::relu_mask(grad_of(y), y.data(), y.numel());
    if (x.requires_grad()) add_input_gradient(grad_target(x), y, weight);
    add_parameter_gradients(y, x.data(), weight, bias);
  });
  return y;
}

Tensor gelu_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  using kernels::Unary;
  Tensor y = linear_output("gelu_linear", x, weight, bias);
  {
    const RecycledArray g(tape().arena(), x.numel());  // gelu(x)
    kernels::unary(Unary::gelu, g.data(), x.data(), x.numel());
    product(y, g.data(), weight, bias);
  }
  record_linear("gelu_linear", y, x, weight, bias, [=] {
    const RecycledArray again(tape().arena(), x.numel());
    kernels::unary(Unary::gelu, again.data(), x.data(), x.numel());
    add_parameter_gradients(y, again.data(), weight, bias);
    if (!x.requires_grad()) return;
    real* const dg = again.data();
    add_input_gradient({dg, 0}, y, weight);
    const auto [dx, beta] = grad_target(x);
    kernels::unary_backward(Unary::gelu, dx, beta, dg, x.data(), nullptr, x.numel());
  });
  return y;
}

}  // namespace seppo::inline SEPPO_ABI
