// BatchNorm: statistics over a batch in training, running ones in evaluation.
//
//   const BatchNorm norm(parameters.root() / "norm", /*size=*/1);
//   const Tensor y = norm(tensor({2, 1}, {3, 5}));  // -1 and 1, and the running mean moves towards 4
#pragma once

#include "../../autograd/core/region.h"
#include "../../autograd/ops.h"
#include "../parameters.h"

namespace seppo {
inline namespace SEPPO_ABI {

// Normalises each column to mean 0 and variance 1 over the batch, then applies a learned gain and bias (Ioffe and
// Szegedy 2015). Eval mode uses the running mean and variance, buffers that are saved with the parameters.
struct BatchNorm {
  BatchNorm(const Scope& s, int size, const BatchNormOptions& o = {})
      : weight(s.parameter("weight", {size}, init_ones())),
        bias(s.parameter("bias", {size}, init_zeros())),
        running_mean(s.buffer("running_mean", {size}, init_zeros())),
        running_var(s.buffer("running_var", {size}, init_ones())),
        options(o),
        name(s.region()) {}

  Tensor operator()(const Tensor& x) const {  // [..., size]
    const Region here(name);
    return here(batch_norm(x, weight, bias, running_mean, running_var, options));
  }

  Tensor weight, bias, running_mean, running_var;
  BatchNormOptions options;
  RegionName name;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
