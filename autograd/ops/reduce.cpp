// Sums, means, variances and extremes over any axes; cumulative sums.
#include "../kernels/kernels.h"
#include "../ops.h"
#include "slices.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace seppo::inline SEPPO_ABI {
namespace {

// How the elements of x fall onto those of the result. Neighbouring axes that are both reduced, or both
// kept, are one here.
struct Folding {
  Shape result;
  std::size_t count = 1;  // elements of x for each of the result
  std::size_t sizes[Shape::kMaxRank] = {1, 1, 1, 1}, strides[Shape::kMaxRank] = {};

  Folding(const char* op, const Tensor& x, const Axes& axes, bool keepdim) {
    const std::array<bool, Shape::kMaxRank> reduced = axes.of(op, x);
    int kept[Shape::kMaxRank], rank = 0, group = Shape::kMaxRank;
    std::size_t stride = 1;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      const bool is_reduced = reduced[static_cast<std::size_t>(axis)];
      const auto size = static_cast<std::size_t>(x.size(axis));
      if (group == Shape::kMaxRank || is_reduced != reduced[static_cast<std::size_t>(axis + 1)])
        strides[--group] = is_reduced ? 0 : stride;
      sizes[group] *= size;
      (is_reduced ? count : stride) *= size;
    }
    for (int axis = 0; axis < x.rank(); ++axis) {
      const bool is_reduced = reduced[static_cast<std::size_t>(axis)];
      if (!is_reduced || keepdim) kept[rank++] = is_reduced ? 1 : x.size(axis);
    }
    result = Shape(std::span<const int>(kept, static_cast<std::size_t>(rank)));
    if (x.rank() == 0) sizes[3] = 1;
  }

  // The last group is a run of n elements, which fall onto one element of the result or onto neighbours.
  std::size_t n() const { return sizes[3]; }
  bool onto_one() const { return strides[3] == 0; }

  // Calls f(first element of x, of the result) for each run.
  template <class F>
  void for_each_run(const F& f) const {
    std::size_t x = 0;
    for (std::size_t i = 0; i < sizes[0]; ++i)
      for (std::size_t j = 0; j < sizes[1]; ++j)
        for (std::size_t k = 0; k < sizes[2]; ++k, x += n()) f(x, i * strides[0] + j * strides[1] + k * strides[2]);
  }
  // Calls f(element of x, element of the result) for each.
  template <class F>
  void for_each(const F& f) const {
    for_each_run([&](std::size_t x, std::size_t y) {
      for (std::size_t i = 0; i < n(); ++i) f(x + i, y + i * strides[3]);
    });
  }
};

// The sums, in double precision, in memory of the tape.
double* sums_of(const Folding& r, const Tensor& x) {
  const auto size = static_cast<std::size_t>(r.result.numel());
  double* const total = tape().allocate<double>(size);
  std::fill_n(total, size, 0.0);
  r.for_each_run([&](std::size_t ix, std::size_t iy) {
    if (r.onto_one())
      total[iy] += kernels::sum(x.data() + ix, r.n());
    else
      for (std::size_t i = 0; i < r.n(); ++i) total[iy + i] += static_cast<double>(x.data()[ix + i]);
  });
  return total;
}

Tensor scaled_sum(const char* op, const Tensor& x, const Folding& r, double factor) {
  Tensor y = tape().create(r.result);
  const double* const total = sums_of(r, x);
  for (std::size_t i = 0; i < y.numel(); ++i) y.data()[i] = static_cast<real>(total[i] * factor);
  record(op, y, {x}, [=] {
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    const real f = static_cast<real>(factor);
    r.for_each_run([&](std::size_t ix, std::size_t iy) {
      if (!r.onto_one()) return kernels::axpy(dx + ix, 1, dy + iy, f, r.n());
      for (std::size_t i = 0; i < r.n(); ++i) dx[ix + i] += f * dy[iy];
    });
  });
  return y;
}

void check_not_empty(const char* op, const Tensor& x, const Folding& r) {
  check(r.count > 0, op, ": of no elements, over axes of size 0 of x ", x);
}

// amax for sign 1, amin for -1. Equal extremes share the gradient.
Tensor extreme(const char* op, const Tensor& x, const Axes& axes, bool keepdim, real sign) {
  const Folding r(op, x, axes, keepdim);
  check_not_empty(op, x, r);
  Tensor y = full(r.result, -sign * std::numeric_limits<real>::infinity());
  r.for_each([&](std::size_t ix, std::size_t iy) {
    const real v = x.data()[ix];
    if (sign * v > sign * y.data()[iy] || std::isnan(v)) y.data()[iy] = v;
  });
  real* const share = tape().allocate<real>(y.numel());
  record(op, y, {x}, [=] {
    real* const dx = grad_of(x);
    std::fill_n(share, y.numel(), real{0});
    r.for_each([&](std::size_t ix, std::size_t iy) { share[iy] += x.data()[ix] == y.data()[iy]; });
    r.for_each([&](std::size_t ix, std::size_t iy) {
      if (x.data()[ix] == y.data()[iy]) dx[ix] += grad_of(y)[iy] / share[iy];
    });
  });
  return y;
}

