// A tensor seen along one of its axes.
#pragma once

#include "../core/tensor.h"

#include <cstddef>

namespace seppo {
inline namespace SEPPO_ABI {

// The slices of `n` elements along an axis, each `inner` elements apart.
struct Slices {
  std::size_t outer = 1, n = 1, inner = 1;

  Slices(const Shape& shape, int axis, const char* op = "shape") {
    axis = shape.axis(axis, op);
    for (int i = 0; i < shape.rank(); ++i)
      (i < axis ? outer : i == axis ? n : inner) *= static_cast<std::size_t>(shape[i]);
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
