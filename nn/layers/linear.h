// Linear: y = x W^T + b.
#pragma once

#include "../../autograd/ops.h"
#include "../parameters.h"

namespace seppo::inline SEPPO_ABI {

struct Linear {
  // Xavier-uniform weight [out, in], as in PyTorch's layout, and zero bias, or none.
  Linear(const Scope& s, int in, int out, const Init& init = init_xavier_uniform(), bool has_bias = true)
      : weight(s.parameter("weight", {out, in}, init)),
        bias(has_bias ? s.parameter("bias", {out}, init_zeros()) : Tensor()),
        name(s.region()) {}

  Tensor operator()(const Tensor& x, Activation activation = Activation::none) const {  // [..., in] -> [..., out]
    const Region here(name);
    return here(linear(x, weight, bias, activation));
  }

  Tensor of_gelu(const Tensor& x) const {  // (*this)(gelu(x)), in less memory
    const Region here(name);
    return here(gelu_linear(x, weight, bias));
  }

  Tensor weight, bias;
  RegionName name;
};

}  // namespace seppo::inline SEPPO_ABI
