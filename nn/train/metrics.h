// Metrics of classification: the loss a training step takes, and how often the largest score is at the target.
#pragma once

#include "data_parallel.h"

#include <span>

namespace seppo::inline SEPPO_ABI {

// The share of rows of logits [..., classes] whose largest score is at the target, one for each row; 0 for no rows.
double accuracy(const Tensor& logits, std::span<const int> targets);

// The sum over the rows of logits [..., classes] of their cross-entropy, how many rows there are, and how many have
// their largest score at the target: what Trainer::step() wants of a loss.
ShardLoss classification_loss(const Tensor& logits, std::span<const int> targets, double label_smoothing = 0);

// What a training step would report, without training: runs loss(some of rows) in eval mode, on all threads, for
// `chunk` rows at a time and adds up. The same bytes for any number of threads.
StepLoss evaluate(std::span<const int> rows, FunctionRef<ShardLoss(std::span<const int> rows)> loss,
                  std::size_t chunk = 64);

}  // namespace seppo::inline SEPPO_ABI
