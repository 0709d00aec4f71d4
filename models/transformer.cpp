// Transformer: embeddings, the two stacks, the output layer.
#include "transformer.h"

#include <cmath>

namespace seppo::inline SEPPO_ABI {
namespace {

Embedding make_embedding(const Scope& s, int vocabulary, const TransformerConfig& c) {
  return {s, vocabulary, c.layer.d_model, init_normal(c.scale_embeddings ? 1 / std::sqrt(c.layer.d_model) : 1)};
}

}  // namespace

void TransformerConfig::validate() const {
  layer.validate();
  check<ArgumentError>(!share_embeddings || src_vocabulary == tgt_vocabulary,
                       "transformer: shared embeddings need equal vocabularies, got ", src_vocabulary, " and ",
                       tgt_vocabulary);
}

Transformer::Transformer(const Scope& s, const TransformerConfig& c)
    : config(check_config("transformer", c)),
      src_embedding(make_embedding(s / (c.share_embeddings ? "embedding" : "src_embedding"), c.src_vocabulary, c)),
      tgt_embedding(c.share_embeddings ? src_embedding : make_embedding(s / "tgt_embedding", c.tgt_vocabulary, c)),
      positions(s / "positions", c.positions, c.max_length, c.layer.d_model,
                {.n_heads = c.layer.n_heads, .theta = c.rope_theta}),
      embedding_dropout(c.layer.dropout),
      encoder(s / "encoder", c.enc_layers, c.layer),
      decoder(s / "decoder", c.dec_layers, c.layer) {
  if (!c.tie_output)
    output.emplace(s / "output", c.layer.d_model, c.tgt_vocabulary, LinearOptions{.bias = c.layer.bias});
}

Tensor Transformer::embed(const Embedding& table, const Ragged& tokens, std::span<const int> position_ids) const {
  const real scale = config.scale_embeddings ? static_cast<real>(std::sqrt(config.layer.d_model)) : real{1};
  if (position_ids.empty()) position_ids = positions.ids(tokens.offsets);
  return embedding_dropout(table(
      tokens.tokens, {.scale = scale, .positions = positions.table, .position_ids = position_ids}));  // [rows, d_model]
}

Tensor Transformer::encode(const Ragged& src) const {
  const auto ids = positions.ids(src.offsets);
  return encoder(embed(src_embedding, src, ids), src.offsets, Mask::none(), nullptr, positions.for_attention(ids));
}

Tensor Transformer::decode(const Ragged& tgt, const Tensor& memory, Offsets memory_rows, KeyValueCache* cache) const {
  const auto ids = positions.ids(tgt.offsets, cache ? cache->extend(tgt.offsets) : std::span<const int>());
  const Tensor y = decoder(embed(tgt_embedding, tgt, ids), tgt.offsets, memory, memory_rows, cache,
                           positions.for_attention(ids));     // [rows, d_model]
  return output ? (*output)(y) : tgt_embedding.as_linear(y);  // [rows, tgt_vocabulary]
}

KeyValueCache Transformer::make_cache(std::size_t sources, int max_length) const {
  check<ArgumentError>(max_length > 0 && max_length <= config.max_length, "decode: max_length ", max_length,
                       " is not in 1..", config.max_length, ", the model's own");
  return {decoder.layers.size(), sources, max_length, config.layer.kv_width()};
}

}  // namespace seppo::inline SEPPO_ABI
