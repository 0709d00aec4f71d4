// Reshape, permutation of axes, expansion, flips and triangles.
#include "../kernels/kernels.h"
#include "../ops.h"
#include "slices.h"
#include "term_sums.h"
#include "walk.h"

#include <algorithm>
#include <numeric>

namespace seppo {
inline namespace SEPPO_ABI {

Tensor reshape(const Tensor& x, const Shape& shape) {
  check(shape.numel() == x.shape().numel(), "reshape: ", x, " has ", x.numel(), " elements, ", shape, " has ",
        shape.numel());
  return tape().view(x, shape);
}

Tensor reshape(const Tensor& x, std::initializer_list<int> sizes) {
  Shape known;  // with 1 for the inferred size
  int inferred = -1;
  for (const int size : sizes) {
    if (size == -1 && inferred < 0) inferred = known.rank();
    known.append(inferred == known.rank() ? 1 : size);
  }
  if (inferred < 0) return reshape(x, known);
  check(known.numel() > 0 && x.shape().numel() % known.numel() == 0, "reshape: ", x, " with ", x.numel(),
        " elements does not divide into the given sizes, of product ", known.numel());
  return reshape(x, known.with(inferred, static_cast<int>(x.shape().numel() / known.numel())));
}

namespace {

// dx += dy, along a walk over (y, x), from `first` on.
template <class Sum>
void add_along(const Walk<2>& walk, Sum* dx, std::size_t first, const real* dy) {
  walk.for_each([=](std::size_t iy, std::size_t ix) { dx[first + ix] += Sum{dy[iy]}; });
}

// y's elements are some of x's, from `first` on, along the walk over (y, x); each of x's occurs at most `times` times.
Tensor copy_along(const char* op, const Tensor& x, const Shape& shape, const Strides& strides, std::size_t first = 0,
                  std::size_t times = 1) {
  const Walk<2> walk(shape, {strides_of(shape), strides});
  Tensor y = tape().create(shape);
  real* const to = y.data();
  const real* const from = x.data();
  walk.for_each([=](std::size_t iy, std::size_t ix) { to[iy] = from[first + ix]; });
  record(op, y, {x}, [=] {
    const TermSums sums(grad_of(x), x.numel(), times);
    sums.at(0, [&](auto* dx) { add_along(walk, dx, first, grad_of(y)); });
    sums.finish();
  });
  return y;
}

}  // namespace

Tensor permute(const Tensor& x, List<int> axes) {
  check(axes.size() == static_cast<std::size_t>(x.rank()), "permute: ", axes.size(), " axes given for ", x);
  Shape shape;
  bool seen[Shape::kMaxRank] = {};
  const Strides of_x = strides_of(x.shape());
  Strides strides{};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = x.shape().axis(axes[i], "permute");
    check(!seen[axis], "permute: axis ", axis, " of ", x, " is given twice");
    seen[axis] = true;
    shape.append(x.size(axis));
    strides[i] = of_x[static_cast<std::size_t>(axis)];
  }
  return copy_along("permute", x, shape, strides);
}

Tensor transpose(const Tensor& x, int axis_a, int axis_b) {
  int axes[Shape::kMaxRank];
  std::iota(axes, axes + Shape::kMaxRank, 0);
  std::swap(axes[x.shape().axis(axis_a, "transpose")], axes[x.shape().axis(axis_b, "transpose")]);
  return permute(x, {axes, static_cast<std::size_t>(x.rank())});
}

Tensor unsqueeze(const Tensor& x, int axis) {
  const int rank = x.rank();
  const int at = axis < 0 ? axis + rank + 1 : axis;
  check(rank < Shape::kMaxRank, "unsqueeze: x ", x, " has all of its ", Shape::kMaxRank, " axes");
  check<IndexError>(at >= 0 && at <= rank, "unsqueeze: axis ", axis, " is out of range for ", x, " of rank ", rank);
  Shape shape;
  for (int i = 0; i < at; ++i) shape.append(x.size(i));
  shape.append(1);
  for (int i = at; i < rank; ++i) shape.append(x.size(i));
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, int axis) {
  axis = x.shape().axis(axis, "squeeze");
  const std::size_t n = Slices(x.shape(), axis).n;
  check(n == 1, "squeeze: x ", x, " dim ", axis, " = ", n, " is not 1");
  Shape shape;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis) shape.append(x.size(i));
  return reshape(x, shape);
}

