// Texts as tokens, the windows of a training, and how well a model predicts a text.
#pragma once

#include "llm/folder.h"

#include <seppo/nn/train/trainer.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace llm {

// The windows of at most `window` tokens that begin at `starts`: the loss of each token's successor.
seppo::ShardLoss window_loss(const seppo::LanguageModel& model, std::span<const int> tokens,
                             std::span<const int> starts, int window);

struct Score {
  double nats = 0;               // of all that was predicted
  std::size_t tokens = 0;        // that were predicted: all but the first
  std::size_t bytes = 0;         // of their text
  double loss() const;           // mean nats of a token
  double perplexity() const;     // exp(loss)
  double bits_per_byte() const;  // does not depend on the tokenizer
};

// `model` gives the model of the calling thread's tape. Windows of `window` tokens begin every `stride` of them. Each
// token is predicted once, in the first window that has it: behind at least window - stride tokens, but for those of
// the first window. Throws examples::Interrupted.
Score score(const std::function<seppo::LanguageModel()>& model, std::span<const int> tokens, int window, int stride,
            const Tokenizer& tokenizer);

}  // namespace llm
