// Embedding: a table of vectors looked up by token id.
#pragma once

#include "../../autograd/ops.h"
#include "../parameters.h"

namespace seppo::inline SEPPO_ABI {

struct Embedding {
  // N(0, deviation^2): 1 as in PyTorch, or d_model^-0.5 when outputs are scaled by sqrt(d_model).
  Embedding(const Scope& s, int vocabulary, int d_model, double deviation = 1)
      : weight(s.parameter("weight", {vocabulary, d_model}, init_normal(deviation))), name(s.region()) {}

  Tensor operator()(std::span<const int> ids, const EmbeddingOptions& options = {}) const {  // -> [ids, d_model]
    const Region here(name);
    return here(embedding(weight, ids, options));
  }

  Tensor weight;
  RegionName name;
};

}  // namespace seppo::inline SEPPO_ABI
