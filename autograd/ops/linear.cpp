// y = x W^T + bias, with an activation: one product forward, two backward.
#include "../blas/multiply.h"
#include "op.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check(weight.rank() == 2 && x.rank() >= 1, "linear: needs x [..., in] and weight [out, in] or [in]: x ", x,
        ", weight ", weight);
  const int in = weight.size(1);
  const int out = weight.size(0);
  check(x.size(-1) == in, "linear: inner sizes differ: x ", x, " dim ", x.rank() - 1, " = ", x.size(-1), ", weight ",
        weight, " dim 1 = ", in);
  const bool fits = !bias.defined() || (bias.rank() == 1 && bias.size(0) == out);
  check(fits, "linear: bias ", bias, " must have the size of weight ", weight, " dim 0 = ", out);
}

// One output, without an axis of its own.
Tensor linear_of_one_output(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  check(!bias.defined() || bias.rank() == 0, "linear: bias ", bias, " must be a scalar for weight ", weight);
  const Tensor row = bias.defined() ? reshape(bias, {1}) : bias;
  return squeeze(linear(x, unsqueeze(weight, 0), row, activation), -1);
}

// Whether a gradient is added to, or written for the first time.
Accumulate accumulates(real beta) { return beta == 0 ? Accumulate::no : Accumulate::yes; }

// dbias += the sum of dy's rows
void add_bias_gradient(real* dbias, const real* dy, std::size_t rows, std::size_t out) {
  const std::size_t columns_worth_a_thread = (kPiece / (rows + 1) / 64 + 1) * 64;
  parallel_range(0, out, columns_worth_a_thread, [&](std::size_t first, std::size_t last) {
    kernels::add_column_sums(dbias + first, dy + first, out, rows, last - first);
  });
}

// An activation that is an op of its own.
Tensor activated(Activation activation, const Tensor& x) {
  if (activation == Activation::gelu) return gelu(x);
  return activation == Activation::gelu_tanh ? gelu_tanh(x) : silu(x);
}

// dx = beta dx + dy W, dW = beta dW + dy^T x, dbias += the sum of dy's rows
void backward(const Tensor& y, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const std::size_t rows = y.rows();
  const std::size_t out = weight.rows();
  const std::size_t in = weight.cols();
  const MatrixView dy(grad_of(y), rows, out);
  if (const auto [dx, beta] = target_if_required(x); dx)
    multiply({dx, rows, in}, dy, {weight.data(), out, in}, accumulates(beta));
  if (const auto [dw, beta] = target_if_required(weight); dw)
    multiply({dw, out, in}, transposed(dy), {x.data(), rows, in}, accumulates(beta));
  if (real* const dbias = grad_if_required(bias)) add_bias_gradient(dbias, dy.data, rows, out);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  check<ArgumentError>(activation < Activation::swiglu, "linear: a gated activation takes two products");
  const bool has_relu = activation == Activation::relu;
  if (activation != Activation::none && !has_relu) return activated(activation, linear(x, weight, bias));
  if (weight.rank() == 1) return linear_of_one_output(x, weight, bias, activation);
  check_linear(x, weight, bias);
  Tensor y = tape().create(x.shape().with(-1, weight.size(0)));
  const std::size_t rows = y.rows();
  const std::size_t out = weight.rows();
  const std::size_t in = weight.cols();
  const real* const row = bias.defined() ? bias.data() : nullptr;
  multiply_plus_row({y.data(), rows, out}, {x.data(), rows, in}, transposed({weight.data(), out, in}), row);
  const auto& relu = kernels::unary().relu;
  if (has_relu) apply(relu, y.data(), y.data(), y.numel());
  record("linear", y, {x, weight, bias}, [=] {
    real* const dy = grad_of(y);
    if (has_relu) apply_slope(relu, dy, 0, dy, y.data(), y.data(), y.numel());
    backward(y, x, weight, bias);
  });
  return y;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
