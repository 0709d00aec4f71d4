// A Transformer of which each part can be left out, and what it is trained to do: to write 16 digits in reverse order.
#pragma once

#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/batch_norm.h>
#include <seppo/nn/modules/embedding.h>
#include <seppo/nn/modules/feed_forward.h>
#include <seppo/nn/modules/layer_norm.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/modules/positional_encoding.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ablations {

using seppo::Tensor;

constexpr int kLength = 16, kDigits = 10;

enum class WhichNorm { layer, batch, none };

// The defaults are the whole model.
struct Parts {
  int layers = 1, width = 32, heads = 1;
  bool residuals = true, positions = true;
  bool separate_keys = true;   // false: one projection for Q and K
  bool divides_scores = true;  // by the root of a head's width
  WhichNorm norm = WhichNorm::layer;
  double attention_dropout = 0;
  bool sgd = false;  // with momentum 0.9, instead of Adam
  double lr = 1e-3;
  // A decoder reads the digits and then its answer, and writes one digit after another. What is put in place of scores
  // that its causal mask forbids; infinite: these weights are exactly 0.
  std::optional<double> masked_score = {};

  bool writes() const { return masked_score.has_value(); }
  int positions_read() const { return writes() ? 2 * kLength - 1 : kLength; }
};

// Layer norm, batch norm or nothing.
struct AnyNorm {
  AnyNorm(const seppo::Scope& s, const Parts& parts) {
    if (parts.norm == WhichNorm::layer) layer.emplace(s, parts.width);
    if (parts.norm == WhichNorm::batch) batch.emplace(s, parts.width);
  }
  Tensor operator()(const Tensor& x) const {
    if (layer) return (*layer)(x);
    return batch ? (*batch)(x) : x;
  }

  std::optional<seppo::LayerNorm> layer;
  std::optional<seppo::BatchNorm> batch;
};

struct Block {
  Block(const seppo::Scope& s, const Parts& parts)
      : query(s / "query", parts.width, parts.width),
        key(parts.separate_keys ? seppo::Linear(s / "key", parts.width, parts.width) : query),
        value(s / "value", parts.width, parts.width),
        output(s / "output", parts.width, parts.width),
        ffn(s / "ffn", parts.width, 2 * parts.width),
        norm_1(s / "norm_1", parts),
        norm_2(s / "norm_2", parts),
        parts(parts) {}

  Tensor operator()(const Tensor& x) const;  // [sequences, positions, width]

  seppo::Linear query, key, value, output;
  seppo::FeedForward ffn;
  AnyNorm norm_1, norm_2;
  Parts parts;

 private:
  Tensor mix(const Tensor& q, const Tensor& k, const Tensor& v) const;
};

struct Model {
  Model(const seppo::Scope& s, const Parts& parts);

  // Scores of the digit at each position, of as many sequences as these tokens make. [tokens, kDigits]
  Tensor operator()(std::span<const int> tokens, int positions_read) const;

  seppo::Embedding embedding;
  seppo::PositionalEncoding positions;
  std::vector<Block> blocks;
  seppo::Linear classes;
  Parts parts;
};

// The share of correct digits in new sequences after so many steps; a decoder's are written without help.
double accuracy_of(const Parts& parts, std::uint64_t seed, int steps);

}  // namespace ablations
