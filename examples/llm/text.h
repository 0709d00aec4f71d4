// Texts as tokens, training windows, and how well a model predicts a text.
#pragma once

#include "llm/folder.h"

#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/trainer.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace llm {

// The loss of predicting each next token in the windows of at most `window` tokens that begin at `starts`.
seppo::ShardLoss window_loss(const seppo::LanguageModel& model, std::span<const int> tokens,
                             std::span<const int> starts, int window);

struct Score {
  double nats = 0;               // of all predicted tokens
  std::size_t tokens = 0;        // predicted: all but the first
  std::size_t bytes = 0;         // of their text
  double loss() const;           // mean nats per token
  double perplexity() const;     // exp(loss)
  double bits_per_byte() const;  // does not depend on the tokenizer
};

// `model` returns the model for the calling thread's tape. Windows of `window` tokens begin every `stride` tokens. Each
// token is predicted once, in the first window that contains it, after at least window - stride other tokens, except in
// the first window. Throws examples::Interrupted.
Score score(const std::function<seppo::LanguageModel()>& model, std::span<const int> tokens, int window, int stride,
            const Tokenizer& tokenizer);

}  // namespace llm
