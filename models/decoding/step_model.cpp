// What generate() and beam_search() have in common.
#include "step_model.h"

#include "../../autograd/core/guards.h"

#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

Tensor last_rows(const Tensor& x, Offsets offsets) {
  check(x.rank() == 2 && !offsets.empty() && offsets.back() == x.size(0), "last_rows: x ", x.shape(),
        " is not [rows, n] with offsets that end with its rows");
  std::vector<int> last;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    check(offsets[s] < offsets[s + 1], "last_rows: sequence ", s, " has no rows");
    last.push_back(offsets[s + 1] - 1);
  }
  if (last.size() == x.rows()) return x;
  return index_select(x, 0, last);
}

void check_steps(const StepModel& steps, const char* who) {
  check<ArgumentError>(steps.scores && steps.select, who, ": the StepModel lacks scores or select");
  check<ArgumentError>(steps.window >= 0, who, ": the StepModel's window ", steps.window, " is negative");
  check<ArgumentError>(steps.window == 0 || steps.restart, who, ": the StepModel has a window, but no restart");
  check<StateError>(tape().mode == Mode::eval, who, ": Mode::train; begin with `const Inference inference;`");
}

Tensor next_scores(const StepModel& steps, const Ragged& unread, const char* who) {
  const Tensor scores = steps.scores(unread);
  check(scores.rank() == 2 && scores.rows() == unread.size(), who, ": scores ", scores.shape(),
        " are not [texts, vocabulary] for ", unread.size(), " texts");
  return scores;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
