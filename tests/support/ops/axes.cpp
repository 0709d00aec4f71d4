// How axes are drawn.
#include "support/ops/axes.h"

#include "support/ops/rows.h"

#include <algorithm>
#include <numeric>

namespace test {

seppo::Axes Chosen::axes() const {
  switch (given.size()) {
    case 0:
      return {};
    case 1:
      return given[0];
    case 2:
      return {given[0], given[1]};
    case 3:
      return {given[0], given[1], given[2]};
    case 4:
      return {given[0], given[1], given[2], given[3]};
    default:
      return {given.at(0), given.at(1), given.at(2), given.at(3), given.at(4)};
  }
}

Chosen chosen(Draw& d, const Shape& shape) {
  Chosen c;
  for (int axis = 0; axis < std::min(shape.rank(), 4); ++axis)
    if (d.flag()) c.given.push_back(axis % 2 ? axis - shape.rank() : axis);
  if (d.strays()) c.given.push_back(d.axis(shape.rank()));
  if (c.given.empty()) {
    c.all.resize(static_cast<std::size_t>(shape.rank()));
    std::iota(c.all.begin(), c.all.end(), 0);
  }
  for (const int axis : c.given) {
    c.fits = c.fits && has_axis(shape, axis) && std::ranges::find(c.all, from_start(shape, axis)) == c.all.end();
    c.all.push_back(from_start(shape, axis));
  }
  if (c.fits)
    for (const int axis : c.all) c.count *= static_cast<std::size_t>(shape[axis]);
  return c;
}

}  // namespace test
