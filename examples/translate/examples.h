// Pairs of texts as token ids, and the loss of a Transformer on them.
#pragma once

#include "translate/data.h"

#include <seppo/models/transformer.h>
#include <seppo/nn/train/data_parallel.h>

#include <limits>
#include <span>
#include <vector>

namespace translate {

using seppo::Ragged;
using seppo::Transformer;

struct Examples {
  std::vector<Pair> texts = {};  // not of those that pick() gives
  Ragged source = {};            // "a b <eos>"
  Ragged target = {};            // "<bos> x y <eos>"
  std::size_t truncated = 0;     // pairs

  std::size_t size() const { return source.size(); }
  std::vector<int> lengths() const;  // of source and target together
  Examples pick(std::span<const int> some) const { return {.source = source.pick(some), .target = target.pick(some)}; }
  Examples without_longer(int most) const;  // than this many tokens after <bos>, on either side
};

// Texts of more than `most` tokens, <eos> included, are truncated.
Examples encode(const Languages& languages, std::span<const Pair> pairs, int most = std::numeric_limits<int>::max());

// The tokens of texts, without <bos> and <eos>, and how many of these are <unk>.
struct Coverage {
  std::size_t tokens = 0, unknown = 0;

  double share() const { return tokens > 0 ? static_cast<double>(unknown) / static_cast<double>(tokens) : 0; }
};
Coverage coverage(const Ragged& texts);

// Cross-entropy of the target tokens after <bos>, summed. <unk> is never counted as a right prediction.
seppo::ShardLoss loss(const Transformer& model, const Examples& batch, seppo::CrossEntropyOptions options);

}  // namespace translate
