// Drawing the next token from a model's scores.
#pragma once

#include "../../autograd/core/random.h"
#include "../../autograd/core/real.h"

#include <span>

namespace seppo::inline SEPPO_ABI {

struct SamplingOptions {
  double temperature = 1;  // scores are divided by it; 0 takes the best token
  int top_k = 0;           // only the k best tokens; 0: all
  double top_p = 1;        // only the best tokens that together have this probability (Holtzman et al. 2019)
};

// Throws ArgumentError for a temperature that is negative or not finite, a negative top_k, or top_p outside
// (0, 1].
void check_sampling(const SamplingOptions& options);

// A token drawn from softmax(scores / temperature), restricted as the options say: first to the top k, then to
// the top p of what is left. Ties go to the lowest id.
int sample_token(std::span<const real> scores, const SamplingOptions& options, RandomStream& random);

}  // namespace seppo::inline SEPPO_ABI
