// The boxes of a Transformer's figure (Vaswani et al. 2017, figure 1): Add & Norm, the encoder and decoder layers, and
// the two stacks of these. All models here are built from them. Multi-head attention, feed-forward networks, embeddings
// and positional encodings are in nn/modules.
#pragma once

#include "../autograd/core/guards.h"
#include "../autograd/core/region.h"
#include "../autograd/tools/checkpointing.h"
#include "../nn/config.h"
#include "../nn/modules/feed_forward.h"
#include "../nn/modules/layer_norm.h"
#include "../nn/modules/multi_head_attention.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

enum class Norm {
  post,  // LayerNorm(x + Dropout(sublayer(x))): the paper
  pre    // x + Dropout(sublayer(LayerNorm(x))): easier to train deep (Xiong et al. 2020)
};

inline std::span<const char* const> enum_names(Norm) {
  static constexpr const char* kNames[] = {"post", "pre"};
  return kNames;
}
inline std::span<const char* const> enum_names(Activation) {
  static constexpr const char* kNames[] = {"none", "relu",   "gelu",  "gelu_tanh",
                                           "silu", "swiglu", "geglu", "geglu_tanh"};
  return kNames;
}
inline std::span<const char* const> enum_names(NormKind) {
  static constexpr const char* kNames[] = {"layer", "rms"};
  return kNames;
}

// What all layers of a stack share; the defaults are the paper's base model.
struct LayerConfig {
  int d_model = 512;
  int n_heads = 8;
  int d_ff = 2048;
  double dropout = 0.1;
  double attention_dropout = 0;
  Norm norm = Norm::post;
  Activation activation = Activation::relu;
  bool bias = true;
  double eps = 1e-5;
  int n_kv_heads = 0;
  NormKind norm_kind = NormKind::layer;
  int head_width = 0;
  bool attention_bias = true;

  void fields(ConfigVisitor& v) {
    v("d_model", d_model, {1, 65536}, "width of the model");
    v("n_heads", n_heads, {1, 65536}, "attention heads; must divide d_model, unless heads have a width of their own");
    v("d_ff", d_ff, {1, 1 << 20}, "width of the feed-forward networks");
    v("dropout", dropout, {0, 1}, "dropout of each sublayer's output and of the embedded inputs");
    v("attention_dropout", attention_dropout, {0, 1}, "dropout of the attention weights");
    v("norm", norm, "layer norm after each sublayer, as in the paper, or before it");
    v("activation", activation, "activation of the feed-forward networks");
    v("bias", bias, "biases in linear maps and layer norms");
    v("eps", eps, {0, 1}, "added to the variance by layer norms");
    v("n_kv_heads", n_kv_heads, {0, 65536}, "heads of keys and values; must divide n_heads; 0: equal to it",
      {.may_be_missing = true});
    v("norm_kind", norm_kind, "layer norm, or RMS norm", {.may_be_missing = true});
    v("head_width", head_width, {0, 65536}, "columns of an attention head; 0: d_model / n_heads",
      {.may_be_missing = true});
    v("attention_bias", attention_bias, "biases in the projections of attention, if there are biases",
      {.may_be_missing = true});
  }
  // n_heads must divide d_model, unless head_width is given, and n_kv_heads must divide n_heads. All heads together
  // have at most 2^24 columns.
  void validate() const {
    check<ArgumentError>(n_heads > 0 && (head_width > 0 || d_model % n_heads == 0), "layer: d_model ", d_model,
                         " is not a multiple of n_heads ", n_heads);
    check<ArgumentError>(n_kv_heads == 0 || n_heads % n_kv_heads == 0, "layer: n_heads ", n_heads,
                         " is not a multiple of n_kv_heads ", n_kv_heads);
    constexpr std::int64_t kMostColumns = 1 << 24;
    check<ArgumentError>(std::int64_t{head_width} * n_heads <= kMostColumns, "layer: ", n_heads, " heads of ",
                         head_width, " columns are wider than ", kMostColumns);
  }
  int head_columns() const { return head_width > 0 ? head_width : d_model / n_heads; }
  int kv_heads() const { return n_kv_heads == 0 ? n_heads : n_kv_heads; }
  // Columns of the keys, and of the values.
  int kv_width() const { return head_columns() * kv_heads(); }

  // The options of a layer's modules.
  MultiHeadAttentionOptions attention() const {
    return {.dropout = attention_dropout,
            .bias = bias && attention_bias,
            .n_kv_heads = n_kv_heads,
            .head_width = head_width};
  }
  FeedForwardOptions feed_forward() const { return {.activation = activation, .bias = bias}; }
  LayerNormOptions layer_norm() const { return {.eps = eps, .bias = bias, .kind = norm_kind}; }
};

// "Add & Norm": the residual connection around a sublayer, and its layer norm. The sublayer is any x -> y of equal
// shapes. `options` are the op's; options.dropout_after gives Dropout(LayerNorm(x + sublayer(x))), post-norm only.
struct AddNorm {
  AddNorm(const Scope& s, const LayerConfig& c)
      : norm(s, c.d_model, c.layer_norm()),
        order(c.norm),
        options{.eps = c.eps,
                .dropout_before = c.dropout,
                .dropout_after = 0,
                .is_centred = c.norm_kind == NormKind::layer} {}

  template <class Sublayer>
  Tensor operator()(const Tensor& x, const Sublayer& sublayer) const {  // [rows, d_model]
    if (order == Norm::pre) {
      check<ArgumentError>(options.dropout_after == 0, "add_norm: dropout after the norm needs post-norm");
      return add_dropout(x, sublayer(norm(x)), options.dropout_before);
    }
    const Tensor y = sublayer(x);
    const Region here(norm.name);
    return here(add_norm(x, y, norm.weight, norm.bias, options));
  }

