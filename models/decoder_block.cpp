// The switches of DecoderConfig, where they act.
#include "decoder_block.h"

#include "../autograd/core/guards.h"
#include "../autograd/ops.h"
#include "../autograd/tools/checkpointing.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Of queries and keys, whose layer norms have biases if the others have.
MultiHeadAttentionOptions attention_options(const LayerConfig& c, const DecoderConfig& d, int layer) {
  MultiHeadAttentionOptions options = c.attention();
  options.out_bias = d.out_bias.value_or(options.bias);
  options.bias = d.qkv_bias.value_or(options.bias);
  options.softcap = d.attention_softcap;
  options.scale = d.attention_scale;
  options.window = d.attention(layer).window;
  options.qk_norm = d.qk_norm;
  options.qk_norm_options = norm_options(c, d);
  return options;
}

FeedForwardOptions feed_forward_options(const LayerConfig& c, const DecoderConfig& d) {
  FeedForwardOptions options = c.feed_forward();
  options.bias = d.ffn_bias.value_or(c.bias);
  return options;
}

std::optional<Experts> experts_of(const Scope& s, const LayerConfig& c, const DecoderConfig& d) {
  if (d.experts == 0) return {};
  const ExpertsOptions options{d.experts, d.experts_chosen, feed_forward_options(c, d)};
  return Experts(s, c.d_model, c.d_ff, options);
}

std::optional<FeedForward> feed_forward_of(const Scope& s, const LayerConfig& c, const DecoderConfig& d) {
  if (d.experts > 0) return {};
  return FeedForward(s, c.d_model, c.d_ff, feed_forward_options(c, d));
}

Tensor scaled(const Tensor& x, real factor) { return factor == 1 ? x : scale(x, factor); }

// layer(x, offsets, extras), of which backward computes all but the result again. The layer must live until then.
Tensor recomputed(const DecoderBlock& layer, const Tensor& x, Offsets offsets, const DecoderExtras& extras) {
  const Offsets kept = tape().keep<int>(offsets);
  return checkpoint({x},
                    [&layer, kept, extras](std::span<const Tensor> inputs) { return layer(inputs[0], kept, extras); });
}

}  // namespace

LayerNormOptions norm_options(const LayerConfig& c, const DecoderConfig& d) {
  LayerNormOptions options = c.layer_norm();
  options.bias = d.norm_bias.value_or(options.bias);
  options.is_offset = d.norm_is_offset;
  return options;
}

AttentionPositions DecoderExtras::of(LayerPositions kind) const {
  if (kind == LayerPositions::local) return local;
  AttentionPositions positions = common;
  if (kind == LayerPositions::none) positions.rotary = {};
  return positions;
}

DecoderBlock::DecoderBlock(const Scope& s, const LayerConfig& c, const DecoderConfig& d, int layer)
    : self_attn(s / "self_attn", c.d_model, c.n_heads, attention_options(c, d, layer)),
      ffn(feed_forward_of(s / "ffn", c, d)),
      experts(experts_of(s / "ffn", c, d)),
      norm1(std::in_place, s / "norm1", c.d_model, norm_options(c, d)),
      name(s.region()),
      order_(c.norm),
      place_(d.norm_place),
      sublayers_(d.sublayers),
      positions_(d.attention(layer).positions),
      layer_(static_cast<std::size_t>(layer)),
      dropout_(c.dropout),
      residual_scale_(static_cast<real>(d.residual_scale)) {
  const LayerNormOptions norm = norm_options(c, d);
  if (sublayers_ != Sublayers::side_by_side_one_norm) norm2.emplace(s / "norm2", c.d_model, norm);
  if (place_ != NormPlace::around) return;
  post_norm1.emplace(s / "post_norm1", c.d_model, norm);
  post_norm2.emplace(s / "post_norm2", c.d_model, norm);
}

Tensor DecoderBlock::attend(const Tensor& x, Offsets offsets, const DecoderExtras& extras) const {
  return self_attn(
      x, offsets, {.mask = Mask::causal(), .cache = extras.cache, .layer = layer_, .positions = extras.of(positions_)});
}

Tensor DecoderBlock::add(const Tensor& x, const Tensor& y) const {
  return add_dropout(x, scaled(y, residual_scale_), dropout_);
}

// LayerNorm(x + Dropout(scaled y)), whose last two steps are one pass.
Tensor DecoderBlock::post_norm(const Tensor& x, const Tensor& y, const LayerNorm& norm) const {
  const Tensor added = scaled(y, residual_scale_);
  const Region here(norm.name);
  const Tensor gain = norm.is_offset ? norm.weight + real{1} : norm.weight;
  return here(add_norm(
      x, added, gain, norm.bias,
      {.eps = norm.eps, .dropout_before = dropout_, .dropout_after = 0, .is_centred = norm.kind == NormKind::layer}));
}

template <class Sublayer>
Tensor DecoderBlock::with_norms(const Tensor& x, const LayerNorm& norm, const std::optional<LayerNorm>& second,
                                const Sublayer& sublayer) const {
  if (place_ == NormPlace::after) return add(x, norm(sublayer(x)));
  if (second) return add(x, (*second)(sublayer(norm(x))));
  if (order_ == Norm::post) return post_norm(x, sublayer(x), norm);
  return add(x, sublayer(norm(x)));
}

Tensor DecoderBlock::operator()(const Tensor& x, Offsets offsets, const DecoderExtras& extras) const {
  const Region here(name);
  if (sublayers_ != Sublayers::one_after_another) {
    const Tensor z = (*norm1)(x);
    const Tensor a = add(x, attend(z, offsets, extras));
    return here(add(a, feed(norm2 ? (*norm2)(x) : z)));
  }
  const Tensor a = with_norms(x, *norm1, post_norm1, [&](const Tensor& z) { return attend(z, offsets, extras); });
  return here(with_norms(a, *norm2, post_norm2, [&](const Tensor& z) { return feed(z); }));
}

DecoderStack::DecoderStack(const Scope& s, int n_layers, const LayerConfig& c, const DecoderConfig& d)
    : name(s.region()) {
  check<ArgumentError>(d.attentions.empty() || std::ssize(d.attentions) == n_layers, "decoder: ", d.attentions.size(),
                       " attentions for ", n_layers, " layers");
  for (int i = 0; i < n_layers; ++i) layers.emplace_back(s / i, c, d, i);
  const bool is_post = c.norm == Norm::post && d.norm_place == NormPlace::of_layer;
  if (!is_post) norm.emplace(s / "norm", c.d_model, norm_options(c, d));
}

Tensor DecoderStack::operator()(Tensor x, Offsets offsets, const DecoderExtras& extras) const {
  const Region here(name);
  const bool keeps_inputs_only = checkpoints && tape().records();
  for (const DecoderBlock& layer : layers)
    x = keeps_inputs_only ? recomputed(layer, x, offsets, extras)
                          : result_of(x.shape(), [&] { return layer(x, offsets, extras); });
  return here(norm ? (*norm)(x) : x);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
