// KeptText: what a model has read stays with its keys and values from one text to the next, as in a conversation, whose
// next prompt is the last one with the answer and a question.
//
//   const Inference inference;
//   KeptText kept(model);
//   const auto answer = generate(kept.steps(), Ragged::of({prompt}));
//   const auto next = generate(kept.steps(), Ragged::of({longer_prompt}));  // computes only what was not read before
#pragma once

#include "../language_model.h"
#include "step_model.h"

#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class KeptText {
 public:
  explicit KeptText(const LanguageModel& model);  // refers to it
  KeptText(const KeptText&) = delete;

  // For one text. If it begins with all tokens that the model has read, only the others are computed; if not, all are.
  // The text is that of the model itself, unless its scores, whose last bits depend on how many tokens are computed at
  // a time, decide between two tokens by less than their rounding. Throws ArgumentError for several texts.
  StepModel steps();

 private:
  Tensor scores(const Ragged& unread);
  void forget();

  KeyValueCache cache_;
  StepModel model_;
  std::vector<int> read_ = {};  // the tokens in the cache; none after an exception
  bool begins_ = true;          // a text
};

}  // namespace SEPPO_ABI
}  // namespace seppo
