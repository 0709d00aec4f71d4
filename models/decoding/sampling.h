// Sampling: the next token, drawn from a model's scores.
#pragma once

#include "../../autograd/core/random.h"
#include "../../autograd/core/real.h"

#include <span>

namespace seppo::inline SEPPO_ABI {

// Applied in this order.
struct SamplingOptions {
  // Scores of the tokens that the text has already are divided by it where they are positive and multiplied where they
  // are negative (Keskar et al. 2019, section 4.1); 1 changes nothing.
  double repetition_penalty = 1;
  double temperature = 1;  // scores are divided by it; 0 takes the best token
  int top_k = 0;           // only the k most probable tokens; 0: all
  double top_p = 1;        // only the most probable tokens that together reach this probability (Holtzman et al. 2019)
  double min_p = 0;        // only tokens that have this share of the best one's probability (Nguyen et al. 2024)
};

// Throws ArgumentError for a temperature that is negative or not finite, a repetition_penalty that is not positive or
// not finite, a negative top_k, top_p outside (0, 1] or min_p outside [0, 1].
void check_sampling(const SamplingOptions& options);

// A token drawn from softmax(scores / temperature), restricted as the options say; `text` is what is there so far.
// Ties go to the lowest id. Throws NumericError for scores that are NaN, or if none, or an infinite one, is the best;
// IndexError for a token of the text without a score.
int sample_token(std::span<const real> scores, const SamplingOptions& options, RandomStream& random,
                 std::span<const int> text = {});

}  // namespace seppo::inline SEPPO_ABI
