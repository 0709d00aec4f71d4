// How a reduction over some axes maps the elements of a tensor to those of its result.
#pragma once

#include "../ops.h"
#include "walk.h"

namespace seppo {
inline namespace SEPPO_ABI {

// Maps the elements of x to those of the result.
struct Folding {
  Shape result;
  std::size_t count = 1;  // elements of x for each of the result
  Walk<2> walk;           // over x and the result

  Folding(const char* op, const Tensor& x, const Axes& axes, bool keepdim) : walk({}, {}) {
    const auto reduced = axes.of(op, x);
    Shape kept;  // with 1 for the reduced axes
    for (int axis = 0; axis < x.rank(); ++axis) {
      const bool is_reduced = reduced[static_cast<std::size_t>(axis)];
      if (is_reduced) count *= static_cast<std::size_t>(x.size(axis));
      kept.append(is_reduced ? 1 : x.size(axis));
      if (!is_reduced || keepdim) result.append(kept[-1]);
    }
    walk = {x.shape(), {strides_of(x.shape()), strides_within(x.shape(), kept)}};
  }
};

inline void check_not_empty(const char* op, const Tensor& x, const Folding& r) {
  check(r.count > 0, op, ": of no elements, over axes of size 0 of x ", x);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
