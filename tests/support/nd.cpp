// The walk over all indices of a shape.
#include "support/nd.h"

namespace test {

void each_index(const std::vector<int>& shape, const std::function<void(const std::vector<int>&)>& f) {
  if (Nd<double>::count(shape) == 0) return;
  std::vector<int> index(shape.size(), 0);
  for (;;) {
    f(index);
    std::size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

}  // namespace test
