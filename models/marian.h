// Marian: the Transformer of Marian's translation models (Junczys-Dowmunt et al. 2018), such as Opus-MT's: sines and
// cosines side by side as positions, one embedding for source, target and output, and a bias of the scores.
//
//   const Marian marian(parameters.root(), {.src_vocabulary = 58101, .tgt_vocabulary = 58101, .layer = {...}});
//   const Tensor memory = marian.encode(src);                            // [source rows, d_model]
//   const Tensor scores = marian.decode(tgt, memory, src.offsets);       // [target rows, vocabulary]
//
// A target begins with the padding token. Hugging Face's weights, and weights for Hugging Face: marian_weights()
// (nn/io/foreign_weights.h).
#pragma once

#include "transformer.h"

#include <cmath>

namespace seppo {
inline namespace SEPPO_ABI {

struct Marian {
  // share_embeddings, tie_output and positions are Marian's, whatever the config says. Throws ArgumentError if a field
  // is out of range.
  Marian(const Scope& s, const TransformerConfig& c)
      : transformer(s, as_marian(c)), bias(s.buffer("final_logits_bias", {1, c.tgt_vocabulary}, init_zeros())) {
    const int width = c.layer.d_model;
    transformer.positions = PositionalEncoding(s.constant({c.max_length, width}, sines_beside_cosines));
  }

  // The encoder's output, "memory": [source rows, d_model].
  Tensor encode(const Ragged& src) const { return transformer.encode(src); }
  // Scores of the next token after each target position, [target rows, vocabulary]; the cache is
  // transformer.make_cache()'s.
  Tensor decode(const Ragged& tgt, const Tensor& memory, Offsets memory_offsets, KeyValueCache* cache = nullptr) const {
    return transformer.decode(tgt, memory, memory_offsets, cache) + bias;
  }
  Tensor logits(const Ragged& src, const Ragged& tgt) const { return decode(tgt, encode(src), src.offsets); }

  Transformer transformer;
  Tensor bias;  // [1, vocabulary], not trained

 private:
  static TransformerConfig as_marian(TransformerConfig c) {
    c.share_embeddings = c.tie_output = true;
    c.positions = Positions::none;
    return c;
  }
  // Position n has sin(n / 10000^(2 i / d)) in column i, and the cosine of the same angle in column d / 2 + i.
  static void sines_beside_cosines(std::span<real> values, const Shape& shape, RandomStream&) {
    const int width = shape.cols(), half = (width + 1) / 2;
    for (int i = 0; real & value : values) {
      const int column = i % width, pair = column < half ? column : column - half;
      const double angle = i++ / width * std::pow(10000.0, -2.0 * pair / width);
      value = static_cast<real>(column < half ? std::sin(angle) : std::cos(angle));
    }
  }
};

}  // namespace SEPPO_ABI
}  // namespace seppo