std::vector<int> arg_extreme(const char* op, const Tensor& x, int axis, real sign) {
  check(x.size(axis) > 0 || x.numel() > 0, op, ": of no elements: x ", x, " dim ", axis, " = 0");
  const Slices slices(x.shape(), axis);
  std::vector<int> best;
  best.reserve(slices.outer * slices.inner);
  slices.for_each([&](std::size_t first) {
    std::size_t at = 0;
    for (std::size_t k = 1; k < slices.n; ++k) {
      const real v = x.data()[first + k * slices.inner], top = x.data()[first + at * slices.inner];
      if (sign * v > sign * top || (std::isnan(v) && !std::isnan(top))) at = k;
    }
    best.push_back(static_cast<int>(at));
  });
  return best;
}

Extreme pick(const Tensor& x, int axis, bool keepdim, std::vector<int> indices) {
  const Tensor values = gather(x, axis, {with_size(x.shape(), axis, 1), indices});
  return {keepdim ? values : squeeze(values, axis), std::move(indices)};
}

}  // namespace

std::array<bool, Shape::kMaxRank> Axes::of(const char* op, const Tensor& x) const {
  std::array<bool, Shape::kMaxRank> chosen{};
  if (count_ == 0) std::fill_n(chosen.begin(), x.rank(), true);
  for (std::size_t i = 0; i < count_; ++i) {
    const auto axis = static_cast<std::size_t>(x.shape().axis(axes_[i]));
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

Tensor var(const Tensor& x, const Axes& axes, int correction, bool keepdim) {
  const Folding r("var", x, axes, keepdim);
  check(static_cast<double>(r.count) > correction, "var: of ", r.count, " elements of x ", x, " with correction ",
        correction);
  Tensor y = tape().create(r.result);
  // Two passes: the squares are those of the differences from the mean.
  double* const mean = sums_of(r, x);
  for (std::size_t i = 0; i < y.numel(); ++i) mean[i] /= static_cast<double>(r.count);
  double* const squares = tape().allocate<double>(y.numel());
  std::fill_n(squares, y.numel(), 0.0);
  r.for_each([&](std::size_t ix, std::size_t iy) {
    const double difference = static_cast<double>(x.data()[ix]) - mean[iy];
    squares[iy] += difference * difference;
  });
  const double divisor = static_cast<double>(r.count) - correction;
  for (std::size_t i = 0; i < y.numel(); ++i) y.data()[i] = static_cast<real>(squares[i] / divisor);
  record("var", y, {x}, [=] {
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    r.for_each([&](std::size_t ix, std::size_t iy) {
      dx[ix] += dy[iy] * static_cast<real>(2 / divisor * (static_cast<double>(x.data()[ix]) - mean[iy]));
    });
  });
  return y;
}

Tensor amax(const Tensor& x, const Axes& axes, bool keepdim) { return extreme("amax", x, axes, keepdim, 1); }
Tensor amin(const Tensor& x, const Axes& axes, bool keepdim) { return extreme("amin", x, axes, keepdim, -1); }

Tensor logsumexp(const Tensor& x, const Axes& axes, bool keepdim) {
  const Folding r("logsumexp", x, axes, keepdim);
  Tensor y = full(r.result, -std::numeric_limits<real>::infinity());
  r.for_each([&](std::size_t ix, std::size_t iy) {  // first the largest
    if (const real v = x.data()[ix]; v > y.data()[iy] || std::isnan(v)) y.data()[iy] = v;
  });
  double* const total = tape().allocate<double>(y.numel());
  std::fill_n(total, y.numel(), 0.0);
  r.for_each([&](std::size_t ix, std::size_t iy) {
    if (std::isfinite(y.data()[iy])) total[iy] += static_cast<double>(std::exp(x.data()[ix] - y.data()[iy]));
  });
  for (std::size_t i = 0; i < y.numel(); ++i)
    if (std::isfinite(y.data()[i])) y.data()[i] += static_cast<real>(std::log(total[i]));
  record("logsumexp", y, {x}, [=] {
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    r.for_each([&](std::size_t ix, std::size_t iy) {  // an infinite sum has no slope
      if (!std::isinf(y.data()[iy])) dx[ix] += dy[iy] * std::exp(x.data()[ix] - y.data()[iy]);
    });
  });
  return y;
}

std::vector<int> argmax(const Tensor& x, int axis) { return arg_extreme("argmax", x, axis, 1); }
std::vector<int> argmin(const Tensor& x, int axis) { return arg_extreme("argmin", x, axis, -1); }

Extreme max(const Tensor& x, int axis, bool keepdim) {
  return pick(x, axis, keepdim, arg_extreme("max", x, axis, 1));
}
Extreme min(const Tensor& x, int axis, bool keepdim) {
  return pick(x, axis, keepdim, arg_extreme("min", x, axis, -1));
}

Tensor cumsum(const Tensor& x, int axis) {
  const Slices slices(x.shape(), axis);
  Tensor y = tape().create(x.shape());
  slices.for_each([&](std::size_t first) {
    double total = 0;
    for (std::size_t k = 0; k < slices.n; ++k) {
      total += static_cast<double>(x.data()[first + k * slices.inner]);
      y.data()[first + k * slices.inner] = static_cast<real>(total);
    }
  });
  record("cumsum", y, {x}, [=] {  // dx_k is the sum of dy from k on
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    slices.for_each([&](std::size_t first) {
      double total = 0;
      for (std::size_t k = slices.n; k-- > 0;) {
        total += static_cast<double>(dy[first + k * slices.inner]);
        dx[first + k * slices.inner] += static_cast<real>(total);
      }
    });
  });
  return y;
}

}  // namespace seppo::inline SEPPO_ABI
