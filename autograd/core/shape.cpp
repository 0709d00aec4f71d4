// Checks of sizes and axes, and a shape's text.
#include "shape.h"

#include "check.h"

namespace seppo {
inline namespace SEPPO_ABI {

Shape::Shape(std::span<const int> sizes) {
  for (const int size : sizes) append(size);
}

void Shape::bad_size(std::int64_t size) { fail<ShapeError>("shape: size ", size, " is not in 0..2^31 - 1"); }

void Shape::append(int size) {
  check(rank_ < kMaxRank, "shape: ", rank() + 1, " axes; a tensor has at most ", kMaxRank);
  check(size >= 0, "shape: axis ", rank(), " has negative size ", size);
  check(size == 0 || numel_ <= kMaxElements / size, "shape: more than 2^48 elements at axis ", rank(), " of size ",
        size);
  sizes_[rank_++] = size;
  numel_ *= size;
}

Shape Shape::with(int axis, int size) const {
  Shape shape;
  for (int i = 0; i < rank_; ++i) shape.append(i == this->axis(axis) ? size : sizes_[i]);
  return shape;
}

std::string Shape::str() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ',';
    text += std::to_string(sizes_[axis]);
  }
  return text += ']';
}

void Shape::bad_axis(int axis, const char* op) const {
  fail<IndexError>(op, ": axis ", axis, " is out of range for ", *this, " of rank ", rank());
}

}  // namespace SEPPO_ABI
}  // namespace seppo
