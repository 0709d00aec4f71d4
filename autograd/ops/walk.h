// Walk: visits the elements of several row-major tensors side by side, each with strides of its own. Broadcasting,
// reductions, permutations and indexing are all walks.
#pragma once

#include "../core/tensor.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <tuple>

namespace seppo {
inline namespace SEPPO_ABI {

using Strides = std::array<std::size_t, Shape::kMaxRank>;  // by axis; a negative stride wraps around

// The size of an axis counted from the end, 1 being the last; 1 where the shape has no such axis.
inline int size_from_end(const Shape& shape, int axis) { return axis <= shape.rank() ? shape[-axis] : 1; }

// How x moves along the axes of `shape`, to which it is broadcast: 0 where it repeats.
inline Strides strides_within(const Shape& shape, const Shape& x) {
  Strides strides{};
  std::size_t stride = 1;
  for (int axis = 1; axis <= x.rank(); ++axis) {
    if (x[-axis] == shape[-axis]) strides[static_cast<std::size_t>(shape.rank() - axis)] = stride;
    stride *= static_cast<std::size_t>(x[-axis]);
  }
  return strides;
}
inline Strides strides_of(const Shape& shape) { return strides_within(shape, shape); }

// An operand and its role in messages.
struct Named {
  const char* role;
  const Tensor& tensor;
};

// The shape that the operands broadcast to, as in NumPy: axes are aligned at the end, an axis of size 1 repeats. The
// last `skipped` axes do not take part. Throws ShapeError, naming the op and two operands that do not fit.
inline Shape broadcast_shape(const char* op, std::initializer_list<Named> operands, int skipped = 0) {
  int rank = 0;
  for (const Named& x : operands) rank = std::max(rank, x.tensor.rank());
  Shape shape;
  for (int axis = rank; axis > skipped; --axis) {
    const auto size = [axis](const Named& x) { return size_from_end(x.tensor.shape(), axis); };
    const Named* widest = operands.begin();
    for (const Named& x : operands) {
      if (size(*widest) == 1) widest = &x;
      check(size(x) == 1 || size(x) == size(*widest), op, skipped > 0 ? ": batch sizes" : ": sizes",
            " differ and neither is 1: ", widest->role, " ", widest->tensor, " dim ", widest->tensor.rank() - axis,
            " = ", size(*widest), ", ", x.role, " ", x.tensor, " dim ", x.tensor.rank() - axis, " = ", size(x));
    }
    shape.append(size(*widest));
  }
  return shape;
}

// Axes along which all operands move on as one are one axis here; the last is a run of n() elements.
template <std::size_t N>
class Walk {
 public:
  using At = std::array<std::size_t, N>;  // an element of each operand

  Walk(const Shape& shape, const std::array<Strides, N>& strides) {
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const auto size = static_cast<std::size_t>(shape[axis]);
      if (size == 1) continue;
      At stride;
      for (std::size_t o = 0; o < N; ++o) stride[o] = strides[o][static_cast<std::size_t>(axis)];
      if (continues_last_axis(stride)) {
        sizes_[rank_ - 1] *= size;
      } else {
        sizes_[rank_] = size;
        strides_[rank_] = stride;
        ++rank_;
      }
    }
  }

  std::size_t n() const { return sizes_[0]; }
  std::size_t stride(std::size_t operand) const { return strides_[0][operand]; }  // within a run

  // Calls f(first element of each operand) for each run.
  template <class F>
  void for_each_run(const F& f) const {
    std::size_t runs = 1;
    for (std::size_t axis = 1; axis < rank_; ++axis) runs *= sizes_[axis];
    At at{};
    Index index{};
    for (; runs > 0; --runs) {
      f(at);
      advance(at, index);
    }
  }

  // Calls f(element of each operand), an argument for each, in row-major order.
  template <class F>
  void for_each(const F& f) const {
    for_each_run([&](At at) {
      for (std::size_t i = 0; i < n(); ++i) {
        std::apply(f, at);
        move(at, 1, 0);
      }
    });
  }

 private:
  using Index = std::array<std::size_t, Shape::kMaxRank>;  // by axis, from the last to the first

  // Does each operand move along an axis of this stride as from the end of the axis before?
  bool continues_last_axis(const At& stride) const {
    if (rank_ == 0) return false;
    const std::size_t last = rank_ - 1;
    for (std::size_t o = 0; o < N; ++o)
      if (stride[o] != strides_[last][o] * sizes_[last]) return false;
    return true;
  }

  // To the first element of the next run.
  void advance(At& at, Index& index) const {
    for (std::size_t axis = 1; axis < rank_; ++axis) {
      ++index[axis];
      if (index[axis] < sizes_[axis]) {
        move(at, 1, axis);
        return;
      }
      index[axis] = 0;  // back to its begin, and on along the next axis
      move(at, 1 - sizes_[axis], axis);
    }
  }

  // Moves by so many elements along an axis; a negative number wraps around.
  void move(At& at, std::size_t by, std::size_t axis) const {
    for (std::size_t o = 0; o < N; ++o) at[o] += by * strides_[axis][o];
  }

  // From the last axis to the first.
  std::size_t rank_ = 0;
  std::array<std::size_t, Shape::kMaxRank> sizes_{1};
  std::array<At, Shape::kMaxRank> strides_{};
};

// Calls f(i, i or 0, i or 0) for a run of n elements, along which an operand moves by its stride, 0 or 1. These are
// loops that the compiler can vectorise.
template <class F>
void along(std::size_t n, std::size_t stride_a, std::size_t stride_b, const F& f) {
  if (stride_a && stride_b)
    for (std::size_t i = 0; i < n; ++i) f(i, i, i);
  else if (stride_a)
    for (std::size_t i = 0; i < n; ++i) f(i, i, std::size_t{0});
  else
    for (std::size_t i = 0; i < n; ++i) f(i, std::size_t{0}, i * stride_b);
}

// Over the elements of y, and those of operands that are broadcast to it.
template <class... Shapes>
Walk<1 + sizeof...(Shapes)> broadcast(const Shape& y, const Shapes&... operands) {
  return {y, {strides_of(y), strides_within(y, operands)...}};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