Tensor flip(const Tensor& x, const Axes& axes) {
  const auto flipped = axes.of("flip", x);
  Strides strides = strides_of(x.shape());
  std::size_t first = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    if (!flipped[at] || x.numel() == 0) continue;
    first += (static_cast<std::size_t>(x.size(axis)) - 1) * strides[at];
    strides[at] = -strides[at];
  }
  return copy_along("flip", x, x.shape(), strides, first);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  check(x.rank() <= shape.rank(), "expand: x ", x, " has more axes than ", shape);
  for (int axis = 1; axis <= x.rank(); ++axis) {
    const int size = x.size(-axis);
    const int wanted = shape[-axis];
    check(size == wanted || size == 1, "expand: x ", x, " dim ", x.rank() - axis, " = ", size,
          " is neither 1 nor that of ", shape, " dim ", shape.rank() - axis, " = ", wanted);
  }
  const auto times = static_cast<std::size_t>(x.numel() == 0 ? 0 : shape.numel() / x.shape().numel());
  return copy_along("expand", x, shape, strides_within(shape, x.shape()), 0, times);
}

Tensor unfold(const Tensor& x, int axis, int size, int stride) {
  const std::size_t n = Slices(x.shape(), axis, "unfold").n;
  const auto at = static_cast<std::size_t>(x.shape().axis(axis));
  check<ArgumentError>(stride > 0, "unfold: stride ", stride, " is not positive");
  check<ArgumentError>(size >= 0 && static_cast<std::size_t>(size) <= n, "unfold: size ", size, " is not in 0..", n,
                       ", dim ", at, " of x ", x);
  Shape shape = x.shape().with(axis, (static_cast<int>(n) - size) / stride + 1);
  shape.append(size);
  Strides strides = strides_of(x.shape());
  strides[static_cast<std::size_t>(x.rank())] = strides[at];
  strides[at] *= static_cast<std::size_t>(stride);
  return copy_along("unfold", x, shape, strides, 0, static_cast<std::size_t>(size));
}

namespace {

// Of a matrix, or of several: what is before column row + edge, or, for the upper triangle, what is not.
struct Triangle {
  Shape shape;
  std::int64_t edge;
  bool is_upper;

  // to += from, within the triangle
  void add(real* to, const real* from) const {
    const auto n = static_cast<std::size_t>(shape[-1]);
    for (std::int64_t i = 0; i < shape.rows(); ++i) {
      const auto at = static_cast<std::size_t>(std::clamp<std::int64_t>(i % shape[-2] + edge, 0, shape[-1]));
      if (is_upper)
        kernels::axpy(to + at, 1, from + at, 1, n - at);
      else
        kernels::axpy(to, 1, from, 1, at);
      to += n;
      from += n;
    }
  }
};

// x within the triangle, and 0 elsewhere.
Tensor within(const char* op, const Tensor& x, std::int64_t edge, bool is_upper) {
  check(x.rank() >= 2, op, ": needs at least two axes, got ", x);
  const Triangle triangle{.shape = x.shape(), .edge = edge, .is_upper = is_upper};
  Tensor y = zeros(x.shape());
  triangle.add(y.data(), x.data());
  record(op, y, {x}, [=] { triangle.add(grad_of(x), grad_of(y)); });
  return y;
}

}  // namespace

Tensor tril(const Tensor& x, int diagonal) { return within("tril", x, std::int64_t{diagonal} + 1, false); }
Tensor triu(const Tensor& x, int diagonal) { return within("triu", x, diagonal, true); }

}  // namespace SEPPO_ABI
}  // namespace seppo
