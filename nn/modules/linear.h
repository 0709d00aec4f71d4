// Linear: y = x W^T + b.
//
//   const Linear up(parameters.root() / "up", /*in=*/2, /*out=*/3);  // "up.weight" [3, 2] and "up.bias" [3]
//   const Tensor y = up(tensor({1, 2}, {1, 2}));                     // [1, 3]
#pragma once

#include "../../autograd/core/region.h"
#include "../../autograd/ops.h"
#include "../parameters.h"

#include <cmath>
#include <optional>

namespace seppo {
inline namespace SEPPO_ABI {

struct LinearOptions {
  bool bias = true;
  Init init = {}, bias_init = {};  // if they are not given, the scope's Initialisation decides (init.h)
};

// y = x W^T + b; with an adapter, x (W + scale B A)^T + b.
struct Linear {
  // weight [out, in], as in PyTorch; bias [out].
  Linear(const Scope& s, int in, int out, const LinearOptions& options = {})
      : weight(s.parameter("weight", {out, in}, options.init ? options.init : default_init(s))),
        bias(options.bias ? s.parameter("bias", {out}, init_of_bias(s, in, options)) : Tensor()),
        name(s.region()) {}

  Tensor operator()(const Tensor& x, Activation activation = Activation::none) const {  // [..., in] -> [..., out]
    const Region here(name);
    if (adapter) return here(linear_lora(x, weight, *adapter, bias, activation));
    return here(linear(x, weight, bias, activation));
  }

  Tensor weight, bias;             // without a bias, that is undefined
  std::optional<LowRank> adapter;  // Adapters (models/lora.h) sets it
  RegionName name;

 private:
  static Init default_init(const Scope& s) {
    return s.initialisation() == Initialisation::pytorch ? init_torch_linear() : init_xavier_uniform();
  }
  static Init init_of_bias(const Scope& s, int in, const LinearOptions& options) {
    if (options.bias_init) return options.bias_init;
    return s.initialisation() == Initialisation::pytorch ? init_uniform(1 / std::sqrt(in)) : init_zeros();
  }
};

}  // namespace SEPPO_ABI
}  // namespace seppo
