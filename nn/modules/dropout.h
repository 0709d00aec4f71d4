// Dropout: zeros at random while training.
//
//   const Dropout drop(0.5);
//   const Tensor y = drop(x);  // in training, each element is 0 or doubled
#pragma once

#include "../../autograd/ops.h"

namespace seppo {
inline namespace SEPPO_ABI {

// Active in Mode::train, the identity in Mode::eval.
struct Dropout {
  explicit Dropout(double probability) : p(probability) {
    check<ArgumentError>(p >= 0 && p <= 1, "dropout: p = ", p, " is not in [0, 1]");
  }

  Tensor operator()(const Tensor& x) const { return dropout(x, p); }

  double p;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
