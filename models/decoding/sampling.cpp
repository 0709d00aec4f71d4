// Sampling from a softmax that is cut off by rank and by cumulative probability.
#include "sampling.h"

#include "../../autograd/core/check.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace seppo::inline SEPPO_ABI {

void check_sampling(const SamplingOptions& o) {
  check<ArgumentError>(o.temperature >= 0 && std::isfinite(o.temperature), "sampling: temperature ", o.temperature,
                       " is negative or not finite");
  check<ArgumentError>(o.top_k >= 0, "sampling: top_k ", o.top_k, " is negative");
  check<ArgumentError>(o.top_p > 0 && o.top_p <= 1, "sampling: top_p ", o.top_p, " is not in (0, 1]");
}

int sample_token(std::span<const real> scores, const SamplingOptions& options, RandomStream& random) {
  check_sampling(options);
  check(!scores.empty(), "sampling: there are no scores");
  std::vector<int> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  if (options.temperature == 0) return order.front();
  if (options.top_k > 0 && static_cast<std::size_t>(options.top_k) < order.size())
    order.resize(static_cast<std::size_t>(options.top_k));

  // Probabilities up to a common factor, the best first.
  std::vector<double> weights;
  for (const int token : order)
    weights.push_back(std::exp(
        static_cast<double>(scores[static_cast<std::size_t>(token)] - scores[static_cast<std::size_t>(order.front())]) /
        options.temperature));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (options.top_p < 1) {
    double kept = 0;
    std::size_t count = 0;
    while (count < weights.size() && kept < options.top_p * total) kept += weights[count++];
    weights.resize(count);
    total = kept;
  }
  double left = random.uniform() * total;
  for (std::size_t i = 0; i < weights.size(); ++i)
    if ((left -= weights[i]) < 0) return order[i];
  return order[weights.size() - 1];
}

}  // namespace seppo::inline SEPPO_ABI
