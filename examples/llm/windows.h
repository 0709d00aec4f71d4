// A text as windows of tokens.
#pragma once

#include "app/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace llm {

// Windows of `length` tokens begin every `stride` tokens, until each token but the first has been predicted. The last
// one may be shorter, by less than the stride.
struct Windows {
  std::vector<int> tokens;
  int length, stride;

  struct Batch {
    std::span<const int> tokens;
    std::vector<int> starts;
    int length;
  };

  std::size_t size() const {
    const std::ptrdiff_t last = std::ssize(tokens) - 1 - length;
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, last + 2 * stride - 1) / stride);
  }
  Batch pick(std::span<const int> windows) const {
    Batch batch{tokens, {}, length};
    for (const int window : windows) batch.starts.push_back(window * stride);
    return batch;
  }
  std::span<const int> operator[](std::size_t window) const {
    const std::span<const int> rest = std::span(tokens).subspan(window * static_cast<std::size_t>(stride));
    return rest.first(std::min(rest.size(), static_cast<std::size_t>(length)));
  }
};

// --window, or the model's context length if that is 0. Throws examples::UsageError if it is longer.
inline int window_length(int given, int context) {
  if (given > context)
    throw examples::UsageError(
        fmt::format("--window: {} tokens are more than the model sees at once, {}", given, context));
  return given > 0 ? given : context;
}

}  // namespace llm
