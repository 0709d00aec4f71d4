// A text as windows of tokens.
#pragma once

#include "app/command_line.h"

#include <seppo/models/window_score.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace llm {

// Which tokens of conversations are predicted: all, or what the assistant says.
enum class LossOn { all, answers };
inline std::span<const char* const> enum_names(LossOn) {
  static constexpr const char* kNames[] = {"all", "answers"};
  return kNames;
}

struct Text {
  std::vector<int> tokens = {};
  std::vector<int> targets = {};  // if not all tokens are predicted: for each, itself or seppo::kNoTarget

  Text part(std::size_t begin, std::size_t end) const {
    const auto cut = [&](const std::vector<int>& of) {
      const auto first = of.begin() + static_cast<std::ptrdiff_t>(std::min(begin, of.size()));
      return std::vector<int>(first, of.begin() + static_cast<std::ptrdiff_t>(std::min(end, of.size())));
    };
    return {cut(tokens), cut(targets)};
  }
};

// Windows of `length` tokens begin every `stride` tokens, until each token but the first has been predicted. The last
// one may be shorter, by less than the stride. Windows that predict nothing are left out.
struct Windows : Text {
  int length, stride;
  std::vector<int> begins = {};  // of the windows, if not all tokens are predicted

  struct Batch {
    std::span<const int> tokens, targets;
    std::vector<int> starts;
    int length;
  };

  Windows(Text text, int window_length, int window_stride)
      : Text(std::move(text)), length(window_length), stride(window_stride) {
    if (targets.empty()) return;
    auto next = targets.begin();  // that is predicted, behind the window's first token
    for (int window = 0; window < number(); ++window) {
      const auto begin = targets.begin() + window * stride;
      next =
          std::find_if(std::max(next, begin + 1), targets.end(), [](int token) { return token != seppo::kNoTarget; });
      if (next != targets.end() && next - begin <= length) begins.push_back(window * stride);
    }
  }

  std::size_t size() const { return targets.empty() ? static_cast<std::size_t>(number()) : begins.size(); }
  Batch pick(std::span<const int> windows) const {
    Batch batch{tokens, targets, {}, length};
    for (const int window : windows) batch.starts.push_back(begin_of(static_cast<std::size_t>(window)));
    return batch;
  }
  std::span<const int> operator[](std::size_t window) const {
    const std::span<const int> rest = std::span(tokens).subspan(static_cast<std::size_t>(begin_of(window)));
    return rest.first(std::min(rest.size(), static_cast<std::size_t>(length)));
  }
  // The tokens that are predicted.
  std::vector<int> predicted() const {
    if (targets.empty()) return {tokens.begin() + 1, tokens.end()};
    std::vector<int> some;
    std::copy_if(targets.begin() + 1, targets.end(), std::back_inserter(some),
                 [](int token) { return token != seppo::kNoTarget; });
    return some;
  }

 private:
  int number() const {
    const std::ptrdiff_t last = std::ssize(tokens) - 1 - length;
    return static_cast<int>(std::max<std::ptrdiff_t>(0, last + 2 * stride - 1) / stride);
  }
  int begin_of(std::size_t window) const {
    return targets.empty() ? static_cast<int>(window) * stride : begins[window];
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
