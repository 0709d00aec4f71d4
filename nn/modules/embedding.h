// Embedding: vectors looked up by token id.
//
//   const Embedding table(parameters.root() / "embedding", /*vocabulary=*/5, /*d_model=*/2);
//   const Tensor x = table({1, 4, 4});         // [3, 2]
//   const Tensor logits = table.as_linear(x);  // [3, 5]
#pragma once

#include "../../autograd/core/region.h"
#include "../../autograd/ops.h"
#include "../parameters.h"

namespace seppo {
inline namespace SEPPO_ABI {

// A table of vectors looked up by token id.
struct Embedding {
  Embedding(const Scope& s, int vocabulary, int d_model, const Init& init = init_normal(1))
      : weight(s.parameter("weight", {vocabulary, d_model}, init)), name(s.region()) {}

  Tensor operator()(List<int> ids, const EmbeddingOptions& options = {}) const {  // -> [ids, d_model]
    const Region here(name);
    return here(embedding(weight, ids, options));
  }

  // The table as an output layer, x W^T: [rows, d_model] -> [rows, vocabulary] (Press and Wolf 2017).
  Tensor as_linear(const Tensor& x) const {
    const Region here(name);
    return here(linear(x, weight));
  }

  Tensor weight;  // [vocabulary, d_model]
  RegionName name;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
