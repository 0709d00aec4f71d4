// T5: an encoder-decoder whose attention knows positions by a learned bias for each range of distances (Raffel et al.
// 2020), in either form: of the paper, or version 1.1 with a gate and an output layer of its own (flan-t5).
//
//   const T5 t5(parameters.root(), {.vocabulary = 32128});
//   const Tensor memory = t5.encode(src);                         // [source rows, d_model]
//   const Tensor logits = t5.decode(tgt, memory, src.offsets);    // [target rows, vocabulary]
//
// A target begins with the padding token, 0. Hugging Face's weights, and weights for Hugging Face: t5_weights()
// (nn/io/foreign_weights.h).
#pragma once

#include "../nn/config.h"
#include "../nn/data/ragged.h"
#include "../nn/modules/dropout.h"
#include "../nn/modules/embedding.h"
#include "../nn/modules/layer_norm.h"
#include "../nn/modules/linear.h"
#include "../nn/modules/multi_head_attention.h"

#include <optional>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// The defaults are those of t5-small, without its vocabulary.
struct T5Config {
  int vocabulary = 0;
  int d_model = 512, n_heads = 8;
  int head_width = 64;  // apart from d_model / n_heads
  int d_ff = 2048;
  int enc_layers = 6, dec_layers = 6;
  int buckets = 32;        // of distances; half of them for those to later tokens, where these are visible
  int max_distance = 128;  // from which on all are in the last bucket
  bool is_gated = false;   // gelu(gate(x)) up(x) instead of relu(up(x)) in the feed-forward networks: version 1.1
  bool tie_output = true;  // the output layer's weight is the embedding; version 1.1: false
  bool scale_tied = true;  // it is then given x / sqrt(d_model); false in files of version 1.1 that say they are tied
  double dropout = 0.1, eps = 1e-6;

  void fields(ConfigVisitor& v) {
    v("vocabulary", vocabulary, {1, 1 << 30}, "tokens that the model knows", {.source = Source::data});
    v("d_model", d_model, {1, 65536}, "width of the model");
    v("n_heads", n_heads, {1, 65536}, "attention heads");
    v("head_width", head_width, {1, 65536}, "width of a head");
    v("d_ff", d_ff, {1, 1 << 20}, "width of the feed-forward networks");
    v("enc_layers", enc_layers, {0, 1000}, "layers of the encoder");
    v("dec_layers", dec_layers, {0, 1000}, "layers of the decoder");
    v("buckets", buckets, {4, 65536}, "ranges of distances; even");
    v("max_distance", max_distance, {2, 1 << 20}, "distance from which on all are in one range");
    v("is_gated", is_gated, "feed-forward networks with a gate");
    v("tie_output", tie_output, "the output layer's weight is the embedding");
    v("scale_tied", scale_tied, "a tied output layer is given its input divided by sqrt(d_model)",
      {.may_be_missing = true});
    v("dropout", dropout, {0, 1}, "dropout of embeddings, attention weights, activations and sublayers' outputs");
    v("eps", eps, {0, 1}, "added to the mean square by norms");
  }
  // buckets is even, and max_distance beyond the distances that have a bucket of their own.
  void validate() const {
    check<ArgumentError>(buckets % 2 == 0, "t5: buckets ", buckets, " is odd");
    check<ArgumentError>(max_distance > buckets / 2, "t5: max_distance ", max_distance, " is not above buckets / 2, ",
                         buckets / 2);
  }
};

// Which range the distance from a query to a key, key - query, is in. In either direction the smaller half of the
// buckets is for one distance each, the others for ranges that grow in proportion, up to max_distance. Keys after the
// query share the first bucket, unless half of the buckets is theirs (is_bidirectional).
int t5_bucket(int distance, bool is_bidirectional, int buckets, int max_distance);

// One of the two stacks, with its table of biases.
class T5Stack {
 public:
  // The encoder sees all of a text; the decoder what precedes, and a memory.
  enum class Kind { encoder, decoder };

  T5Stack(const Scope& s, Kind kind, const T5Config& c);

  // x and the result are [rows, d_model]; the memory, of a decoder, is [memory rows, d_model].
  Tensor operator()(Tensor x, Offsets offsets, const Tensor& memory = {}, Offsets memory_offsets = {}) const;

 private:
  struct FeedForward {
    FeedForward(const Scope& s, const T5Config& c);
    Tensor operator()(const Tensor& x) const;
    std::optional<Linear> gate;
    Linear up, down;
    Dropout dropout;
  };
  struct Layer {
    Layer(const Scope& s, Kind kind, const T5Config& c);
    LayerNorm self_norm;
    MultiHeadAttention self_attn;
    std::optional<LayerNorm> cross_norm;
    std::optional<MultiHeadAttention> cross_attn;
    LayerNorm ffn_norm;
    FeedForward ffn;
  };

  Tensor biases(int longest) const;  // [1, heads, longest, longest]

  Kind kind_;
  T5Config config_;
  Tensor relative_;  // [buckets, heads]
  std::vector<Layer> layers_;
  LayerNorm norm_;
};

struct T5 {
  using Config = T5Config;
  // Throws ArgumentError if a field is out of range.
  T5(const Scope& s, const T5Config& c);

  // The encoder's output, "memory": [source rows, d_model].
  Tensor encode(const Ragged& src) const;
  // Scores of the next token after each target position: [target rows, vocabulary].
  Tensor decode(const Ragged& tgt, const Tensor& memory, Offsets memory_offsets) const;
  Tensor logits(const Ragged& src, const Ragged& tgt) const { return decode(tgt, encode(src), src.offsets); }

  T5Config config;
  Embedding embedding;
  Dropout dropout;
  T5Stack encoder, decoder;
  std::optional<Linear> output;  // none when tied
};

}  // namespace SEPPO_ABI
}  // namespace seppo
