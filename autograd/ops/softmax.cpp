// Softmax and log softmax along an axis, and softmax under a mask.
#include "op.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

using RowBackward = void (*)(real* dx, real beta, const real* dy, const real* y, std::size_t n);

// Along the last axis, forward(y, x, n, i) for row i; any other is moved there and back.
template <class F>
Tensor along_axis(const char* name, const Tensor& x, int axis, const F& forward, RowBackward backward) {
  const int at = x.shape().axis(axis, name);
  if (at < x.rank() - 1) return transpose(along_axis(name, transpose(x, at, -1), -1, forward, backward), at, -1);
  Tensor y = tape().create(x.shape());
  const std::size_t n = x.cols();
  for (std::size_t i = 0; i < x.rows(); ++i) forward(y.data() + i * n, x.data() + i * n, n, i);
  record(name, y, {x}, [=] {
    const auto [dx, beta] = grad_target(x);
    const real* const dy = grad_of(y);
    for (std::size_t i = 0; i < x.rows(); ++i) backward(dx + i * n, beta, dy + i * n, y.data() + i * n, n);
  });
  return y;
}

}  // namespace

Tensor softmax(const Tensor& x, int axis) {
  const auto forward = [](real* y, const real* row, std::size_t n, std::size_t) { kernels::softmax_row(y, row, n, n); };
  return along_axis("softmax", x, axis, forward, kernels::softmax_row_backward);
}

Tensor log_softmax(const Tensor& x, int axis) {
  const auto forward = [](real* y, const real* row, std::size_t n, std::size_t) {
    const kernels::LogSumExp sum = kernels::log_sum_exp(row, n);
    for (std::size_t j = 0; j < n; ++j) y[j] = row[j] - sum.max - sum.log_sum;
  };
  return along_axis("log_softmax", x, axis, forward, kernels::log_softmax_row_backward);
}

Tensor softmax(const Tensor& x, const Mask& mask) {
  check(x.rank() >= 2, "softmax: a mask needs x [..., queries, keys], got ", x);
  const auto queries = static_cast<std::size_t>(x.size(-2));
  const std::size_t keys = x.cols();
  const std::size_t sequences = queries == 0 ? 0 : x.rows() / queries;
  check_mask("softmax", mask, sequences, [=](std::size_t) { return std::pair{queries, keys}; });
  const auto forward = [&](real* y, const real* row, std::size_t n, std::size_t i) {
    std::size_t count = mask.lengths.empty() ? n : static_cast<std::size_t>(mask.lengths[i / queries]);
    if (mask.is_causal) count = std::min(count, kernels::causal_keys(i % queries, queries, n));
    if (!mask.pairs.empty()) {
      for (std::size_t j = 0; j < count; ++j)
        y[j] = mask.pairs[i * n + j] ? row[j] : -std::numeric_limits<real>::infinity();
      row = y;
    }
    kernels::softmax_row(y, row, count, n);
  };
  return along_axis("softmax", x, -1, forward, kernels::softmax_row_backward);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
