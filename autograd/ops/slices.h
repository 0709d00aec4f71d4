// A tensor seen along one of its axes.
#pragma once

#include "../core/tensor.h"

#include <cstddef>

namespace seppo {
inline namespace SEPPO_ABI {

// The slices of `n` elements along an axis, each `inner` elements apart.
struct Slices {
  std::size_t outer = 1;  // of the axes before
  std::size_t n = 1;
  std::size_t inner = 1;  // of the axes behind

  Slices(const Shape& shape, int axis, const char* op = "shape") {
    const int at = shape.axis(axis, op);
    if (shape.rank() == 0) return;
    n = static_cast<std::size_t>(shape[at]);
    for (int i = 0; i < at; ++i) outer *= static_cast<std::size_t>(shape[i]);
    for (int i = at + 1; i < shape.rank(); ++i) inner *= static_cast<std::size_t>(shape[i]);
  }

  std::size_t block() const { return n * inner; }  // elements from one index of the axes before to the next

  // Calls f(first element) for each slice, in order.
  template <class F>
  void for_each(const F& f) const {
    for (std::size_t i = 0; i < outer; ++i)
      for (std::size_t j = 0; j < inner; ++j) f(i * n * inner + j);
  }
};

}  // namespace SEPPO_ABI
}  // namespace seppo
