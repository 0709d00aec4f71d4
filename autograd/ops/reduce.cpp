// Sums, means, products and extremes over any axes; cumulative sums.
#include "../core/arena.h"
#include "../kernels/kernels.h"
#include "../ops.h"
#include "folding.h"
#include "slices.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// y = factor times the sums of x.
Tensor scaled_sum(const char* op, const Tensor& x, const Folding& folding, double factor) {
  Tensor y = tape().create(folding.result);
  double* const total = tape().allocate<double>(y.numel());
  std::fill_n(total, y.numel(), 0.0);
  const Walk<2> walk = folding.walk;
  walk.for_each_run([&](const auto& at) {
    const real* const from = x.data() + at[0];
    if (walk.stride(1) == 0)
      total[at[1]] += kernels::sum(from, walk.n());
    else
      for (std::size_t i = 0; i < walk.n(); ++i) total[at[1] + i] += double{from[i]};
  });
  for (std::size_t i = 0; i < y.numel(); ++i) y.data()[i] = static_cast<real>(total[i] * factor);
  record(op, y, {x}, [=, f = static_cast<real>(factor)] {
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    walk.for_each_run([&](const auto& at) {
      if (walk.stride(1) != 0) return kernels::axpy(dx + at[0], 1, dy + at[1], f, walk.n());
      for (std::size_t i = 0; i < walk.n(); ++i) dx[at[0] + i] += f * dy[at[1]];
    });
  });
  return y;
}

// top = the larger of v and top for sign 1, the smaller for -1; NaN stays. With a bitwise or, which is no branch.
void take(real& top, real v, real sign) { top = ((sign * v <= sign * top) | (top != top)) ? top : v; }

// y = the largest elements of x for sign 1, the smallest for -1.
void find_extremes(const Walk<2>& walk, real* y, const real* x, real sign) {
  walk.for_each_run([&](const auto& at) {
    const real* const from = x + at[0];
    real* const to = y + at[1];
    if (walk.stride(1) == 0)
      take(*to, kernels::max_or_min(from, sign, walk.n()), sign);
    else
      for (std::size_t i = 0; i < walk.n(); ++i) take(to[i], from[i], sign);
  });
}

// counts = how many elements of x are equal to those of y.
void count_equal(const Walk<2>& walk, real* counts, const Tensor& y, const real* x) {
  std::fill_n(counts, y.numel(), real{0});
  walk.for_each_run([&](const auto& at) {
    const real* const from = x + at[0];
    const real* const top = y.data() + at[1];
    real* const to = counts + at[1];
    if (walk.stride(1) == 0)
      *to += static_cast<real>(std::count(from, from + walk.n(), *top));
    else
      for (std::size_t i = 0; i < walk.n(); ++i) to[i] += static_cast<real>(from[i] == top[i]);
  });
}

// dx += share where x is equal to y.
void add_where_equal(const Walk<2>& walk, real* dx, const real* share, const real* y, const real* x) {
  walk.for_each_run([&](const auto& at) {
    along(walk.n(), 1, walk.stride(1),
          [to = dx + at[0], from = x + at[0], top = y + at[1], shares = share + at[1]](std::size_t i, std::size_t,
                                                                                       std::size_t iy) {
            const real share_of_i = shares[iy];  // read unconditionally, to keep the loop free of branches
            to[i] += from[i] == top[iy] ? share_of_i : 0;
          });
  });
}

// amax for sign 1, amin for -1. Equal elements share the gradient.
Tensor amax_or_amin(const char* op, const Tensor& x, const Axes& axes, bool keepdim, real sign) {
  const Folding folding(op, x, axes, keepdim);
  check_not_empty(op, x, folding);
  const Walk<2> walk = folding.walk;
  Tensor y = full(folding.result, -sign * std::numeric_limits<real>::infinity());
  find_extremes(walk, y.data(), x.data(), sign);
  real* const share = tape().allocate<real>(y.numel());
  record(op, y, {x}, [=] {
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    count_equal(walk, share, y, x.data());
    for (std::size_t i = 0; i < y.numel(); ++i) share[i] = dy[i] / share[i];
    add_where_equal(walk, dx, share, y.data(), x.data());
  });
  return y;
}

