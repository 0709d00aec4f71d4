// The encoder-decoder Transformer of "Attention is all you need" (Vaswani et al. 2017, figure 1).
//
//   Parameters parameters(seed);
//   Transformer model(parameters.root(), {.src_vocabulary = 16, .tgt_vocabulary = 16, .layer = {.d_model = 32, ...}});
//   Tensor logits = model.logits(src, tgt_in);      // [target rows, tgt_vocabulary]
//
// Batches are ragged (nn/data/ragged.h): no padded position is ever computed. Decoding is in models/decoding.
#pragma once

#include "../nn/data/ragged.h"
#include "../nn/layers/dropout.h"
#include "../nn/layers/embedding.h"
#include "../nn/layers/positional_encoding.h"
#include "transformer_layers.h"

namespace seppo::inline SEPPO_ABI {

struct TransformerConfig {
  int src_vocabulary = 0, tgt_vocabulary = 0;
  LayerConfig layer;
  int enc_layers = 6, dec_layers = 6;
  Positions positions = Positions::sinusoid;
  int max_length = 512;           // of a sequence, source or target
  bool share_embeddings = false;  // one table for source and target; the vocabularies must be equal
  bool tie_output = false;        // the output layer's weight is the target embedding, without bias
  bool scale_embeddings = true;   // multiply embeddings by sqrt(d_model), drawn from N(0, 1 / d_model)
  double rope_theta = 10000;

  void fields(ConfigVisitor& v) {
    v("src_vocabulary", src_vocabulary, {1, 1 << 30});
    v("tgt_vocabulary", tgt_vocabulary, {1, 1 << 30});
    layer.fields(v);
    v("enc_layers", enc_layers, {0, 1000}, "layers of the encoder");
    v("dec_layers", dec_layers, {0, 1000}, "layers of the decoder");
    v("positions", positions, "positional encoding");
    v("max_length", max_length, {1, 1 << 20}, "longest sequence in tokens");
    v("share_embeddings", share_embeddings, "one embedding table for source and target");
    v("tie_output", tie_output, "the output layer's weight is the target embedding");
    v("scale_embeddings", scale_embeddings, "multiply embeddings by sqrt(d_model)");
    v.added()("rope_theta", rope_theta, {1, 1e12}, "base of the wavelengths of rotary positions");
  }
  void validate() const;
};

struct Transformer {
  using Config = TransformerConfig;
  // Throws ArgumentError if a field is out of range.
  Transformer(const Scope& s, const TransformerConfig& config);

  // The encoder's output, "memory": [source rows, d_model].
  Tensor encode(const Ragged& src) const;
  // Scores of the next token after each target position: [target rows, tgt_vocabulary]. With a cache, tgt continues
  // the cached targets, and `memory` is read by the first call only.
  Tensor decode(const Ragged& tgt, const Tensor& memory, Offsets memory_rows, KeyValueCache* cache = nullptr) const;
  Tensor logits(const Ragged& src, const Ragged& tgt) const { return decode(tgt, encode(src), src.offsets); }

  // Dropout(scale * embedding + position): [rows, d_model]. Rows have these positions, or 0, 1, 2 ... in each sequence.
  Tensor embed(const Embedding& table, const Ragged& tokens, std::span<const int> position_ids = {}) const;

  // An empty cache for one target of each source, none longer than max_length.
  KeyValueCache make_cache(std::size_t sources, int max_length) const;

  TransformerConfig config;
  Embedding src_embedding, tgt_embedding;  // the same tensor when shared
  PositionalEncoding positions;
  Dropout embedding_dropout;
  Encoder encoder;
  Decoder decoder;
  std::optional<Linear> output;  // none when tied
};

}  // namespace seppo::inline SEPPO_ABI
