// Constraints: scores of minus infinity.
#include "constraints.h"

#include "../../autograd/core/check.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

constexpr real kBanned = -std::numeric_limits<real>::infinity();

real& score_of(std::span<real> scores, int token) {
  const auto place = static_cast<std::size_t>(token);
  check<IndexError>(token >= 0 && place < scores.size(), "constraint: token ", token, " has no score; there are ",
                    scores.size());
  return scores[place];
}

}  // namespace

void ban_tokens(std::span<real> scores, List<int> tokens) {
  for (const int token : tokens) score_of(scores, token) = kBanned;
}

void keep_tokens(std::span<real> scores, List<int> tokens) {
  std::vector<real> kept;
  for (const int token : tokens) kept.push_back(score_of(scores, token));
  std::ranges::fill(scores, kBanned);
  for (std::size_t i = 0; i < kept.size(); ++i) score_of(scores, tokens[i]) = kept[i];
}

void ban_repeated_ngrams(std::span<real> scores, std::span<const int> text, int n) {
  check<ArgumentError>(n > 0, "constraint: n-grams of ", n, " tokens");
  const auto before = static_cast<std::size_t>(n) - 1;
  if (text.size() < before) return;
  const auto last = text.last(before);
  for (std::size_t i = 0; i + before < text.size(); ++i)
    if (std::ranges::equal(text.subspan(i, before), last)) score_of(scores, text[i + before]) = kBanned;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
