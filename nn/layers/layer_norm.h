// LayerNorm: normalises each row to mean 0 and variance 1, then applies a learned gain and bias (Ba, Kiros and Hinton
// 2016).
#pragma once

#include "../../autograd/ops.h"
#include "../parameters.h"

namespace seppo::inline SEPPO_ABI {

struct LayerNormOptions {
  double eps = 1e-5;  // added to the variance
  bool bias = true;
};

struct LayerNorm {
  LayerNorm(const Scope& s, int size, const LayerNormOptions& options = {})
      : weight(s.parameter("weight", {size}, init_ones())),
        bias(options.bias ? s.parameter("bias", {size}, init_zeros()) : Tensor()),
        eps(options.eps),
        name(s.region()) {}

  Tensor operator()(const Tensor& x) const {  // [..., size]
    const Region here(name);
    return here(layer_norm(x, weight, bias, eps));
  }

  Tensor weight, bias;  // [size]; the bias may be empty
  double eps;
  RegionName name;
};

}  // namespace seppo::inline SEPPO_ABI
