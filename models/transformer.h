// The encoder-decoder Transformer of "Attention is all you need" (Vaswani et al. 2017, figure 1).
//
//   Parameters parameters(seed);
//   Transformer model(parameters.root(), {.src_vocabulary = 16, .tgt_vocabulary = 16, .d_model = 32, ...});
//   Tensor logits = model.logits(src, tgt_in);      // [target rows, tgt_vocabulary]
//
// Batches are ragged (nn/batch.h): no padded position is ever computed. Greedy decoding is in decode.h.
#pragma once

#include "transformer_layers.h"
#include "../nn/data/ragged.h"
#include "../nn/layers/embedding.h"
#include "../nn/layers/positional_encoding.h"

namespace seppo::inline SEPPO_ABI {

struct TransformerConfig {
  int src_vocabulary = 0, tgt_vocabulary = 0;
  int d_model = 512;
  int n_heads = 8;
  int d_ff = 2048;
  int enc_layers = 6, dec_layers = 6;
  double dropout = 0.1;  // of each sublayer's output and of the embedded inputs
  Norm norm = Norm::post;
  DropoutPlace dropout_place = DropoutPlace::before_residual;  // after_norm leaves the inputs alone
  Positions positions = Positions::sinusoid;
  int max_length = 512;           // of a sequence, source or target
  bool share_embeddings = false;  // one table for source and target; the vocabularies must be equal
  bool tie_output = false;        // the output layer's weight is the target embedding, without bias
  bool scale_embeddings = true;   // multiply embeddings by sqrt(d_model), drawn from N(0, 1 / d_model)
};

struct Transformer {
  Transformer(const Scope& s, const TransformerConfig& config);

  // What the encoder makes of the source. [source rows, d_model]
  Tensor encode(const Ragged& src, AttentionMaps* maps = nullptr) const;
  // Scores of the next token after each target position. [target rows, tgt_vocabulary]
  Tensor decode(const Ragged& tgt, const Tensor& memory, Offsets memory_rows, AttentionMaps* maps = nullptr) const;
  Tensor logits(const Ragged& src, const Ragged& tgt, AttentionMaps* maps = nullptr) const {
    return decode(tgt, encode(src, maps), src.offsets, maps);
  }

  // The pieces of decode(), for decoding step by step.
  Tensor embed(const Tensor& table, std::span<const int> tokens, std::span<const int> position_ids) const;
  Tensor output(const Tensor& x) const;  // [rows, d_model] -> [rows, tgt_vocabulary]

  TransformerConfig config;
  Tensor src_embedding, tgt_embedding;  // [vocabulary, d_model]; the same tensor when shared
  PositionalEncoding positions;
  Dropout embedding_dropout;
  Encoder encoder;
  std::vector<DecoderLayer> decoder;
  std::vector<LayerNorm> decoder_norm;    // pre-norm only
  std::vector<Linear> output_projection;  // none when tied

 private:
  static LayerConfig layer_config(const TransformerConfig& c) {
    return {c.d_model, c.n_heads, c.d_ff, c.dropout, c.norm, c.dropout_place, 0, Activation::relu, true};
  }
};

}  // namespace seppo::inline SEPPO_ABI
