// Shape: the sizes of a tensor.
//
//   const Shape shape{2, 3};
//   shape.rank(), shape.numel(), shape[-1]  // 2, 6, 3
#pragma once

#include "real.h"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

// At most six sizes, stored inline (no heap). Sizes may be zero. Negative sizes, more than six of them, or more than
// 2^48 elements throw ShapeError. Row-major: the last axis is contiguous.
class Shape {
 public:
  static constexpr int kMaxRank = 6;
  static constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;

  // A number of any integer type, such as a vector's size(). Throws ShapeError if it is not in the range of int.
  class Size {
   public:
    template <std::integral I>
    Size(I size) : value_(static_cast<int>(size)) {
      if (!std::in_range<int>(size)) [[unlikely]]
        bad_size(static_cast<std::int64_t>(size));
    }
    operator int() const { return value_; }

   private:
    int value_;
  };

  Shape() = default;  // rank 0: a scalar, one element
  Shape(std::initializer_list<Size> sizes) {
    for (const int size : sizes) append(size);
  }
  explicit Shape(std::span<const int> sizes);

  int rank() const { return static_cast<int>(rank_); }
  std::int64_t numel() const { return numel_; }  // number of elements; 1 for a scalar

  // Adds an axis at the end.
  void append(int size);
  // The same sizes except along one axis.
  Shape with(int axis, int size) const;

  // The size of an axis; negative axes count from the end. Throws IndexError out of range.
  int operator[](int axis) const {
    const int normal = axis < 0 ? axis + rank() : axis;
    if (normal < 0 || normal >= rank()) [[unlikely]]
      bad_axis(axis);
    return sizes_[normal];
  }

  // Normalises an axis to 0..rank-1. As in PyTorch, ops along an axis take a scalar's axes 0 and -1 for one of size 1.
  // Throws IndexError out of range, in the name of the op.
  int axis(int axis, const char* op = "shape") const {
    const int most = std::max(rank(), 1);
    if (axis < -most || axis >= most) [[unlikely]]
      bad_axis(axis, op);
    return axis < 0 ? axis + most : axis;
  }

  // A tensor seen as rows of its last axis: cols() = last size (1 for a scalar), rows() = the rest.
  int cols() const { return rank_ == 0 ? 1 : sizes_[rank_ - 1]; }
  std::int64_t rows() const {
    std::int64_t rows = 1;
    for (int axis = 0; axis < rank_ - 1; ++axis) rows *= sizes_[axis];
    return rows;
  }

  std::span<const int> sizes() const { return {sizes_, static_cast<std::size_t>(rank_)}; }
  std::string str() const;  // "[2,3]"

  friend void append(std::string& text, const Shape& shape) { text += shape.str(); }
  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::equal(a.sizes_, a.sizes_ + kMaxRank, b.sizes_);
  }

 private:
  [[noreturn]] void bad_axis(int axis, const char* op = "shape") const;
  [[noreturn]] static void bad_size(std::int64_t size);

  int sizes_[kMaxRank] = {};
  std::int64_t numel_ : 56 = 1, rank_ : 8 = 0;  // in one word: a Node is two cache lines
};

}  // namespace SEPPO_ABI
}  // namespace seppo
