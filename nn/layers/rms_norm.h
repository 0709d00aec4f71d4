// RMSNorm: divides each row by its root mean square, then applies a learned gain (Zhang and Sennrich 2019).
#pragma once

#include "../../autograd/ops.h"
#include "../parameters.h"

namespace seppo::inline SEPPO_ABI {

struct RMSNorm {
  RMSNorm(const Scope& s, int size, double epsilon = 1e-5)
      : weight(s.parameter("weight", {size}, init_ones())), eps(epsilon), name(s.region()) {}

  Tensor operator()(const Tensor& x) const {  // [..., size]
    const Region here(name);
    return here(rms_norm(x, weight, eps));
  }

  Tensor weight;
  double eps;
  RegionName name;
};

}  // namespace seppo::inline SEPPO_ABI
