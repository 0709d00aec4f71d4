// y = x W^T + bias, with an activation: one product forward, two backward; and the same with a weight of low rank
// beside W.
#include "../blas/multiply.h"
#include "../core/arena.h"
#include "op.h"
#include "weights.h"

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
  if (activation == Activation::relu) return relu(x);
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

void check_adapter(const Tensor& weight, const LowRank& adapter) {
  const Tensor& a = adapter.a;
  const Tensor& b = adapter.b;
  check(weight.rank() == 2 && a.rank() == 2 && b.rank() == 2, "linear_lora: needs weight [out, in], a [r, in] and b ",
        "[out, r]: weight ", weight, ", a ", a, ", b ", b);
  check(a.size(1) == weight.size(1) && b.size(0) == weight.size(0) && b.size(1) == a.size(0),
        "linear_lora: b times a, of b ", b, " and a ", a, ", must have the shape of weight ", weight);
}

// z = scale x A^T
Tensor narrowed(const Tensor& x, const LowRank& adapter) {
  const Tensor& a = adapter.a;
  Tensor z = tape().create(x.shape().with(-1, a.size(0)));
  multiply({z.data(), z.rows(), a.rows()}, {x.data(), x.rows(), a.cols()}, transposed({a.data(), a.rows(), a.cols()}));
  kernels::scale(z.data(), z.data(), static_cast<real>(adapter.scale), z.numel());
  return z;
}

// What comes through y = ... + z B^T, z = scale x A^T: dB += dy^T z, dA += dz^T x, dx += dz A, where dz = scale dy B
void adapter_backward(const Tensor& y, const Tensor& x, const Tensor& z, const LowRank& adapter) {
  const Tensor& a = adapter.a;
  const Tensor& b = adapter.b;
  const std::size_t rows = y.rows();
  const std::size_t out = b.rows();
  const std::size_t r = b.cols();
  const std::size_t in = a.cols();
  const MatrixView dy(grad_of(y), rows, out);
  if (const auto [db, beta] = target_if_required(b); db)
    multiply({db, out, r}, transposed(dy), {z.data(), rows, r}, accumulates(beta));
  if (!x.requires_grad() && !a.requires_grad()) return;
  const RecycledArray dz(tape().arena(), rows * r);
  multiply({dz.data(), rows, r}, dy, {b.data(), out, r});
  kernels::scale(dz.data(), dz.data(), static_cast<real>(adapter.scale), rows * r);
  const MatrixView slope(dz.data(), rows, r);
  if (const auto [da, beta] = target_if_required(a); da)
    multiply({da, r, in}, transposed(slope), {x.data(), rows, in}, accumulates(beta));
  if (const auto [dx, beta] = target_if_required(x); dx)
    multiply({dx, rows, in}, slope, {a.data(), r, in}, accumulates(beta));
}

}  // namespace

Tensor linear_lora(const Tensor& x, const Tensor& weight, const LowRank& adapter, const Tensor& bias,
                   Activation activation) {
  check<ArgumentError>(activation < Activation::swiglu, "linear_lora: a gated activation takes two products");
  if (activation != Activation::none) return activated(activation, linear_lora(x, weight, adapter, bias));
  check_adapter(weight, adapter);
  check_linear(x, weight, bias);
  const Tensor z = narrowed(x, adapter);
  const Tensor y = tape().create(x.shape().with(-1, weight.size(0)));
  const std::size_t rows = y.rows();
  const std::size_t out = weight.rows();
  const std::size_t in = weight.cols();
  const std::size_t r = adapter.a.rows();
  const real* const row = bias.defined() ? bias.data() : nullptr;
  multiply_by_weight({y.data(), rows, out}, {x.data(), rows, in}, weight, row);
  multiply({y.data(), rows, out}, {z.data(), rows, r}, transposed({adapter.b.data(), out, r}), Accumulate::yes);
  record("linear_lora", y, {x, weight, adapter.a, adapter.b, bias}, [=] {
    backward(y, x, weight, bias);
    adapter_backward(y, x, z, adapter);
  });
  return y;
}

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
  multiply_by_weight({y.data(), rows, out}, {x.data(), rows, in}, weight, row);
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
