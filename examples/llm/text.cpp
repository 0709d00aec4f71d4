// Scores are sums over windows; each thread computes several of them at a time.
#include "llm/text.h"

#include "app/interrupts.h"

#include <seppo/autograd/ops.h>
#include <seppo/nn/train/metrics.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace llm {

namespace {

constexpr std::size_t kTogether = 8;  // windows at a time, by each thread

}  // namespace

seppo::ShardLoss window_loss(const seppo::LanguageModel& model, std::span<const int> tokens,
                             std::span<const int> starts, int window) {
  seppo::Ragged input;
  std::vector<int> next;
  for (const int start : starts) {
    const auto at = static_cast<std::size_t>(start);
    const std::size_t length = std::min(static_cast<std::size_t>(window), tokens.size() - 1 - at);
    input.add(tokens.subspan(at, length));
    next.insert(next.end(), tokens.begin() + start + 1, tokens.begin() + start + 1 + static_cast<int>(length));
  }
  return seppo::classification_loss(model(input), next);  // [tokens, vocabulary]
}

double Score::loss() const { return nats / static_cast<double>(tokens); }
double Score::perplexity() const { return std::exp(loss()); }
double Score::bits_per_byte() const { return nats / std::numbers::ln2 / static_cast<double>(bytes); }

Score score(const std::function<seppo::LanguageModel()>& model, std::span<const int> tokens, int window, int stride,
            const Tokenizer& tokenizer) {
  const auto end_of = [&](int begin) {  // index of a window's last target
    return static_cast<int>(
        std::min(static_cast<std::size_t>(begin) + static_cast<std::size_t>(window), tokens.size() - 1));
  };
  std::vector<int> begins{0};
  while (end_of(begins.back()) < std::ssize(tokens) - 1) begins.push_back(begins.back() + stride);
  const auto loss_of_some = [&](std::span<const int> some) {
    examples::stop_if_interrupted();
    seppo::Ragged input;
    std::vector<int> rows, targets;  // that no earlier window has predicted
    for (const int begin : some) {
      const int first = begin == 0 ? 1 : end_of(begin - stride) + 1, end = end_of(begin);
      for (int target = first; target <= end; ++target) {
        rows.push_back(input.offsets.back() + target - 1 - begin);
        targets.push_back(tokens[static_cast<std::size_t>(target)]);
      }
      input.add(tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
    }
    const seppo::LanguageModel here = model();
    return seppo::classification_loss(here.scores(index_select(here.features(input), 0, rows)), targets);
  };
  const seppo::Sums sums = seppo::evaluate(begins, loss_of_some, kTogether);
  return {.nats = sums["loss"], .tokens = tokens.size() - 1, .bytes = tokenizer.decode(tokens, 1).size()};
}

}  // namespace llm
