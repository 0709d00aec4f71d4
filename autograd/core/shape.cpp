// The checks of a shape, and its text.
#include "shape.h"

namespace seppo::inline SEPPO_ABI {

Shape::Shape(std::span<const int> sizes) : rank_(static_cast<int>(sizes.size())) {
  check(sizes.size() <= kMaxRank, "shape: ", sizes.size(), " axes; a tensor has at most ", kMaxRank);
  for (int axis = 0; axis < rank_; ++axis) {
    const int size = sizes[static_cast<std::size_t>(axis)];
    check(size >= 0, "shape: axis ", axis, " has negative size ", size);
    sizes_[axis] = size;
    check(size == 0 || numel_ <= kMaxElements / size, "shape: more than 2^48 elements at axis ", axis, " of size ",
          size);
    numel_ *= size;
  }
}

std::string Shape::str() const {
  std::string text = "[";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ',';
    text += std::to_string(sizes_[axis]);
  }
  return text += ']';
}

void Shape::bad_axis(int axis) const {
  fail<IndexError>("shape: axis ", axis, " is out of range for ", *this, " of rank ", rank_);
}

}  // namespace seppo::inline SEPPO_ABI
