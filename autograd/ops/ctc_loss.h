// Connectionist temporal classification (Graves et al. 2006): learns to read texts from frames without being told which
// frames show which symbol.
//
//   const Tensor scores = model(frames);                                       // [frames, batch, classes]
//   const Tensor loss = ctc_loss(log_softmax(scores), lengths, {{3, 1, 4}, {1, 5}});  // class 0 is the blank
#pragma once

#include "losses.h"

#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct CtcOptions {
  int blank = 0;                          // the class of frames that show no symbol
  Reduction reduction = Reduction::mean;  // mean: over the texts, each loss divided by its text's length, at least 1
};
// -log p(text) of each sequence of the batch: log_probabilities [frames, batch, classes], as log_softmax gives them ->
// scalar, or unreduced [batch]. lengths: how many of its frames each sequence has; the others do not count. texts:
// classes other than the blank. p(text) is the sum over all ways to give each frame a class that become the text when
// repetitions and then blanks are left out. A text that needs more frames than there are, one for each symbol and one
// between two equal ones, has an infinite loss and the gradient 0. Sums are taken in log space and double precision.
Tensor ctc_loss(const Tensor& log_probabilities, List<int> lengths, const std::vector<std::vector<int>>& texts,
                const CtcOptions& options = {});

}  // namespace SEPPO_ABI
}  // namespace seppo
