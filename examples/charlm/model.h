// Predicting each next character of a text: its windows, and a model's loss on them.
#pragma once

#include "charlm/text.h"

#include <seppo/models/language_model.h>
#include <seppo/nn/data/ragged.h>
#include <seppo/nn/train/metrics.h>

#include <algorithm>
#include <span>
#include <vector>

namespace charlm {

struct Batch {
  seppo::Ragged input;
  std::vector<int> next;  // the character after each
};

// Windows of at most `length` characters, which begin at every `stride` characters of a text.
struct Windows {
  Text text;
  std::size_t length, stride;

  std::size_t size() const {
    const std::size_t last = stride < length ? text.size() - length : text.size() - 1;  // whole ones, if they overlap
    return (last + stride - 1) / stride;
  }
  std::size_t length_at(std::size_t begin) const { return std::min(length, text.size() - 1 - begin); }

  Batch pick(std::span<const int> windows) const {
    Batch batch;
    for (const int window : windows) {
      const std::size_t begin = static_cast<std::size_t>(window) * stride;
      const std::vector<int> characters = text.read(begin, length_at(begin) + 1);
      batch.input.add(std::span(characters).first(characters.size() - 1));
      batch.next.insert(batch.next.end(), characters.begin() + 1, characters.end());
    }
    return batch;
  }
};

// A window for each character, to train on.
inline Windows overlapping_windows(const Text& text, int length) { return {text, static_cast<std::size_t>(length), 1}; }

// Each character but the first is predicted in one window.
inline Windows consecutive_windows(const Text& text, int length) {
  return {text, static_cast<std::size_t>(length), static_cast<std::size_t>(length)};
}

inline seppo::ShardLoss loss(const seppo::LanguageModel& model, const Batch& batch) {
  return seppo::classification_loss(model(batch.input), batch.next);  // [characters, vocabulary]
}

}  // namespace charlm
