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

// The best token; the first of equals.
int best_token(std::span<const real> scores) {
  const auto best = std::max_element(scores.begin(), scores.end());
  const bool has_nan = std::any_of(scores.begin(), scores.end(), [](real x) { return x != x; });
  check<NumericError>(std::isfinite(*best) && !has_nan, "sampling: the model's scores are not finite");
  return static_cast<int>(best - scores.begin());
}

// The tokens that may be drawn, and how probable each is.
class TokenChoice {
 public:
  TokenChoice(std::span<const real> scores, real best, double temperature) {
    for (const real score : scores) {
      weights_.push_back(std::exp(static_cast<double>(score - best) / temperature));
      if (weights_.back() > 0) tokens_.push_back(static_cast<int>(weights_.size()) - 1);
    }
  }

  void keep_top_k(int k) {
    if (index(k) >= tokens_.size()) return;
    std::partial_sort(tokens_.begin(), tokens_.begin() + k, tokens_.end(),
                      [this](int a, int b) { return is_before(a, b); });
    tokens_.resize(index(k));
  }

  void keep_top_p(double p) {
    const double all = total();
    const double enough = p * all;
    const double least = (all - enough) / static_cast<double>(tokens_.size());
    std::erase_if(tokens_, [&](int token) { return weight(token) < least; });  // the others reach p on their own
    std::sort(tokens_.begin(), tokens_.end(), [this](int a, int b) { return is_before(a, b); });
    double kept = 0;
    std::size_t count = 0;
    while (count < tokens_.size() && kept < enough) {
      kept += weight(tokens_[count]);
      ++count;
    }
    tokens_.resize(count);
  }

  void keep_min_p(double p) {
    std::erase_if(tokens_, [&](int token) { return weight(token) < p; });
  }

  int draw(RandomStream& random) const {
    double left = random.uniform() * total();
    for (const int token : tokens_) {
      left -= weight(token);
      if (left < 0) return token;
    }
    return tokens_.back();
  }

 private:
  double weight(int token) const { return weights_[index(token)]; }
  double total() const {
    double sum = 0;
    for (const int token : tokens_) sum += weight(token);
    return sum;
  }
  // The most probable first; equals by their ids.
  bool is_before(int a, int b) const {
    if (weight(a) != weight(b)) return weight(a) > weight(b);
    return a < b;
  }

  std::vector<double> weights_;  // of all tokens: probabilities up to a common factor, the best one's 1
  std::vector<int> tokens_;
};

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

int sample_token(std::span<const real> scores, const SamplingOptions& options, RandomStream& random,
                 std::span<const int> text) {
  options.validate();
  check(!scores.empty(), "sampling: there are no scores");
  std::vector<real> changed;
  if (options.repetition_penalty != 1) {
    changed = penalised(scores, options.repetition_penalty, text);
    scores = changed;
  }
  const int best = best_token(scores);
  if (options.temperature == 0) return best;
  TokenChoice choice(scores, scores[index(best)], options.temperature);
  if (options.top_k > 0) choice.keep_top_k(options.top_k);
  if (options.top_p < 1) choice.keep_top_p(options.top_p);
  choice.keep_min_p(options.min_p);
  return choice.draw(random);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
