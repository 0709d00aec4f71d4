// Calls a hook on a copy of the scores, and looks at what it has done.
#include "hooks.h"

#include "../../autograd/core/check.h"

#include <algorithm>
#include <cmath>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

bool is_score(real x) { return !std::isnan(x) && (std::isfinite(x) || x < 0); }

}  // namespace

std::span<const real> apply_hook(const ScoreHook& hook, std::span<const real> scores, std::span<const int> text,
                                 std::vector<real>& changed, const char* who) {
  if (!hook) return scores;
  changed.assign(scores.begin(), scores.end());
  hook(changed, text);
  const auto bad = std::ranges::find_if_not(changed, is_score);
  if (bad != changed.end())
    fail<NumericError>(who, ": the hook gives token ", bad - changed.begin(), " the score ", static_cast<double>(*bad));
  return changed;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
