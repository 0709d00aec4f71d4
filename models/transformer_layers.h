// The boxes of figure 1 of "Attention is all you need" (Vaswani et al. 2017).
#pragma once

#include "../nn/layers/attention.h"
#include "../nn/layers/dropout.h"
#include "../nn/layers/feed_forward.h"
#include "../nn/layers/layer_norm.h"

#include <string>
#include <vector>

namespace seppo::inline SEPPO_ABI {

enum class Norm {
  post,  // LayerNorm(x + Dropout(sublayer(x))): the paper
  pre    // x + Dropout(sublayer(LayerNorm(x))): easier to train deep (Xiong et al. 2020)
};

// Where a sublayer's output is dropped.
enum class DropoutPlace {
  before_residual,  // LayerNorm(x + Dropout(sublayer(x))): the paper
  after_norm        // Dropout(LayerNorm(x + sublayer(x))): as some courses teach it; post-norm only
};

// The sizes every layer shares.
struct LayerConfig {
  int d_model = 512;
  int n_heads = 8;
  int d_ff = 2048;
  double dropout = 0.1;
  Norm norm = Norm::post;
  DropoutPlace dropout_place = DropoutPlace::before_residual;
  double attention_dropout = 0;  // of the attention weights
  Activation activation = Activation::relu;
  bool has_bias = true;      // in linear maps and norms
  bool shares_norm = false;  // an encoder layer has one LayerNorm for both sublayers
};

// The attention weights of one call, kept for people to look at.
struct AttentionMap {
  std::string name;           // "encoder.0.self_attn"
  Shape shape;                // [sequences, heads, queries, keys]
  std::vector<real> weights;  // row-major
};
using AttentionMaps = std::vector<AttentionMap>;

// Runs attend(Tensor* weights) and, if maps are wanted, keeps the weights under layer + what.
template <class F>
Tensor with_map(AttentionMaps* maps, const std::string& layer, const char* what, const F& attend) {
  if (!maps) return attend(nullptr);
  Tensor weights;
  const Tensor y = attend(&weights);
  maps->push_back({layer + what, weights.shape(), {weights.values().begin(), weights.values().end()}});
  return y;
}

// "Add & Norm": the residual connection around a sublayer, and its normalisation.
struct AddNorm {
  AddNorm(const Scope& s, const LayerConfig& c)
      : norm(s, c.d_model, 1e-5, c.has_bias), dropout(c.dropout), order(c.norm), place(c.dropout_place) {
    check<ArgumentError>(order == Norm::post || place == DropoutPlace::before_residual,
                         "transformer: dropout after the norm needs post-norm (", s.path(), ")");
  }

  template <class F>
  Tensor operator()(const Tensor& x, const F& sublayer) const {
    if (order == Norm::pre) return add_dropout(x, sublayer(norm(x)), dropout);
    const bool is_after = place == DropoutPlace::after_norm;
    const Tensor y = sublayer(x);
    const Region here(norm.name);
    return here(add_norm(x, y, norm.weight, norm.bias, {norm.eps, is_after ? 0 : dropout, is_after ? dropout : 0}));
  }

  LayerNorm norm;
  double dropout;
  Norm order;
  DropoutPlace place;
};

// With Mask::causal() also the layer of a decoder-only model.
struct EncoderLayer {
  EncoderLayer(const Scope& s, const LayerConfig& c)
      : self_attn(s / "self_attn", c.d_model, c.n_heads, c.attention_dropout, c.has_bias),
        ffn(s / "ffn", c.d_model, c.d_ff, c.activation, c.has_bias),
        add_norm_1(s / "norm1", c),
        add_norm_2(c.shares_norm ? add_norm_1 : AddNorm(s / "norm2", c)),
        name(s.region()) {}

  Tensor operator()(const Tensor& x, Offsets rows, AttentionMaps* maps = nullptr,
                    const Mask& mask = Mask::none()) const {  // [rows, d_model]
    const Region here(name);
    const Tensor y = add_norm_1(x, [&](const Tensor& z) {
      return with_map(maps, name.text(), ".self_attn", [&](Tensor* w) { return self_attn(z, rows, mask, w); });
    });
    return here(add_norm_2(y, ffn));
  }

  MultiHeadAttention self_attn;
  FeedForward ffn;
  AddNorm add_norm_1, add_norm_2;
  RegionName name;
};

struct DecoderLayer {
  DecoderLayer(const Scope& s, const LayerConfig& c)
      : self_attn(s / "self_attn", c.d_model, c.n_heads, c.attention_dropout, c.has_bias),
        cross_attn(s / "cross_attn", c.d_model, c.n_heads, c.attention_dropout, c.has_bias),
        ffn(s / "ffn", c.d_model, c.d_ff, c.activation, c.has_bias),
        add_norm_1(s / "norm1", c),
        add_norm_2(s / "norm2", c),
        add_norm_3(s / "norm3", c),
        name(s.region()) {}

  // The two attentions are given as functions, so that training and cached decoding share the layer.
  template <class SelfAttend, class CrossAttend>
  Tensor operator()(const Tensor& x, const SelfAttend& attend_self, const CrossAttend& attend_memory) const {
    const Region here(name);
    return here(add_norm_3(add_norm_2(add_norm_1(x, attend_self), attend_memory), ffn));
  }

  // Masked self-attention over the target, then attention over the encoder's output ("memory").
  Tensor operator()(const Tensor& x, Offsets rows, const Tensor& memory, Offsets memory_rows,
                    AttentionMaps* maps = nullptr) const {  // [rows, d_model]
    return (*this)(
        x,
        [&](const Tensor& z) {
          return with_map(maps, name.text(), ".self_attn",
                          [&](Tensor* w) { return self_attn(z, rows, Mask::causal(), w); });
        },
        [&](const Tensor& z) {
          return with_map(maps, name.text(), ".cross_attn",
                          [&](Tensor* w) { return cross_attn(z, rows, memory, memory_rows, Mask::none(), w); });
        });
  }

  MultiHeadAttention self_attn, cross_attn;
  FeedForward ffn;
  AddNorm add_norm_1, add_norm_2, add_norm_3;
  RegionName name;
};

// A stack of encoder layers; with pre-norm, a last LayerNorm at the top.
struct Encoder {
  Encoder(const Scope& s, int n_layers, const LayerConfig& c) : name(s.region()) {
    for (int i = 0; i < n_layers; ++i) layers.emplace_back(s / i, c);
    if (c.norm == Norm::pre) final_norm.emplace_back(s / "norm", c.d_model, 1e-5, c.has_bias);
  }

  Tensor operator()(Tensor x, Offsets rows, AttentionMaps* maps = nullptr,
                    const Mask& mask = Mask::none()) const {  // [rows, d_model]
    const Region here(name);
    for (const EncoderLayer& layer : layers) x = layer(x, rows, maps, mask);
    return here(final_norm.empty() ? x : final_norm.front()(x));
  }

  std::vector<EncoderLayer> layers;
  std::vector<LayerNorm> final_norm;  // none or one
  RegionName name;
};

}  // namespace seppo::inline SEPPO_ABI
