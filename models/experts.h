// Experts: a layer's feed-forward network as several, of which each row is sent to the few that score it best (Shazeer
// et al. 2017; Mixtral, Jiang et al. 2024).
//
//   const Experts experts(parameters.root() / "ffn", /*d_model=*/2, /*d_ff=*/8, {.experts = 4, .chosen = 2});
//   const Tensor y = experts(x);  // both are [rows, 2]
#pragma once

#include "../autograd/core/region.h"
#include "../nn/modules/feed_forward.h"

#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct ExpertsOptions {
  int experts = 8;
  int chosen = 2;  // of them, for each row
  FeedForwardOptions feed_forward = {};
};

// The sum of a row's chosen networks, weighed by the softmax of their scores. Equal scores choose the first. The choice
// has no gradient, the weights have.
struct Experts {
  // Throws ArgumentError unless 1 <= chosen <= experts.
  Experts(const Scope& s, int d_model, int d_ff, const ExpertsOptions& options);

  Tensor operator()(const Tensor& x) const;  // [rows, d_model]

  Linear router;  // scores: [rows, experts]
  std::vector<FeedForward> experts;
  int chosen;
  RegionName name;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
