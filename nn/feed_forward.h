// FeedForward: two linear maps with a ReLU between, on each position alone (Vaswani et al. 2017, 3.3).
#pragma once

#include <seppo/nn/linear.h>

namespace seppo::inline SEPPO_ABI {

struct FeedForward {
  FeedForward(const Scope& s, int d_model, int d_ff) : up(s / "up", d_model, d_ff), down(s / "down", d_ff, d_model) {}

  Tensor operator()(const Tensor& x) const { return down(up(x, Activation::relu)); }  // [rows, d_model]

  Linear up, down;
};

}  // namespace seppo::inline SEPPO_ABI
