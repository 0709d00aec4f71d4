// LayerNorm: each row to mean 0 and variance 1, then a learned gain and bias.
#pragma once

#include <seppo/autograd/ops.h>
#include <seppo/nn/parameters.h>

#include <vector>

namespace seppo::inline SEPPO_ABI {

struct LayerNorm {
  LayerNorm(const Scope& s, int size, double epsilon = 1e-5, bool has_bias = true)
      : weight(s.parameter("weight", {size}, init_ones())),
        bias(has_bias ? s.parameter("bias", {size}, init_zeros())
                      : s.constant({size}, std::vector<real>(static_cast<std::size_t>(size)))),
        epsilon(epsilon) {}

  Tensor operator()(const Tensor& x) const { return layer_norm(x, weight, bias, epsilon); }  // [..., size]

  Tensor weight, bias;
  double epsilon;
};

}  // namespace seppo::inline SEPPO_ABI
