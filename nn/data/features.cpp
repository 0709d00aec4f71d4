// Features: rows are copied where they belong.
#include "features.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/tape.h"

#include <algorithm>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

std::size_t checked(int example, std::size_t size) {
  check<IndexError>(example >= 0 && static_cast<std::size_t>(example) < size, "pick: example ", example, " of ", size);
  return static_cast<std::size_t>(example);
}

// [count, shape...]
Shape rows_of(std::size_t count, const Shape& shape) {
  Shape all{static_cast<int>(count)};
  for (const int size : shape.sizes()) all.append(size);
  return all;
}

}  // namespace

Features::Features(const Shape& shape, std::vector<real> values)
    : shape_(shape), width_(static_cast<std::size_t>(shape.numel())), values_(std::move(values)) {
  check(width_ > 0, "features: an example of shape ", shape, " has no number");
  check(values_.size() % width_ == 0, "features: ", values_.size(), " values are no whole number of examples of shape ",
        shape);
}

void Features::add(List<real> example) {
  check(example.size() == width_, "features: an example has shape ", shape_, ", not ", example.size(), " values");
  values_.insert(values_.end(), example.begin(), example.end());
}

Tensor Features::pick(List<int> examples) const {
  Tensor picked = tape().create(rows_of(examples.size(), shape_));
  real* to = picked.data();
  for (const int example : examples) to = std::ranges::copy((*this)[checked(example, size())], to).out;
  return picked;
}

std::vector<int> pick(List<int> integers, List<int> examples) {
  std::vector<int> picked;
  picked.reserve(examples.size());
  for (const int example : examples) picked.push_back(integers[checked(example, integers.size())]);
  return picked;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
