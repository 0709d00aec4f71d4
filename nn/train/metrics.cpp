// Metrics of classification, from the class with the largest score.
#include "metrics.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

double count_correct(const Tensor& logits, List<int> targets) {
  const std::vector<int> best = argmax(logits);
  check(best.size() == targets.size(), "accuracy: logits ", logits, " have ", best.size(), " rows, targets are ",
        targets.size());
  return std::transform_reduce(best.begin(), best.end(), targets.begin(), 0.0, std::plus<>(), std::equal_to<>());
}

}  // namespace

double accuracy(const Tensor& logits, List<int> targets) {
  const double correct = count_correct(logits, targets);
  return targets.empty() ? 0 : correct / static_cast<double>(targets.size());
}

ShardLoss classification_loss(const Tensor& logits, List<int> targets, double label_smoothing) {
  return {.loss = cross_entropy(logits, targets, {.label_smoothing = label_smoothing, .reduction = Reduction::sum}),
          .count = targets.size(),
          .correct = count_correct(logits, targets)};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