// x with the reduced axes last, in their order.
Tensor with_last(const Tensor& x, const std::array<bool, Shape::kMaxRank>& reduced) {
  std::vector<int> axes;
  for (const bool last : {false, true})
    for (int axis = 0; axis < x.rank(); ++axis)
      if (reduced[static_cast<std::size_t>(axis)] == last) axes.push_back(axis);
  return std::ranges::is_sorted(axes) ? x : permute(x, axes);
}

// The index of the largest element of each slice for sign 1, of the smallest for -1: of equal ones the first.
std::vector<int> arg_extreme(const char* op, const Tensor& x, int axis, real sign) {
  const Slices slices(x.shape(), axis, op);
  check(slices.n > 0, op, ": of no elements: x ", x, " dim ", axis, " = 0");
  std::vector<int> best;
  best.reserve(slices.outer * slices.inner);
  slices.for_each([&](std::size_t first) {
    std::size_t at = 0;
    for (std::size_t k = 1; k < slices.n; ++k) {
      const real v = x.data()[first + k * slices.inner];
      const real top = x.data()[first + at * slices.inner];
      if (sign * v > sign * top || (std::isnan(v) && !std::isnan(top))) at = k;
    }
    best.push_back(static_cast<int>(at));
  });
  return best;
}

Extreme pick(const Tensor& x, int axis, bool keepdim, std::vector<int> indices) {
  const Tensor values = gather(x, axis, {x.shape().with(axis, 1), indices});
  return {keepdim ? values : squeeze(values, axis), std::move(indices)};
}

}  // namespace

std::array<bool, Shape::kMaxRank> Axes::of(const char* op, const Tensor& x) const {
  std::array<bool, Shape::kMaxRank> chosen{};
  if (count_ == 0) std::fill_n(chosen.begin(), x.rank(), true);
  for (std::size_t i = 0; i < count_; ++i) {
    const auto axis = static_cast<std::size_t>(x.shape().axis(axes_[i], op));
    check<IndexError>(!chosen[axis], op, ": axis ", axes_[i], " of ", x, " is given twice");
    chosen[axis] = true;
  }
  return chosen;
}

Axes::Axes(std::initializer_list<int> axes) : count_(axes.size()) {
  check(count_ <= axes_.size(), "axes: ", count_, " given; a tensor has at most ", Shape::kMaxRank);
  std::copy(axes.begin(), axes.end(), axes_.begin());
}

Tensor sum(const Tensor& x, const Axes& axes, bool keepdim) {
  return scaled_sum("sum", x, Folding("sum", x, axes, keepdim), 1);
}

Tensor mean(const Tensor& x, const Axes& axes, bool keepdim) {
  const Folding r("mean", x, axes, keepdim);
  check_not_empty("mean", x, r);
  return scaled_sum("mean", x, r, 1 / static_cast<double>(r.count));
}

namespace {

// dx_k += dy times the product of the other elements: of those before it and of those behind, without a division, which
// zeros would not allow.
void add_products_of_others(real* dx, const real* x, double dy, std::size_t n, double* before) {
  double product = dy;
  for (std::size_t k = 0; k < n; ++k) {
    before[k] = product;
    product *= double{x[k]};
  }
  double behind = 1;
  for (std::size_t k = n; k-- > 0;) {
    dx[k] += static_cast<real>(before[k] * behind);
    behind *= double{x[k]};
  }
}

}  // namespace

Tensor prod(const Tensor& x, const Axes& axes, bool keepdim) {
  const Folding r("prod", x, axes, keepdim);
  const Tensor rows = with_last(x, axes.of("prod", x));
  Tensor y = tape().create(r.result);
  for (std::size_t i = 0; i < y.numel(); ++i) {
    const real* const row = rows.data() + i * r.count;
    y.data()[i] = static_cast<real>(std::accumulate(row, row + r.count, 1.0, std::multiplies<double>()));
  }
  record("prod", y, {rows}, [=, n = r.count] {
    real* const dx = grad_of(rows);
    const real* const dy = grad_of(y);
    const RecycledArray<double> before(tape().arena(), n);
    for (std::size_t i = 0; i < y.numel(); ++i)
      add_products_of_others(dx + i * n, rows.data() + i * n, double{dy[i]}, n, before.data());
  });
  return y;
}

