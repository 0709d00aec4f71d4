// How well a language model predicts a long text, which it sees through windows.
//
//   const WindowScore score = score_windows([&] { return model; }, tokens, /*window=*/1024, /*stride=*/512);
//   std::cout << score.perplexity();
#pragma once

#include "../nn/train/data_parallel.h"
#include "language_model.h"

#include <cstddef>
#include <functional>
#include <limits>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

// In the targets of a text, in place of a token that is seen but not predicted.
constexpr int kNoTarget = std::numeric_limits<int>::min();

// For training: the mean cross-entropy of the windows that begin at `starts`. A window has `window` tokens, or what is
// left of the text, and predicts the token behind each of them; if there are targets, one for each token, only those.
ShardLoss window_loss(const LanguageModel& model, std::span<const int> tokens, std::span<const int> starts, int window,
                      std::span<const int> targets = {});

struct WindowScore {
  double nats = 0;            // of all predicted tokens
  std::size_t tokens = 0;     // predicted: all but the beginning of the text, or those of the targets
  double loss() const;        // mean nats per token
  double perplexity() const;  // exp(loss)
  // Bits for each of the units, such as the bytes of the predicted text, which do not depend on the tokenizer.
  double bits_per(std::size_t units) const;
};

// Windows of `window` tokens begin every `stride` tokens. Each token is predicted once, in the earliest window that
// contains it, after at least window - stride other tokens, except in the earliest window. `model` returns the model
// for the calling thread's tape; it is called for a few windows at a time. Of targets, as above, those are predicted.
// Throws ArgumentError unless the stride is from 1 to the window: tokens between windows would not be predicted.
WindowScore score_windows(const std::function<LanguageModel()>& model, std::span<const int> tokens, int window,
                          int stride, std::span<const int> targets = {});

}  // namespace SEPPO_ABI
}  // namespace seppo
