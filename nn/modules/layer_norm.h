// LayerNorm, and RMSNorm, which is one of its kinds.
//
//   const LayerNorm norm(parameters.root() / "norm", /*size=*/2);
//   const Tensor y = norm(tensor({1, 2}, {3, 5}));  // -1 and 1
#pragma once

#include "../../autograd/core/region.h"
#include "../../autograd/ops.h"
#include "../parameters.h"

namespace seppo {
inline namespace SEPPO_ABI {

enum class NormKind { layer, rms };

struct LayerNormOptions {
  double eps = 1e-5;  // added to the variance, or to the mean square
  bool bias = true;   // for the kind `layer`
  NormKind kind = NormKind::layer;
  bool is_offset = false;  // the gain is 1 + weight, whose weight starts at 0 (Gemma, 2024)
};

// Normalises each row to mean 0 and variance 1, then applies a learned gain and bias (Ba, Kiros and Hinton 2016); or,
// as RMSNorm does, divides it by its root mean square and applies a gain (Zhang and Sennrich 2019).
struct LayerNorm {
  LayerNorm(const Scope& s, int size, const LayerNormOptions& options = {})
      : weight(s.parameter("weight", {size}, options.is_offset ? init_zeros() : init_ones())),
        bias(options.bias && options.kind == NormKind::layer ? s.parameter("bias", {size}, init_zeros()) : Tensor()),
        eps(options.eps),
        kind(options.kind),
        is_offset(options.is_offset),
        name(s.region()) {}

  Tensor operator()(const Tensor& x) const {  // [..., size]
    const Region here(name);
    const Tensor gain = is_offset ? weight + real{1} : weight;
    return here(kind == NormKind::rms ? rms_norm(x, gain, eps) : layer_norm(x, gain, bias, eps));
  }

  Tensor weight, bias;  // [size]; the bias may be empty
  double eps;
  NormKind kind;
  bool is_offset;
  RegionName name;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