Tensor amax(const Tensor& x, const Axes& axes, bool keepdim) { return amax_or_amin("amax", x, axes, keepdim, 1); }
Tensor amin(const Tensor& x, const Axes& axes, bool keepdim) { return amax_or_amin("amin", x, axes, keepdim, -1); }

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdim) {
  const Folding r("logsumexp", x, axes, keepdim);
  const Tensor rows = with_last(x, axes.of("logsumexp", x));
  Tensor y = tape().create(r.result);
  auto* const sums = tape().allocate<kernels::LogSumExp>(y.numel());
  for (std::size_t i = 0; i < y.numel(); ++i) {
    const real* const row = rows.data() + i * r.count;
    sums[i] = kernels::log_sum_exp(row, r.count);
    const bool is_inf = std::isinf(sums[i].max);  // which may hide a NaN
    y.data()[i] = is_inf ? kernels::max_or_min(row, 1, r.count) : sums[i].max + sums[i].log_sum;
  }
  record("logsumexp", y, {rows}, [=, n = r.count] {
    const auto [dx, beta] = grad_target(rows);
    for (std::size_t i = 0; i < y.numel(); ++i)  // an infinite sum has no slope
      if (!std::isinf(y.data()[i]))
        kernels::log_sum_exp_backward(dx + i * n, beta, rows.data() + i * n, sums[i], 0, grad_of(y)[i], n);
      else if (beta == 0)
        std::fill_n(dx + i * n, n, real{0});
  });
  return y;
}

std::vector<int> argmax(const Tensor& x, int axis) { return arg_extreme("argmax", x, axis, 1); }
std::vector<int> argmin(const Tensor& x, int axis) { return arg_extreme("argmin", x, axis, -1); }

Extreme max(const Tensor& x, int axis, bool keepdim) { return pick(x, axis, keepdim, arg_extreme("max", x, axis, 1)); }
Extreme min(const Tensor& x, int axis, bool keepdim) { return pick(x, axis, keepdim, arg_extreme("min", x, axis, -1)); }

namespace {

// In the order of topk: NaN counts as the largest.
bool is_above(real a, real b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

}  // namespace

Extreme topk(const Tensor& x, int k, int axis, bool largest) {
  const Slices slices(x.shape(), axis, "topk");
  check<ArgumentError>(k > 0 && static_cast<std::size_t>(k) <= slices.n, "topk: k = ", k, " is not in 1..", slices.n,
                       ", dim ", x.shape().axis(axis), " of x ", x);
  const Shape shape = x.shape().with(axis, k);
  const Slices of_result(shape, axis);
  std::vector<int> order(slices.n);
  std::vector<int> indices(static_cast<std::size_t>(shape.numel()));
  slices.for_each([&](std::size_t first) {
    const auto at = [&](int i) { return x.data()[first + static_cast<std::size_t>(i) * slices.inner]; };
    const auto comes_first = [&](int a, int b) {
      const real p = at(largest ? a : b);
      const real q = at(largest ? b : a);
      return is_above(p, q) || (!is_above(q, p) && a < b);
    };
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(), comes_first);
    int* to = indices.data() + first / slices.block() * of_result.block() + first % slices.inner;
    for (int i = 0; i < k; ++i) {
      *to = order[static_cast<std::size_t>(i)];
      to += slices.inner;
    }
  });
  return {gather(x, axis, {shape, indices}), indices};
}

namespace {

// to_k += from_0 + ... + from_k in each slice, or, backwards, from_k + ... + from_(n-1).
void add_running_sums(const Slices& slices, real* to, const real* from, bool backwards) {
  slices.for_each([&](std::size_t first) {
    double total = 0;
    for (std::size_t k = 0; k < slices.n; ++k) {
      const std::size_t i = first + (backwards ? slices.n - 1 - k : k) * slices.inner;
      total += double{from[i]};
      to[i] += static_cast<real>(total);
    }
  });
}

}  // namespace

Tensor cumsum(const Tensor& x, int axis) {
  const Slices slices(x.shape(), axis, "cumsum");
  Tensor y = zeros_like(x);
  add_running_sums(slices, y.data(), x.data(), false);
  record("cumsum", y, {x}, [=] { add_running_sums(slices, grad_of(x), grad_of(y), true); });
  return y;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
