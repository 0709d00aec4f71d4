// Reshape, permutation of axes, flips and triangles.
#include "../ops.h"

#include <algorithm>
#include <array>

namespace seppo::inline SEPPO_ABI {

Tensor reshape(const Tensor& x, const Shape& shape) {
  check(shape.numel() == x.shape().numel(), "reshape: ", x, " has ", x.numel(), " elements, ", shape, " has ",
        shape.numel());
  return tape().view(x, shape);
}

Tensor reshape(const Tensor& x, std::initializer_list<int> sizes) {
  check(sizes.size() <= Shape::kMaxRank, "reshape: ", sizes.size(), " axes; a tensor has at most ", Shape::kMaxRank);
  int known[Shape::kMaxRank];
  std::copy(sizes.begin(), sizes.end(), known);
  int* const inferred = std::find(known, known + sizes.size(), -1);
  if (inferred != known + sizes.size()) {
    *inferred = 1;
    const std::int64_t rest = Shape(std::span<const int>(known, sizes.size())).numel();
    check(rest > 0 && x.shape().numel() % rest == 0, "reshape: ", x, " with ", x.numel(),
          " elements does not divide into the given sizes, of product ", rest);
    *inferred = static_cast<int>(x.shape().numel() / rest);
  }
  return reshape(x, Shape(std::span<const int>(known, sizes.size())));
}

namespace {

// For each axis of the permuted tensor, its size and how far a step goes in the original; axes are
// padded in front to four.
struct Permutation {
  std::array<std::size_t, Shape::kMaxRank> sizes{1, 1, 1, 1}, strides{};

  // Calls f(element of the permuted tensor, element of the original).
  template <class F>
  void for_each(const F& f) const {
    std::size_t y = 0;
    for (std::size_t i = 0; i < sizes[0]; ++i)
      for (std::size_t j = 0; j < sizes[1]; ++j)
        for (std::size_t k = 0; k < sizes[2]; ++k) {
          const std::size_t x = i * strides[0] + j * strides[1] + k * strides[2];
          for (std::size_t l = 0; l < sizes[3]; ++l) f(y++, x + l * strides[3]);
        }
  }
};

}  // namespace

Tensor permute(const Tensor& x, std::span<const int> axes) {
  check(axes.size() == static_cast<std::size_t>(x.rank()), "permute: ", axes.size(), " axes given for ", x);
  int sizes[Shape::kMaxRank];
  bool seen[Shape::kMaxRank] = {};
  Permutation plan;
  const std::size_t pad = Shape::kMaxRank - axes.size();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = x.shape().axis(axes[i]);
    check(!seen[axis], "permute: axis ", axis, " of ", x, " is given twice");
    seen[axis] = true;
    sizes[i] = x.size(axis);
    plan.sizes[pad + i] = static_cast<std::size_t>(sizes[i]);
    plan.strides[pad + i] = 1;
    for (int j = axis + 1; j < x.rank(); ++j) plan.strides[pad + i] *= static_cast<std::size_t>(x.size(j));
  }
  Tensor y = tape().create(Shape(std::span<const int>(sizes, axes.size())));
  plan.for_each([to = y.data(), from = x.data()](std::size_t iy, std::size_t ix) { to[iy] = from[ix]; });
  record("permute", y, {x},
         [=] { plan.for_each([dx = grad_of(x), dy = grad_of(y)](std::size_t iy, std::size_t ix) { dx[ix] += dy[iy]; }); });
  return y;
}

Tensor permute(const Tensor& x, std::initializer_list<int> axes) {
  return permute(x, std::span<const int>(axes.begin(), axes.size()));
}

Tensor transpose(const Tensor& x, int axis_a, int axis_b) {
  int axes[Shape::kMaxRank] = {0, 1, 2, 3};
  std::swap(axes[x.shape().axis(axis_a)], axes[x.shape().axis(axis_b)]);
  return permute(x, std::span<const int>(axes, static_cast<std::size_t>(x.rank())));
}

Tensor unsqueeze(const Tensor& x, int axis) {
  const int rank = x.rank(), at = axis < 0 ? axis + rank + 1 : axis;
  check(rank < Shape::kMaxRank, "unsqueeze: x ", x, " has all of its ", Shape::kMaxRank, " axes");
  check<IndexError>(at >= 0 && at <= rank, "unsqueeze: axis ", axis, " is out of range for ", x, " of rank ", rank);
  int sizes[Shape::kMaxRank];
  for (int i = 0; i <= rank; ++i) sizes[i] = i < at ? x.size(i) : i == at ? 1 : x.size(i - 1);
  return reshape(x, Shape(std::span<const int>(sizes, static_cast<std::size_t>(rank + 1))));
}

Tensor squeeze(const Tensor& x, int axis) {
  axis = x.shape().axis(axis);
  check(x.size(axis) == 1, "squeeze: x ", x, " dim ", axis, " = ", x.size(axis), " is not 1");
  int sizes[Shape::kMaxRank], rank = 0;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis) sizes[rank++] = x.size(i);
  return reshape(x, Shape(std::span<const int>(sizes, static_cast<std::size_t>(rank))));
}

Tensor flip(const Tensor& x, const Axes& axes) {
  const auto flipped = axes.of("flip", x);
  Tensor y = tape().create(x.shape());
  // Calls f(element of y, element of x) for each.
  const auto each = [=](const auto& f) {
    std::size_t i = 0;
    int at[Shape::kMaxRank] = {};
    for (; i < x.numel(); ++i) {
      std::size_t from = 0;
      for (int axis = 0; axis < x.rank(); ++axis) {
        const int size = x.size(axis), own = flipped[static_cast<std::size_t>(axis)] ? size - 1 - at[axis] : at[axis];
        from = from * static_cast<std::size_t>(size) + static_cast<std::size_t>(own);
      }
      f(i, from);
      for (int axis = x.rank() - 1; axis >= 0 && ++at[axis] == x.size(axis); --axis) at[axis] = 0;
    }
  };
  each([&](std::size_t iy, std::size_t ix) { y.data()[iy] = x.data()[ix]; });
  record("flip", y, {x}, [=] {
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    each([&](std::size_t iy, std::size_t ix) { dx[ix] += dy[iy]; });
  });
  return y;
}

namespace {

// x where keeps(row, column) of the last two axes, else 0.
template <class F>
Tensor triangle(const char* op, const Tensor& x, const F& keeps) {
  check(x.rank() >= 2, op, ": needs at least two axes, got ", x);
  Tensor y = tape().create(x.shape());
  const auto each = [=](const auto& f) {
    const auto rows = static_cast<std::size_t>(x.size(-2)), cols = x.cols();
    for (std::size_t i = 0; i < x.rows(); ++i)
      for (std::size_t j = 0; j < cols; ++j)
        f(i * cols + j, keeps(static_cast<std::int64_t>(i % rows), static_cast<std::int64_t>(j)));
  };
  each([&](std::size_t i, bool kept) { y.data()[i] = kept ? x.data()[i] : 0; });
  record(op, y, {x}, [=] {
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    each([&](std::size_t i, bool kept) { dx[i] += kept ? dy[i] : 0; });
  });
  return y;
}

}  // namespace

Tensor tril(const Tensor& x, int diagonal) {
  return triangle("tril", x, [=](std::int64_t row, std::int64_t col) { return col - row <= diagonal; });
}
Tensor triu(const Tensor& x, int diagonal) {
  return triangle("triu", x, [=](std::int64_t row, std::int64_t col) { return col - row >= diagonal; });
}

}  // namespace seppo::inline SEPPO_ABI
