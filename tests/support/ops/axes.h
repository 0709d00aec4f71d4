// Some axes of a tensor, for ops that take several.
#pragma once

#include "support/ops/draw.h"

#include <seppo/autograd/ops.h>

#include <cstddef>
#include <vector>

namespace test {

// None given means all.
struct Chosen {
  std::vector<int> given;
  std::vector<int> all = {};  // those that are meant, from 0
  bool fits = true;           // all within range, none twice
  std::size_t count = 1;      // elements over them

  seppo::Axes axes() const;
};

// Each axis or not, every second one counted from the end; now and then one that is out of range, or there already.
Chosen chosen(Draw& d, const Shape& shape);

}  // namespace test
