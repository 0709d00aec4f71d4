// The tokens that a cache has, beside the cache.
#include "kept_text.h"

#include "generate.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

KeptText::KeptText(const LanguageModel& model) : cache_(model.make_cache(1)), model_(step_model(model, cache_)) {}

StepModel KeptText::steps() {
  begins_ = true;
  return {.scores = [this](const Ragged& unread) { return scores(unread); },
          .select = [](std::span<const int>, Offsets) {},  // a text that has ended stays in the cache
          .window = model_.window,
          .restart = [this](std::size_t) { forget(); }};
}

Tensor KeptText::scores(const Ragged& unread) {
  check<ArgumentError>(unread.size() == 1, "kept text: ", unread.size(), " texts, not one");
  std::span<const int> fresh = unread.tokens;
  if (std::exchange(begins_, false)) {
    const bool goes_on = read_.size() < fresh.size() && std::ranges::equal(read_, fresh.first(read_.size()));
    if (!goes_on || read_.empty()) forget();
    fresh = fresh.subspan(read_.size());
  }
  Ragged own;
  own.add(fresh);
  std::vector<int> read = std::exchange(read_, {});
  const Tensor y = model_.scores(own);
  read.insert(read.end(), fresh.begin(), fresh.end());
  read_ = std::move(read);
  return y;
}

void KeptText::forget() {
  cache_.restart(0);
  read_.clear();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
