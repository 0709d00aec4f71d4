// Sampling: a token drawn from the scores of a language model.
#pragma once

#include "../../autograd/core/random.h"
#include "../../autograd/core/real.h"

#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

// Applied in this order. Throw ArgumentError unless 0 <= temperature < infinity, 0 < repetition_penalty < infinity,
// top_k >= 0, 0 < top_p <= 1 and 0 <= min_p <= 1.
struct SamplingOptions {
  // Divides positive scores of tokens of the text, and multiplies negative ones (Keskar et al. 2019); 1: no change.
  double repetition_penalty = 1;
  double temperature = 1;  // scores are divided by it; 0 takes the best token
  int top_k = 0;           // only the k most probable tokens; 0: all
  double top_p = 1;        // only the most probable tokens that together reach this probability (Holtzman et al. 2019)
  double min_p = 0;        // only tokens that have this share of the best one's probability (Nguyen et al. 2024)

  void validate() const;
};

// A token drawn from softmax(scores / temperature), restricted as the options say; `text` is the text so far. Ties go
// to the lowest id. Throws NumericError for NaN, or if the largest score is infinite; ShapeError for no scores; with a
// repetition penalty, IndexError for a token of the text that has no score.
int sample_token(std::span<const real> scores, const SamplingOptions& options, RandomStream& random,
                 std::span<const int> text = {});

}  // namespace SEPPO_ABI
}  // namespace seppo
