// Softmax and log softmax along an axis, under a mask, and within groups.
#include "../core/arena.h"
#include "op.h"
#include "slices.h"

#include <algorithm>
#include <limits>
#include <vector>

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
  std::size_t sequences = 1;
  for (int axis = 0; axis < x.rank() - 2; ++axis) sequences *= static_cast<std::size_t>(x.size(axis));
  check_mask("softmax", mask, sequences, [=](std::size_t) { return std::pair{queries, keys}; });
  const auto forward = [&](real* y, const real* row, std::size_t n, std::size_t i) {
    const std::size_t count = seen_keys(mask, i / queries, i % queries, i, queries, n);
    if (!mask.pairs.empty()) {
      for (std::size_t j = 0; j < count; ++j)
        y[j] = mask.pairs[i * n + j] ? row[j] : -std::numeric_limits<real>::infinity();
      row = y;
    }
    kernels::softmax_row(y, row, count, n);
  };
  return along_axis("softmax", x, -1, forward, kernels::softmax_row_backward);
}

namespace {

// Numbers the groups of equal indices from 0.
std::vector<int> numbered(List<int> index) {
  std::vector<int> numbers(index.begin(), index.end());
  if (numbers.empty()) return numbers;
  const auto [low, high] = std::ranges::minmax(numbers);
  if (std::int64_t{high} - low < std::int64_t{4} * std::ssize(index)) {
    for (int& number : numbers) number -= low;
    return numbers;
  }
  std::vector<int> sorted = numbers;
  std::ranges::sort(sorted);
  for (int& number : numbers) number = static_cast<int>(std::ranges::lower_bound(sorted, number) - sorted.begin());
  return numbers;
}

// The slices of a tensor along an axis, in groups.
struct Groups {
  Slices slices;
  std::span<const int> numbers;  // of the group of each
  std::size_t size = 0;          // elements of all groups: those of a slice for each

  Groups(const Tensor& x, int axis, List<int> index) : slices(x.shape(), axis, "index_softmax") {
    check(index.size() == slices.n, "index_softmax: ", index.size(), " indices for the ", slices.n,
          " slices along dim ", x.shape().axis(axis), " of x ", x);
    numbers = tape().keep(std::span<const int>(numbered(index)));
    if (!numbers.empty())
      size = slices.outer * slices.inner * (static_cast<std::size_t>(std::ranges::max(numbers)) + 1);
  }

  // Calls f(element, the same of its group) for all.
  template <class F>
  void for_each(const F& f) const {
    const std::size_t groups = size / std::max<std::size_t>(1, slices.outer);
    for (std::size_t i = 0; i < slices.outer; ++i)
      for (std::size_t k = 0; k < slices.n; ++k) {
        const std::size_t first = (i * slices.n + k) * slices.inner;
        const std::size_t of_group = i * groups + static_cast<std::size_t>(numbers[k]) * slices.inner;
        for (std::size_t j = 0; j < slices.inner; ++j) f(first + j, of_group + j);
      }
  }
};

// y = x - the largest of its group
void subtract_largest(real* y, const real* x, const Groups& groups) {
  constexpr real kLowest = std::numeric_limits<real>::lowest();  // not -inf: -inf - -inf is NaN
  const RecycledArray<real> memory(tape().arena(), groups.size);
  real* const largest = memory.data();
  std::fill_n(largest, groups.size, kLowest);
  groups.for_each([=](std::size_t i, std::size_t g) { largest[g] = std::max(largest[g], x[i]); });
  groups.for_each([=](std::size_t i, std::size_t g) { y[i] = x[i] - largest[g]; });
}

// sums = the sum of term(i) over each group
template <class F>
void sum_groups(double* sums, const Groups& groups, const F& term) {
  std::fill_n(sums, groups.size, 0.0);
  groups.for_each([=](std::size_t i, std::size_t g) { sums[g] += term(i); });
}

}  // namespace

Tensor index_softmax(const Tensor& x, int axis, List<int> index) {
  const Groups groups(x, axis, index);
  const Tensor y = tape().create(x.shape());
  real* const p = y.data();
  subtract_largest(p, x.data(), groups);
  apply(kernels::unary().exp, p, p, y.numel());
  const RecycledArray<double> memory(tape().arena(), groups.size);
  double* const sums = memory.data();
  sum_groups(sums, groups, [=](std::size_t i) { return double{p[i]}; });
  groups.for_each([=](std::size_t i, std::size_t g) {
    if (sums[g] != 0) p[i] /= static_cast<real>(sums[g]);
  });
  record("index_softmax", y, {x}, [=] {  // dx_i += p_i (dy_i - sum_k dy_k p_k)
    const real* const dy = grad_of(y);
    real* const dx = grad_of(x);
    const RecycledArray<double> scratch(tape().arena(), groups.size);
    double* const dots = scratch.data();
    sum_groups(dots, groups, [=](std::size_t i) { return double{dy[i]} * double{p[i]}; });
    groups.for_each([=](std::size_t i, std::size_t g) { dx[i] += p[i] * static_cast<real>(double{dy[i]} - dots[g]); });
  });
  return y;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
