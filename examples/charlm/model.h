// Predicting each next character of a text: the windows of a text, and a model's loss on them.
#pragma once

#include "app/interrupts.h"
#include "charlm/text.h"

#include <seppo/models/language_model.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <algorithm>
#include <span>
#include <vector>

namespace charlm {

// The loss of predicting each next character in the windows of at most max_length characters that begin at `starts`.
inline seppo::ShardLoss loss(const seppo::LanguageModel& model, const Text& text, std::span<const int> starts) {
  seppo::Ragged input;
  std::vector<int> next;
  for (const int start : starts) {
    const auto at = static_cast<std::size_t>(start);
    const std::size_t length = std::min(static_cast<std::size_t>(model.config.max_length), text.size() - 1 - at);
    const std::vector<int> window = text.read(at, length + 1);
    input.add(std::span(window).first(length));
    next.insert(next.end(), window.begin() + 1, window.end());
  }
  return seppo::classification_loss(model(input), next);  // [characters, vocabulary]
}

inline constexpr std::size_t kEvaluated = 16;  // windows at a time, by each thread

// The mean loss, in nats, over all characters of a text but the first, in consecutive windows.
inline double score(const seppo::LanguageModel& model, const Text& text) {
  std::vector<int> starts;
  for (std::size_t at = 0; at + 1 < text.size(); at += static_cast<std::size_t>(model.config.max_length))
    starts.push_back(static_cast<int>(at));
  const auto loss_of_some = [&](std::span<const int> some) {
    examples::stop_if_interrupted();
    return loss(model, text, some);
  };
  return seppo::evaluate(starts, loss_of_some, kEvaluated).mean("loss");
}

}  // namespace charlm
