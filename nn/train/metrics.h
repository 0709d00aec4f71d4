// Metrics of classification.
#pragma once

#include "data_parallel.h"

namespace seppo {
inline namespace SEPPO_ABI {

// The share of rows of logits [..., classes] whose largest score is at the target, one for each row; 0 for no rows.
double accuracy(const Tensor& logits, List<int> targets);

// The cross-entropy of logits [..., classes] summed over the rows, the number of rows, and of correct predictions.
ShardLoss classification_loss(const Tensor& logits, List<int> targets, double label_smoothing = 0);

}  // namespace SEPPO_ABI
}  // namespace seppo
