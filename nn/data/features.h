// Features: a row of numbers for each example, and batches of them.
//
//   Features points({2});           // two numbers an example; Features images({28, 28}) has matrices
//   points.add({0.5, -1});          // or Features({2}, values), from a vector of all rows
//   const Tensor x = points.pick({0, 0});  // [2, 2]
#pragma once

#include "../../autograd/core/list.h"
#include "../../autograd/core/shape.h"
#include "../../autograd/core/tensor.h"

#include <cstddef>
#include <span>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class Features {
 public:
  // Of examples of this shape; {} is a single number. Throws ShapeError if an example would have no number, or if the
  // values, row-major, are not those of whole examples.
  explicit Features(const Shape& shape, std::vector<real> values = {});

  // Appends an example. Throws ShapeError for another number of values.
  void add(List<real> example);

  const Shape& shape() const { return shape_; }  // of an example
  std::span<const real> values() const { return values_; }
  std::size_t size() const { return values_.size() / width_; }  // examples
  std::span<const real> operator[](std::size_t example) const {
    return std::span(values_).subspan(example * width_, width_);
  }

  // These examples in this order, [examples, shape...], on the current tape. Throws IndexError for one out of range.
  Tensor pick(List<int> examples) const;

 private:
  Shape shape_;
  std::size_t width_;  // numbers of an example
  std::vector<real> values_;
};

// The integers of these examples, such as their classes, in this order. Throws IndexError for one out of range.
std::vector<int> pick(List<int> integers, List<int> examples);

}  // namespace SEPPO_ABI
}  // namespace seppo
