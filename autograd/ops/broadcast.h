// NumPy broadcasting of N operands: axes are aligned at the end, an axis of size 1 repeats.
#pragma once

#include "../core/tape.h"

#include <algorithm>
#include <array>

namespace seppo::inline SEPPO_ABI {

// The result's elements as runs along the last axis; each operand steps by its stride, 0 where it
// repeats.
template <std::size_t N>
struct Broadcast {
  Shape shape;
  std::size_t n = 1;                   // elements of a run
  std::array<std::size_t, N> steps{};  // within a run: 0 or 1
  std::array<std::size_t, 3> sizes{1, 1, 1};
  std::array<std::array<std::size_t, N>, 3> strides{};

  // Calls f(offset in the result, offsets in the operands) for each run.
  template <class F>
  void for_each_run(const F& f) const {
    std::size_t y = 0;
    std::array<std::size_t, N> at;
    for (std::size_t i = 0; i < sizes[0]; ++i)
      for (std::size_t j = 0; j < sizes[1]; ++j)
        for (std::size_t k = 0; k < sizes[2]; ++k, y += n) {
          for (std::size_t o = 0; o < N; ++o) at[o] = i * strides[0][o] + j * strides[1][o] + k * strides[2][o];
          f(y, at);
        }
  }
};

// The size of an axis counted from the end, 1 being the last; 1 where the shape has no such axis.
inline int size_from_end(const Shape& shape, int axis) { return axis <= shape.rank() ? shape[-axis] : 1; }

// Throws ShapeError, naming the op and the operands by their roles.
inline Shape broadcast_shape(const char* op, const char* role_a, const Tensor& a, const char* role_b, const Tensor& b) {
  int sizes[Shape::kMaxRank];
  const int rank = std::max(a.rank(), b.rank());
  for (int axis = 1; axis <= rank; ++axis) {
    const int in_a = size_from_end(a.shape(), axis), in_b = size_from_end(b.shape(), axis);
    check(in_a == in_b || in_a == 1 || in_b == 1, op, ": sizes differ and neither is 1: ", role_a, " ", a, " dim ",
          a.rank() - axis, " = ", in_a, ", ", role_b, " ", b, " dim ", b.rank() - axis, " = ", in_b);
    sizes[rank - axis] = in_a == 1 ? in_b : in_a;
  }
  return Shape(std::span<const int>(sizes, static_cast<std::size_t>(rank)));
}

// `operands` must fit `shape`.
template <std::size_t N>
Broadcast<N> broadcast(const Shape& shape, const std::array<Shape, N>& operands) {
  Broadcast<N> plan;
  plan.shape = shape;
  if (std::all_of(operands.begin(), operands.end(), [&](const Shape& s) { return s == shape; })) {
    plan.n = static_cast<std::size_t>(shape.numel());
    plan.steps.fill(1);
    return plan;
  }
  std::array<std::size_t, N> stride;
  stride.fill(1);
  for (int axis = 1; axis <= shape.rank(); ++axis) {
    const int size = shape[-axis];
    for (std::size_t o = 0; o < N; ++o) {
      const int own = size_from_end(operands[o], axis);
      const std::size_t step = own == size ? stride[o] : 0;
      if (axis == 1)
        plan.steps[o] = step;
      else
        plan.strides[static_cast<std::size_t>(Shape::kMaxRank - axis)][o] = step;
      stride[o] *= static_cast<std::size_t>(own);
    }
    (axis == 1 ? plan.n : plan.sizes[static_cast<std::size_t>(Shape::kMaxRank - axis)]) =
        static_cast<std::size_t>(size);
  }
  return plan;
}

}  // namespace seppo::inline SEPPO_ABI
