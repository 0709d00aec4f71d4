// The layers of a LanguageModel, of any family: DecoderBlock, and the stack of these. With the defaults of
// DecoderConfig a block computes what an EncoderLayer (transformer_layers.h) does with a causal mask, and has its
// parameters.
#pragma once

#include "../autograd/core/region.h"
#include "decoder_config.h"
#include "experts.h"
#include "transformer_layers.h"

#include <optional>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// Of all norms of such a model.
LayerNormOptions norm_options(const LayerConfig& c, const DecoderConfig& d);

// What attends to which positions is the same for all layers, but each has its table of rotary positions.
struct DecoderExtras {
  KeyValueCache* cache = nullptr;
  AttentionPositions common = {}, local = {};

  AttentionPositions of(LayerPositions kind) const;
};

struct DecoderBlock {
  DecoderBlock(const Scope& s, const LayerConfig& c, const DecoderConfig& d, int layer);

  // x and the result are [rows, d_model].
  Tensor operator()(const Tensor& x, Offsets offsets, const DecoderExtras& extras = {}) const;

  MultiHeadAttention self_attn;
  std::optional<FeedForward> ffn;  // one of the two
  std::optional<Experts> experts;
  std::optional<LayerNorm> norm1, norm2;            // of attention and feed-forward network, before or after them
  std::optional<LayerNorm> post_norm1, post_norm2;  // the second ones, with NormPlace::around
  RegionName name;

 private:
  Tensor attend(const Tensor& x, Offsets offsets, const DecoderExtras& extras) const;
  Tensor feed(const Tensor& x) const { return experts ? (*experts)(x) : (*ffn)(x); }
  Tensor add(const Tensor& x, const Tensor& y) const;
  Tensor post_norm(const Tensor& x, const Tensor& y, const LayerNorm& norm) const;
  template <class Sublayer>
  Tensor with_norms(const Tensor& x, const LayerNorm& norm, const std::optional<LayerNorm>& second,
                    const Sublayer& sublayer) const;

  Norm order_;
  NormPlace place_;
  Sublayers sublayers_;
  LayerPositions positions_;
  std::size_t layer_;
  double dropout_;
  real residual_scale_;
};

// A stack of blocks, with a final norm unless the layers' own are LayerConfig's post-norm.
struct DecoderStack {
  // Throws ArgumentError unless d has an attention for each layer, or none.
  DecoderStack(const Scope& s, int n_layers, const LayerConfig& c, const DecoderConfig& d);

  // x and the result are [rows, d_model].
  Tensor operator()(Tensor x, Offsets offsets, const DecoderExtras& extras = {}) const;

  std::vector<DecoderBlock> layers;
  std::optional<LayerNorm> norm;
  // Training keeps only the input of each layer, and backward computes the rest again: the same gradients in less
  // memory and more time (autograd/tools/checkpointing.h). The stack must live until backward has passed.
  bool checkpoints = false;
  RegionName name;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
