// FeedForward: two linear maps with an activation between them, applied to each position (Vaswani et al. 2017, 3.3).
#pragma once

#include "linear.h"

namespace seppo::inline SEPPO_ABI {

struct FeedForwardOptions {
  Activation activation = Activation::relu;
  bool bias = true;
};

struct FeedForward {
  FeedForward(const Scope& s, int d_model, int d_ff, const FeedForwardOptions& options = {})
      : up(s / "up", d_model, d_ff, {.bias = options.bias}),
        down(s / "down", d_ff, d_model, {.bias = options.bias}),
        activation(options.activation),
        name(s.region()) {}

  Tensor operator()(const Tensor& x) const {  // [rows, d_model]
    const Region here(name);
    return here(activation == Activation::gelu ? down.of_gelu(up(x)) : down(up(x, activation)));
  }

  Linear up, down;
  Activation activation;
  RegionName name;
};

}  // namespace seppo::inline SEPPO_ABI
