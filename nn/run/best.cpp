// Best: the score of an evaluation.
#include "best.h"

#include "../../autograd/core/check.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

double score_by(const std::string& measure, const Evaluation& evaluation, std::int64_t step) {
  if (measure == "last") return static_cast<double>(step);
  if (measure == "loss") return -evaluation.val_loss;
  const auto found = evaluation.measures.find("val_" + measure);
  const bool is_there = found != evaluation.measures.end() && (found->is_number() || found->is_null());
  check<ArgumentError>(is_there, "training: best is '", measure, "', but the evaluation has no number 'val_", measure,
                       "'");
  return found->is_null() ? 0 : found->get<double>();
}

}  // namespace

Best best_by(const std::string& measure, const Evaluation& evaluation, std::int64_t step) {
  return {.step = step, .score = score_by(measure, evaluation, step), .loss = evaluation.val_loss};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
