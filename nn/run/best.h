// Best: which of a run's evaluations has the model to keep.
#pragma once

#include "evaluation.h"

#include <cstdint>
#include <limits>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

struct Best {
  std::int64_t step = 0;  // of the evaluation; 0: there has been none
  double score = -std::numeric_limits<double>::infinity();
  double loss = std::numeric_limits<double>::infinity();

  // Of equal scores, the lower loss decides; of equal losses too, the earlier evaluation stays the best.
  bool is_above(const Best& other) const { return score > other.score || (score == other.score && loss < other.loss); }
};

// The evaluation after `step` with its score: its step for "last", its negated loss for "loss", and for any other
// `measure` that of the name "val_" + measure, where null counts as 0. Throws ArgumentError if there is no such
// measure.
Best best_by(const std::string& measure, const Evaluation& evaluation, std::int64_t step);

}  // namespace SEPPO_ABI
}  // namespace seppo
