// activation(a) b: the middle of a gated feed-forward network, a piece at a time.
#include "op.h"

#include <array>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

constexpr std::size_t kPart = 1024;  // elements whose intermediate results stay in the L1 cache
using Part = std::array<real, kPart>;

const kernels::Unary& kernel_of(Activation activation) {
  if (activation == Activation::swiglu) return kernels::unary().silu;
  if (activation == Activation::geglu) return kernels::unary().gelu;
  check<ArgumentError>(activation == Activation::geglu_tanh,
                       "gated: the activation is not swiglu, geglu or geglu_tanh");
  return kernels::unary().gelu_tanh;
}

// Calls f(begin, size) for parts of 0..n-1, of which a thread takes at least `piece`.
template <class F>
void for_each_part(std::size_t n, std::size_t piece, const F& f) {
  parallel_range(0, n, piece, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; i += kPart) f(i, std::min(kPart, end - i));
  });
}

void forward(const kernels::Unary& kernel, real* y, const real* a, const real* b, std::size_t n) {
  for_each_part(n, kPiece, [&](std::size_t begin, std::size_t size) {
    Part open;
    kernel.forward(open.data(), a + begin, size);
    for (std::size_t i = 0; i < size; ++i) y[begin + i] = open[i] * b[begin + i];
  });
}

// da += dy b f'(a), db += dy f(a), each if it is required
void backward(const kernels::Unary& kernel, const Tensor& y, const Tensor& a, const Tensor& b) {
  const GradTarget to_a = target_if_required(a);
  const GradTarget to_b = target_if_required(b);
  const real* const dy = grad_of(y);
  const std::size_t n = y.numel();
  for_each_part(n, may_overlap(to_a, to_b, n) ? n : kPiece, [&](std::size_t begin, std::size_t size) {
    const real* const from = a.data() + begin;
    Part open;
    kernel.forward(open.data(), from, size);
    if (to_a.grad) {
      Part slope;
      for (std::size_t i = 0; i < size; ++i) slope[i] = dy[begin + i] * b.data()[begin + i];
      kernel.backward(to_a.grad + begin, to_a.beta, slope.data(), from, open.data(), size);
    }
    if (!to_b.grad) return;
    real* const db = to_b.grad + begin;
    for (std::size_t i = 0; i < size; ++i) db[i] = dy[begin + i] * open[i] + (to_b.beta == 0 ? 0 : db[i]);
  });
}

}  // namespace

Tensor gated(const Tensor& a, const Tensor& b, Activation activation) {
  const kernels::Unary& kernel = kernel_of(activation);
  check(a.shape() == b.shape(), "gated: a ", a, " must have the shape of b ", b);
  Tensor y = tape().create(a.shape());
  forward(kernel, y.data(), a.data(), b.data(), y.numel());
  record("gated", y, {a, b}, [=] { backward(kernel_of(activation), y, a, b); });
  return y;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
