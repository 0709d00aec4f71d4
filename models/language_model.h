// LanguageModel: a decoder-only Transformer that predicts the next token, in the manner of GPT-2 (Radford
// et al. 2019): pre-norm, GELU, learned positions, and the embedding as output layer.
//
//   LanguageModel model(parameters.root(), {.vocabulary = 65, .d_model = 128, .n_heads = 4, .n_layers = 4});
//   Tensor logits = model(tokens);      // [rows, vocabulary]: row i scores the token after tokens i
#pragma once

#include "transformer_layers.h"
#include "../nn/data/ragged.h"
#include "../nn/layers/embedding.h"
#include "../nn/layers/positional_encoding.h"

namespace seppo::inline SEPPO_ABI {

struct LanguageModelConfig {
  int vocabulary = 0;
  int d_model = 384;
  int n_heads = 6;
  int d_ff = 0;  // 0: 4 d_model
  int n_layers = 6;
  double dropout = 0.2;  // of the embedded inputs, the attention weights and both branches of a layer
  int max_length = 256;
  bool has_bias = false;  // in linear maps and norms
};

struct LanguageModel {
  LanguageModel(const Scope& s, const LanguageModelConfig& c)
      : config(c),
        embedding(s / "embedding", c.vocabulary, c.d_model, 0.02),
        positions(s / "positions", Positions::learned, c.max_length, c.d_model),
        dropout(c.dropout),
        layers(s / "layers", c.n_layers,
               {.d_model = c.d_model,
                .n_heads = c.n_heads,
                .d_ff = c.d_ff > 0 ? c.d_ff : 4 * c.d_model,
                .dropout = c.dropout,
                .norm = Norm::pre,
                .attention_dropout = c.dropout,
                .activation = Activation::gelu,
                .has_bias = c.has_bias}) {}

  Tensor operator()(const Ragged& tokens, AttentionMaps* maps = nullptr) const {
    const Tensor x = dropout(
        embedding(tokens.tokens, {.positions = positions.table, .position_ids = positions.ids(tokens.offsets)}));
    return linear(layers(x, tokens.offsets, maps, Mask::causal()), embedding.weight);
  }

  LanguageModelConfig config;
  Embedding embedding;
  PositionalEncoding positions;
  Dropout dropout;
  Encoder layers;
};

}  // namespace seppo::inline SEPPO_ABI
