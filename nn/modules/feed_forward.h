// FeedForward: the two linear maps of a Transformer layer, with an activation between them or a gate.
//
//   const FeedForward ffn(parameters.root() / "ffn", /*d_model=*/2, /*d_ff=*/8, {.activation = Activation::swiglu});
//   const Tensor y = ffn(x);  // both are [rows, 2]
#pragma once

#include "../../autograd/core/region.h"
#include "linear.h"

#include <optional>

namespace seppo {
inline namespace SEPPO_ABI {

struct FeedForwardOptions {
  Activation activation = Activation::relu;
  bool bias = true;
};

// Two linear maps with an activation between them, applied to each position (Vaswani et al. 2017, 3.3). The gated
// forms are down(silu(gate(x)) up(x)) for swiglu, with gelu for geglu (Shazeer 2020), with gelu_tanh for geglu_tanh.
struct FeedForward {
  FeedForward(const Scope& s, int d_model, int d_ff, const FeedForwardOptions& options = {})
      : gate(options.activation >= Activation::swiglu
                 ? std::optional<Linear>(std::in_place, s / "gate", d_model, d_ff, LinearOptions{.bias = options.bias})
                 : std::nullopt),
        up(s / "up", d_model, d_ff, {.bias = options.bias}),
        down(s / "down", d_ff, d_model, {.bias = options.bias}),
        activation(options.activation),
        name(s.region()) {}

  Tensor operator()(const Tensor& x) const {  // [rows, d_model]
    const Region here(name);
    if (gate) return here(down(gated((*gate)(x), up(x), activation)));
    return here(down(up(x, activation)));
  }

  std::optional<Linear> gate;  // only in the gated forms
  Linear up, down;
  Activation activation;
  RegionName name;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
