// Linear: y = x W^T + b.
//
//   const Linear up(parameters.root() / "up", /*in=*/2, /*out=*/3);  // "up.weight" [3, 2] and "up.bias" [3]
//   const Tensor y = up(tensor({1, 2}, {1, 2}));                     // [1, 3]
#pragma once

#include "../../autograd/core/region.h"
#include "../../autograd/ops.h"
#include "../parameters.h"

#include <optional>

namespace seppo {
inline namespace SEPPO_ABI {

struct LinearOptions {
  bool bias = true;                   // starts at zero
  Init init = init_xavier_uniform();  // of the weight (PyTorch draws U(-c, c) with c = 1 / sqrt(in))
};

// y = x W^T + b; with an adapter, x (W + scale B A)^T + b.
struct Linear {
  // weight [out, in], as in PyTorch; bias [out].
  Linear(const Scope& s, int in, int out, const LinearOptions& options = {})
      : weight(s.parameter("weight", {out, in}, options.init)),
        bias(options.bias ? s.parameter("bias", {out}, init_zeros()) : Tensor()),
        name(s.region()) {}

  Tensor operator()(const Tensor& x, Activation activation = Activation::none) const {  // [..., in] -> [..., out]
    const Region here(name);
    if (adapter) return here(linear_lora(x, weight, *adapter, bias, activation));
    return here(linear(x, weight, bias, activation));
  }

  Tensor weight, bias;             // without a bias, that is undefined
  std::optional<LowRank> adapter;  // Adapters (models/lora.h) sets it
  RegionName name;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
