// Sampling: the next token, drawn from a model's scores.
#pragma once

#include "../../autograd/core/random.h"
#include "../../autograd/core/real.h"

#include <span>

namespace seppo::inline SEPPO_ABI {

struct SamplingOptions {
  double temperature = 1;  // scores are divided by it; 0 takes the best token
  int top_k = 0;           // only the k most probable tokens; 0: all
  double top_p = 1;        // only the most probable tokens that together reach this probability (Holtzman et al. 2019)
};

// Throws ArgumentError for a temperature that is negative or not finite, a negative top_k, or top_p outside
// (0, 1].
void check_sampling(const SamplingOptions& options);

// A token drawn from softmax(scores / temperature), restricted first to the top k, then to the top p of those left.
// Ties go to the lowest id.
int sample_token(std::span<const real> scores, const SamplingOptions& options, RandomStream& random);

}  // namespace seppo::inline SEPPO_ABI
