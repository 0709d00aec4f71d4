// LanguageModel: embedding, a stack of causal layers, and the embedding again.
#include "language_model.h"

namespace seppo::inline SEPPO_ABI {
namespace {

const LanguageModelConfig& checked(const LanguageModelConfig& c) {
  check_config("language model", c);
  return c;
}

}  // namespace

LanguageModel::LanguageModel(const Scope& s, const LanguageModelConfig& c)
    : config(checked(c)),
      embedding(s / "embedding", c.vocabulary, c.layer.d_model, init_normal(0.02)),
      positions(s / "positions", c.positions, c.max_length, c.layer.d_model),
      dropout(c.layer.dropout),
      layers(s / "layers", c.n_layers, c.layer) {}

Tensor LanguageModel::operator()(const Ragged& tokens, KeyValueCache* cache) const {
  const auto ids = positions.ids(tokens.offsets, cache ? cache->extend(tokens.offsets) : std::span<const int>());
  const Tensor x =
      dropout(embedding(tokens.tokens, {.positions = positions.table, .position_ids = ids}));  // [rows, d_model]
  return embedding.as_linear(layers(x, tokens.offsets, Mask::causal(), cache));                // [rows, vocabulary]
}

}  // namespace seppo::inline SEPPO_ABI