  LayerNorm norm;
  Norm order;
  AddNormOptions options;
};

// With Mask::causal() it is also the layer of a decoder-only model.
struct EncoderLayer {
  EncoderLayer(const Scope& s, const LayerConfig& c)
      : self_attn(s / "self_attn", c.d_model, c.n_heads, c.attention()),
        ffn(s / "ffn", c.d_model, c.d_ff, c.feed_forward()),
        add_norm_1(s / "norm1", c),
        add_norm_2(s / "norm2", c),
        name(s.region()) {}

  // x and the result are [rows, d_model].
  Tensor operator()(const Tensor& x, Offsets offsets, const AttentionExtras& extras = {}) const {
    const Region here(name);
    const Tensor a = add_norm_1(x, [&](const Tensor& z) { return self_attn(z, offsets, extras); });
    return here(add_norm_2(a, ffn));
  }

  MultiHeadAttention self_attn;
  FeedForward ffn;
  AddNorm add_norm_1, add_norm_2;
  RegionName name;
};

// layer(x, offsets, extras), of which backward computes all but the result again. The layer must live until then.
inline Tensor recomputed(const EncoderLayer& layer, const Tensor& x, Offsets offsets, const AttentionExtras& extras) {
  const Offsets kept = tape().keep<int>(offsets);
  AttentionExtras own = extras;
  own.mask.lengths = tape().keep(extras.mask.lengths);
  own.mask.query_lengths = tape().keep(extras.mask.query_lengths);
  own.mask.pairs = tape().keep(extras.mask.pairs);
  const auto run = [&layer, kept, own](std::span<const Tensor> inputs) {
    AttentionExtras now = own;
    if (inputs.size() > 1) now.bias = inputs[1];
    return layer(inputs[0], kept, now);
  };
  if (extras.bias.defined()) return checkpoint({x, extras.bias}, run);
  return checkpoint({x}, run);
}

// Masked self-attention over the target, then attention over the encoder's output ("memory").
struct DecoderLayer {
  DecoderLayer(const Scope& s, const LayerConfig& c)
      : self_attn(s / "self_attn", c.d_model, c.n_heads, c.attention()),
        cross_attn(s / "cross_attn", c.d_model, c.n_heads, c.attention()),
        ffn(s / "ffn", c.d_model, c.d_ff, c.feed_forward()),
        add_norm_1(s / "norm1", c),
        add_norm_2(s / "norm2", c),
        add_norm_3(s / "norm3", c),
        name(s.region()) {}

  // x and the result are [rows, d_model], the memory is [memory rows, d_model]. The extras are those of self-attention,
  // but for the cache, which both continue. Throws ArgumentError for a mask that is not causal.
  Tensor operator()(const Tensor& x, Offsets offsets, const Tensor& memory, Offsets memory_offsets,
                    const AttentionExtras& extras = {}) const {
    check<ArgumentError>(extras.mask.has_no_lists(), "decoder: its self-attention is causal and takes no other mask");
    const Region here(name);
    AttentionExtras own = extras;
    own.mask = Mask::causal();
    const AttentionExtras cached{.cache = extras.cache, .layer = extras.layer};
    const auto attend = [&](const Tensor& z) { return self_attn(z, offsets, own); };
    const auto attend_memory = [&](const Tensor& z) { return cross_attn(z, offsets, memory, memory_offsets, cached); };
    const Tensor a = add_norm_1(x, attend);
    const Tensor b = add_norm_2(a, attend_memory);
    return here(add_norm_3(b, ffn));
  }

  MultiHeadAttention self_attn, cross_attn;
  FeedForward ffn;
  AddNorm add_norm_1, add_norm_2, add_norm_3;
  RegionName name;
};

// A stack of layers, with a final norm if pre-norm. The number of the layer in `extras` is the stack's to set.
struct Encoder {
  Encoder(const Scope& s, int n_layers, const LayerConfig& c) : name(s.region()) {
    for (int i = 0; i < n_layers; ++i) layers.emplace_back(s / i, c);
    if (c.norm == Norm::pre) norm.emplace(s / "norm", c.d_model, c.layer_norm());
  }

  // x and the result are [rows, d_model].
  Tensor operator()(Tensor x, Offsets offsets, AttentionExtras extras = {}) const {
    const Region here(name);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      extras.layer = i;
      x = checkpoints && tape().records() ? recomputed(layers[i], x, offsets, extras)
                                          : result_of(x.shape(), [&] { return layers[i](x, offsets, extras); });
    }
    return here(norm ? (*norm)(x) : x);
  }

  std::vector<EncoderLayer> layers;
  std::optional<LayerNorm> norm;
  RegionName name;
  // Training keeps only the input of each layer, and backward computes the rest again: the same gradients in less
  // memory and more time (autograd/tools/checkpointing.h). The stack must live until backward has passed.
  bool checkpoints = false;
};

struct Decoder {
  Decoder(const Scope& s, int n_layers, const LayerConfig& c) : name(s.region()) {
    for (int i = 0; i < n_layers; ++i) layers.emplace_back(s / i, c);
    if (c.norm == Norm::pre) norm.emplace(s / "norm", c.d_model, c.layer_norm());
  }

  // x and the result are [rows, d_model], the memory is [memory rows, d_model].
  Tensor operator()(Tensor x, Offsets offsets, const Tensor& memory, Offsets memory_offsets,
                    AttentionExtras extras = {}) const {
    const Region here(name);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      extras.layer = i;
      x = result_of(x.shape(), [&] { return layers[i](x, offsets, memory, memory_offsets, extras); });
    }
    return here(norm ? (*norm)(x) : x);
  }

  std::vector<DecoderLayer> layers;
  std::optional<LayerNorm> norm;
  RegionName name;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
