// Sampling: a softmax truncated by rank, by cumulative probability and by the share of the best.
#include "sampling.h"

#include "../../autograd/core/check.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

std::size_t index(int token) { return static_cast<std::size_t>(token); }

std::vector<real> penalised(std::span<const real> scores, double penalty, std::span<const int> text) {
  std::vector<real> changed(scores.begin(), scores.end());
  for (const int token : text) {  // from the original score: a token that occurs twice counts once
    check<IndexError>(token >= 0 && index(token) < scores.size(), "sampling: token ", token, " has no score");
    const double x = static_cast<double>(scores[index(token)]);
    changed[index(token)] = static_cast<real>(x > 0 ? x / penalty : x * penalty);
  }
  return changed;
}

}  // namespace

void SamplingOptions::validate() const {
  check<ArgumentError>(repetition_penalty > 0 && std::isfinite(repetition_penalty), "sampling: repetition_penalty ",
                       repetition_penalty, " is not positive or not finite");
  check<ArgumentError>(temperature >= 0 && std::isfinite(temperature), "sampling: temperature ", temperature,
                       " is negative or not finite");
  check<ArgumentError>(top_k >= 0, "sampling: top_k ", top_k, " is negative");
  check<ArgumentError>(top_p > 0 && top_p <= 1, "sampling: top_p ", top_p, " is not in (0, 1]");
  check<ArgumentError>(min_p >= 0 && min_p <= 1, "sampling: min_p ", min_p, " is not in [0, 1]");
}

int sample_token(std::span<const real> scores, const SamplingOptions& o, RandomStream& random,
                 std::span<const int> text) {
  o.validate();
  check(!scores.empty(), "sampling: there are no scores");
  std::vector<real> changed;
  if (o.repetition_penalty != 1) scores = changed = penalised(scores, o.repetition_penalty, text);
  const auto top = std::max_element(scores.begin(), scores.end());
  check<NumericError>(std::isfinite(*top) && std::none_of(scores.begin(), scores.end(), [](real x) { return x != x; }),
                      "sampling: the model's scores are not finite");
  if (o.temperature == 0) return static_cast<int>(top - scores.begin());

  std::vector<double> weights;  // probabilities up to a common factor, the best one's 1
  std::vector<int> open;        // the tokens that may be drawn
  for (const real score : scores) {
    weights.push_back(std::exp(static_cast<double>(score - *top) / o.temperature));
    if (weights.back() > 0) open.push_back(static_cast<int>(weights.size()) - 1);
  }
  const auto weight = [&](int token) { return weights[index(token)]; };
  const auto is_before = [&](int a, int b) { return weight(a) != weight(b) ? weight(a) > weight(b) : a < b; };
  const auto total = [&] {
    return std::accumulate(open.begin(), open.end(), 0.0, [&](double sum, int token) { return sum + weight(token); });
  };
  if (o.top_k > 0 && index(o.top_k) < open.size()) {
    std::partial_sort(open.begin(), open.begin() + o.top_k, open.end(), is_before);
    open.resize(index(o.top_k));
  }
  if (o.top_p < 1) {
    const double all = total(), enough = o.top_p * all, least = (all - enough) / static_cast<double>(open.size());
    std::erase_if(open, [&](int token) { return weight(token) < least; });  // the others reach top_p on their own
    std::sort(open.begin(), open.end(), is_before);
    double kept = 0;
    std::size_t count = 0;
    while (count < open.size() && kept < enough) kept += weight(open[count++]);
    open.resize(count);
  }
  std::erase_if(open, [&](int token) { return weight(token) < o.min_p; });
  double left = random.uniform() * total();
  for (const int token : open)
    if ((left -= weight(token)) < 0) return token;
  return open.back();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
