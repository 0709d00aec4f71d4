// LayerNorm: each row to mean 0 and variance 1, then a learned gain and bias.
#pragma once

#include "../../autograd/ops.h"
#include "../parameters.h"

#include <vector>

namespace seppo::inline SEPPO_ABI {

struct LayerNorm {
  LayerNorm(const Scope& s, int size, double eps = 1e-5, bool has_bias = true)
      : weight(s.parameter("weight", {size}, init_ones())),
        bias(has_bias ? s.parameter("bias", {size}, init_zeros())
                      : s.constant({size}, std::vector<real>(static_cast<std::size_t>(size)))),
        eps(eps),
        name(s.region()) {}

  Tensor operator()(const Tensor& x) const {  // [..., size]
    const Region here(name);
    return here(layer_norm(x, weight, bias, eps));
  }

  Tensor weight, bias;
  double eps;
  RegionName name;
};

}  // namespace seppo::inline SEPPO_ABI
