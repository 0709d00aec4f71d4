// Metrics of classification.
#include "metrics.h"

#include "../../autograd/core/parallel.h"
#include "../../autograd/ops.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace seppo::inline SEPPO_ABI {
namespace {

double count_correct(const Tensor& logits, std::span<const int> targets) {
  const std::vector<int> best = argmax(logits);
  check(best.size() == targets.size(), "accuracy: logits ", logits, " have ", best.size(), " rows, targets are ",
        targets.size());
  return std::transform_reduce(best.begin(), best.end(), targets.begin(), 0.0, std::plus<>(), std::equal_to<>());
}

}  // namespace

double accuracy(const Tensor& logits, std::span<const int> targets) {
  const double correct = count_correct(logits, targets);
  return targets.empty() ? 0 : correct / static_cast<double>(targets.size());
}

ShardLoss classification_loss(const Tensor& logits, std::span<const int> targets, double label_smoothing) {
  return {.loss = cross_entropy(logits, targets, {.label_smoothing = label_smoothing, .reduction = Reduction::sum}),
          .count = static_cast<double>(targets.size()),
          .correct = count_correct(logits, targets)};
}

StepLoss evaluate(std::span<const int> rows, FunctionRef<ShardLoss(std::span<const int> rows)> loss,
                  std::size_t chunk) {
  check<ArgumentError>(chunk > 0, "evaluate: chunks of 0 rows");
  std::vector<StepLoss> parts((rows.size() + chunk - 1) / chunk);
  parallel_for(0, rows.size(), chunk, [&](std::size_t first, std::size_t last) {
    const UseMode eval(Mode::eval);
    const TapeMark mark;
    const ShardLoss part = loss(rows.subspan(first, last - first));
    parts[first / chunk] = {static_cast<double>(part.loss.item()), part.count, part.correct};
  });
  StepLoss total;
  for (const StepLoss& part : parts) total += part;
  return total;
}

}  // namespace seppo::inline SEPPO_ABI
