// The encoder-decoder Transformer of "Attention is all you need" (Vaswani et al. 2017, figure 1). The boxes of that
// figure are in transformer_layers.h.
//
//   Parameters parameters(seed);
//   Transformer model(parameters.root(), {.src_vocabulary = 16, .tgt_vocabulary = 16, .layer = {.d_model = 32, ...}});
//   Tensor logits = model.logits(src, tgt_in);      // [target rows, tgt_vocabulary]
//
// Batches are ragged (nn/data/ragged.h): no padded position is ever computed. Decoding (decoding/beam.h) passes a cache
// of keys and values; x then holds only the new positions of each sequence.
#pragma once

#include "../autograd/core/region.h"
#include "../nn/config.h"
#include "../nn/data/ragged.h"
#include "../nn/modules/dropout.h"
#include "../nn/modules/embedding.h"
#include "../nn/modules/positional_encoding.h"
#include "transformer_layers.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

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
    v("src_vocabulary", src_vocabulary, {1, 1 << 30}, "tokens of the source", {.source = Source::data});
    v("tgt_vocabulary", tgt_vocabulary, {1, 1 << 30}, "tokens of the target", {.source = Source::data});
    layer.fields(v);
    v("enc_layers", enc_layers, {0, 1000}, "layers of the encoder");
    v("dec_layers", dec_layers, {0, 1000}, "layers of the decoder");
    v("positions", positions, "positional encoding");
    v("max_length", max_length, {1, 1 << 20}, "longest sequence in tokens");
    v("share_embeddings", share_embeddings, "one embedding table for source and target");
    v("tie_output", tie_output, "the output layer's weight is the target embedding");
    v("scale_embeddings", scale_embeddings, "multiply embeddings by sqrt(d_model)");
    v("rope_theta", rope_theta, {1, 1e12}, "base of the wavelengths of rotary positions", {.may_be_missing = true});
  }
  void validate() const {
    layer.validate();
    check<ArgumentError>(!share_embeddings || src_vocabulary == tgt_vocabulary,
                         "transformer: shared embeddings need equal vocabularies, got ", src_vocabulary, " and ",
                         tgt_vocabulary);
  }
};

struct Transformer {
  using Config = TransformerConfig;
  // Throws ArgumentError if a field is out of range.
  Transformer(const Scope& s, const TransformerConfig& c)
      : config(check_config("transformer", c)),
        src_embedding(make_embedding(s / (c.share_embeddings ? "embedding" : "src_embedding"), c.src_vocabulary, c)),
        tgt_embedding(c.share_embeddings ? src_embedding : make_embedding(s / "tgt_embedding", c.tgt_vocabulary, c)),
        positions(s / "positions", c.positions, c.max_length, c.layer.d_model,
                  {.n_heads = c.layer.n_heads, .theta = c.rope_theta, .head_width = c.layer.head_width}),
        embedding_dropout(c.layer.dropout),
        encoder(s / "encoder", c.enc_layers, c.layer),
        decoder(s / "decoder", c.dec_layers, c.layer) {
    if (!c.tie_output)
      output.emplace(s / "output", c.layer.d_model, c.tgt_vocabulary, LinearOptions{.bias = c.layer.bias});
  }

  // The encoder's output, "memory": [source rows, d_model]. Positions are 0, 1, 2 ... in each sequence, unless given
  // for each row: a symbol of the source that belongs to one place of the target can have its position ("position
  // coupling", Cho et al. 2024). Throws ShapeError unless there is one for each row, IndexError for one that is not in
  // 0 .. max_length - 1.
  Tensor encode(const Ragged& src, std::span<const int> position_ids = {}) const {
    const auto ids = position_ids.empty() ? positions.ids(src.offsets) : kept(position_ids, src.tokens.size());
    const Tensor x = embed(src_embedding, src, ids);  // [rows, d_model]
    return encoder(x, src.offsets, {.positions = positions.for_attention(ids)});
  }
  // Scores of the next token after each target position: [target rows, tgt_vocabulary]. With a cache, tgt continues
  // the cached targets, and `memory` is read by the first call only. Positions can be given as to encode().
  Tensor decode(const Ragged& tgt, const Tensor& memory, Offsets memory_offsets, KeyValueCache* cache = nullptr,
                std::span<const int> position_ids = {}) const {
    const auto first = cache ? cache->extend(tgt.offsets) : std::span<const int>();
    const auto ids = position_ids.empty() ? positions.ids(tgt.offsets, first) : kept(position_ids, tgt.tokens.size());
    const Tensor x = embed(tgt_embedding, tgt, ids);  // [rows, d_model]
    const Tensor y =
        decoder(x, tgt.offsets, memory, memory_offsets, {.cache = cache, .positions = positions.for_attention(ids)});
    return output ? (*output)(y) : tgt_embedding.as_linear(y);  // [rows, tgt_vocabulary]
  }
  Tensor logits(const Ragged& src, const Ragged& tgt) const { return decode(tgt, encode(src), src.offsets); }

  // Dropout(scale * embedding + position): [rows, d_model]. Positions default to 0, 1, 2 ... in each sequence.
  Tensor embed(const Embedding& table, const Ragged& tokens, std::span<const int> position_ids = {}) const {
    if (position_ids.empty()) position_ids = positions.ids(tokens.offsets);
    const real scale = config.scale_embeddings ? static_cast<real>(std::sqrt(config.layer.d_model)) : real{1};
    return embedding_dropout(
        table(tokens.tokens, {.scale = scale, .positions = positions.table, .position_ids = position_ids}));
  }

  // An empty cache for one target of each source, none longer than max_length.
  KeyValueCache make_cache(std::size_t sources, int max_length) const {
    check<ArgumentError>(max_length > 0 && max_length <= config.max_length, "decode: max_length ", max_length,
                         " is not in 1..", config.max_length, ", the model's own");
    return {decoder.layers.size(), sources, max_length, config.layer.kv_width()};
  }

  TransformerConfig config;
  Embedding src_embedding, tgt_embedding;  // the same tensor when shared
  PositionalEncoding positions;
  Dropout embedding_dropout;
  Encoder encoder;
  Decoder decoder;
  std::optional<Linear> output;  // none when tied

 private:
  // Given positions, on the tape.
  std::span<const int> kept(std::span<const int> ids, std::size_t rows) const {
    check(ids.size() == rows, "transformer: ", ids.size(), " positions for ", rows, " rows");
    const auto [least, most] = std::ranges::minmax(ids);
    check<IndexError>(least >= 0 && most < config.max_length, "transformer: position ", least < 0 ? least : most,
                      " is not in 0..", config.max_length - 1);
    if (positions.sinusoids) positions.sinusoids->compute_up_to(most + 1);
    return tape().keep(ids);
  }

  static Embedding make_embedding(const Scope& s, int vocabulary, const TransformerConfig& c) {
    return {s, vocabulary, c.layer.d_model, init_normal(c.scale_embeddings ? 1 / std::sqrt(c.layer.d_model) : 1)};
  }
};

}  // namespace SEPPO_ABI
}  // namespace seppo
