// FeedForward: two linear maps with an activation between, ReLU in the paper, on each position alone (Vaswani et al.
// 2017, 3.3).
#pragma once

#include "linear.h"

namespace seppo::inline SEPPO_ABI {

struct FeedForward {
  FeedForward(const Scope& s, int d_model, int d_ff, Activation activation = Activation::relu, bool has_bias = true)
      : up(s / "up", d_model, d_ff, init_xavier_uniform(), has_bias),
        down(s / "down", d_ff, d_model, init_xavier_uniform(), has_bias),
        activation(activation),
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
