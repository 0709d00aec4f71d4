// Encodes pairs, and computes the loss of a batch.
#include "translate/examples.h"

#include <algorithm>

namespace translate {

std::vector<int> Examples::lengths() const {
  std::vector<int> lengths;
  for (std::size_t i = 0; i < size(); ++i) lengths.push_back(static_cast<int>(source[i].size() + target[i].size()));
  return lengths;
}

Examples Examples::without_longer(int most) const {
  std::vector<int> fitting;
  for (std::size_t i = 0; i < size(); ++i)
    if (std::ssize(source[i]) <= most && std::ssize(target[i]) - 1 <= most) fitting.push_back(static_cast<int>(i));
  return pick(fitting);
}

Examples encode(const Languages& languages, std::span<const Pair> pairs, int most) {
  Examples examples{.texts = {pairs.begin(), pairs.end()}};
  for (const Pair& pair : pairs) {
    std::vector<int> source = languages.encode(languages.source, pair.source);
    std::vector<int> target = languages.encode(languages.target, pair.target);
    examples.truncated += std::ssize(source) > most || std::ssize(target) > most;
    for (std::vector<int>* const text : {&source, &target})
      if (std::ssize(*text) > most) {
        text->resize(static_cast<std::size_t>(most));
        text->back() = kEos;
      }
    target.insert(target.begin(), kBos);
    examples.source.add(source);
    examples.target.add(target);
  }
  return examples;
}

Coverage coverage(const Ragged& texts) {
  Coverage all;
  for (const int token : texts.tokens) {
    all.tokens += token != kBos && token != kEos;
    all.unknown += token == kUnknown;
  }
  return all;
}

seppo::ShardLoss loss(const Transformer& model, const Examples& batch, seppo::CrossEntropyOptions options) {
  options.reduction = seppo::Reduction::sum;
  const std::vector<int> targets = batch.target.without_first().tokens;
  const seppo::Tensor logits = model.logits(batch.source, batch.target.without_last());  // [targets, vocabulary]
  const std::vector<int> best = argmax(logits);
  double right = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) right += best[i] == targets[i] && targets[i] != kUnknown;
  const auto ignored = std::ranges::count(targets, options.ignore_index);
  return {.loss = cross_entropy(logits, targets, options),
          .count = static_cast<double>(std::ssize(targets) - ignored),
          .correct = right};
}

}  // namespace translate
