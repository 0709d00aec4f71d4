// Random shapes.
#include "support/random_shapes.h"

#include <vector>

namespace test {

using seppo::Shape;

Shape random_shape(seppo::RandomStream& random, int rank) {
  std::vector<int> sizes(random.below(static_cast<std::uint32_t>(rank + 1)));
  for (int& size : sizes) size = random.below(16) == 0 ? 0 : static_cast<int>(1 + random.below(4));
  return Shape(std::span<const int>(sizes));
}

Shape random_operand(seppo::RandomStream& random, const Shape& shape) {
  std::vector<int> sizes(shape.sizes().begin(), shape.sizes().end());
  for (int& size : sizes)
    if (random.below(3) == 0) size = 1;
  sizes.erase(sizes.begin(), sizes.begin() + random.below(static_cast<std::uint32_t>(sizes.size() + 1)) / 2);
  return Shape(std::span<const int>(sizes));
}

}  // namespace test
