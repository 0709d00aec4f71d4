#include "transformer.h"

#include <cmath>

namespace seppo::inline SEPPO_ABI {
namespace {

const TransformerConfig& checked(const TransformerConfig& c) {
  check<ArgumentError>(c.src_vocabulary > 0 && c.tgt_vocabulary > 0, "transformer: vocabulary sizes ", c.src_vocabulary,
                       " and ", c.tgt_vocabulary, " must be positive");
  check<ArgumentError>(c.d_model > 0 && c.d_ff > 0 && c.enc_layers >= 0 && c.dec_layers >= 0, "transformer: d_model ",
                       c.d_model, " and d_ff ", c.d_ff, " must be positive, layer counts not negative");
  check<ArgumentError>(!c.share_embeddings || c.src_vocabulary == c.tgt_vocabulary,
                       "transformer: shared embeddings need equal vocabularies, got ", c.src_vocabulary, " and ",
                       c.tgt_vocabulary);
  return c;
}

Tensor embedding_table(const Scope& s, int vocabulary, const TransformerConfig& c) {
  return Embedding(s, vocabulary, c.d_model, c.scale_embeddings ? 1 / std::sqrt(c.d_model) : 1).weight;
}

}  // namespace

Transformer::Transformer(const Scope& s, const TransformerConfig& c)
    : config(checked(c)),
      src_embedding(embedding_table(s / (c.share_embeddings ? "embedding" : "src_embedding"), c.src_vocabulary, c)),
      tgt_embedding(c.share_embeddings ? src_embedding : embedding_table(s / "tgt_embedding", c.tgt_vocabulary, c)),
      positions(s / "positions", c.positions, c.max_length, c.d_model),
      embedding_dropout(c.dropout_place == DropoutPlace::after_norm ? 0 : c.dropout),
      encoder(s / "encoder", c.enc_layers, layer_config(c)) {
  for (int i = 0; i < c.dec_layers; ++i) decoder.emplace_back(s / "decoder" / i, layer_config(c));
  if (c.norm == Norm::pre) decoder_norm.emplace_back(s / "decoder" / "norm", c.d_model);
  if (!c.tie_output) output_projection.emplace_back(s / "output", c.d_model, c.tgt_vocabulary);
}

Tensor Transformer::embed(const Tensor& table, std::span<const int> tokens, std::span<const int> position_ids) const {
  const real scale = config.scale_embeddings ? static_cast<real>(std::sqrt(config.d_model)) : real{1};
  return embedding_dropout(
      embedding(table, tokens, {.scale = scale, .positions = positions.table, .position_ids = position_ids}));
}

Tensor Transformer::encode(const Ragged& src, AttentionMaps* maps) const {
  return encoder(embed(src_embedding, src.tokens, positions.ids(src.offsets)), src.offsets, maps);
}

Tensor Transformer::decode(const Ragged& tgt, const Tensor& memory, Offsets memory_rows, AttentionMaps* maps) const {
  Tensor x = embed(tgt_embedding, tgt.tokens, positions.ids(tgt.offsets));
  for (const DecoderLayer& layer : decoder) x = layer(x, tgt.offsets, memory, memory_rows, maps);
  return output(x);
}

Tensor Transformer::output(const Tensor& x) const {
  const Tensor y = decoder_norm.empty() ? x : decoder_norm.front()(x);
  return output_projection.empty() ? linear(y, tgt_embedding) : output_projection.front()(y);
}

}  // namespace seppo::inline SEPPO_ABI
