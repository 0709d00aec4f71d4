// Scores are sums over windows; each thread computes several of them at a time.
#include "window_score.h"

#include "../autograd/core/check.h"
#include "../autograd/ops.h"
#include "../nn/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

// The windows that a thread computes together: enough rows for products to run at their speed.
std::size_t together(int window) {
  constexpr std::size_t kRows = 1024;
  return std::clamp<std::size_t>(kRows / static_cast<std::size_t>(window), 1, 8);
}

ShardLoss summed_loss(const LanguageModel& model, const Tensor& x, std::span<const int> targets) {
  double correct = 0;
  const Tensor loss = model.loss(x, targets, {.correct = &correct});
  const auto without = std::ranges::count(targets, kNoTarget);
  return {.loss = loss, .count = static_cast<double>(std::ssize(targets) - without), .correct = correct};
}

class Windows {
 public:
  Windows(std::span<const int> tokens, std::span<const int> targets, int window, int stride)
      : tokens_(tokens), targets_(targets.empty() ? tokens : targets), window_(window), stride_(stride) {}

  // Of the windows that predict something.
  std::vector<int> begins() const {
    std::vector<int> all;
    for (int begin = 0; begin == 0 || end_of(begin - stride_) < last(); begin += stride_)
      if (predicts(begin)) all.push_back(begin);
    return all;
  }

  // The sum over the tokens of these windows that no earlier window has predicted.
  ShardLoss loss(const LanguageModel& model, std::span<const int> begins) const {
    Ragged input;
    std::vector<int> rows;
    std::vector<int> targets;
    for (const int begin : begins) {
      const int offset = input.offsets.back() - begin;  // from a token's index to its row
      for (int target = first_target(begin); target <= end_of(begin); ++target) {
        const int token = targets_[static_cast<std::size_t>(target)];
        if (token == kNoTarget) continue;
        rows.push_back(offset + target - 1);
        targets.push_back(token);
      }
      input.add(tokens_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end_of(begin) - begin)));
    }
    return summed_loss(model, index_select(model.features(input), 0, rows), targets);
  }

 private:
  int last() const { return static_cast<int>(tokens_.size()) - 1; }
  // Index of a window's last target.
  int end_of(int begin) const {
    return static_cast<int>(std::min(std::int64_t{begin} + window_, std::int64_t{last()}));
  }
  int first_target(int begin) const { return begin == 0 ? 1 : end_of(begin - stride_) + 1; }
  bool predicts(int begin) const {
    for (int target = first_target(begin); target <= end_of(begin); ++target)
      if (targets_[static_cast<std::size_t>(target)] != kNoTarget) return true;
    return false;
  }

  std::span<const int> tokens_, targets_;
  int window_, stride_;
};

}  // namespace

ShardLoss window_loss(const LanguageModel& model, std::span<const int> tokens, std::span<const int> starts, int window,
                      std::span<const int> targets) {
  const std::span<const int> predicted = targets.empty() ? tokens : targets;
  Ragged input;
  std::vector<int> next;
  for (const int start : starts) {
    const auto at = static_cast<std::size_t>(start);
    const std::size_t length = std::min(static_cast<std::size_t>(window), tokens.size() - 1 - at);
    const std::span<const int> behind = predicted.subspan(at + 1, length);
    input.add(tokens.subspan(at, length));
    next.insert(next.end(), behind.begin(), behind.end());
  }
  return summed_loss(model, model.features(input), next);
}

double WindowScore::loss() const { return nats / static_cast<double>(tokens); }
double WindowScore::perplexity() const { return std::exp(loss()); }
double WindowScore::bits_per(std::size_t units) const { return nats / std::numbers::ln2 / static_cast<double>(units); }

WindowScore score_windows(const std::function<LanguageModel()>& model, std::span<const int> tokens, int window,
                          int stride, std::span<const int> targets) {
  check<ArgumentError>(0 < stride && stride <= window, "score_windows: the stride ", stride,
                       " is not from 1 to the window, ", window);
  const Windows windows(tokens, targets, window, stride);
  const auto loss_of_some = [&](std::span<const int> begins) { return windows.loss(model(), begins); };
  const Sums sums = evaluate(windows.begins(), loss_of_some, together(window));
  return {.nats = sums["loss"], .tokens = static_cast<std::size_t>(sums["count"])};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
