// T5: buckets of distances, layers and stacks.
#include "t5.h"

#include "../autograd/core/region.h"
#include "../autograd/ops.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

Linear projection(const Scope& s, int in, int out) { return Linear(s, in, out, {.bias = false}); }

LayerNorm rms(const Scope& s, const T5Config& c) {
  return LayerNorm(s, c.d_model, {.eps = c.eps, .kind = NormKind::rms});
}

// T5 does not divide the scores by sqrt(width).
MultiHeadAttention attention_of(const Scope& s, const T5Config& c) {
  return MultiHeadAttention(s, c.d_model, c.n_heads,
                            {.dropout = c.dropout, .bias = false, .head_width = c.head_width, .scale = 1});
}

int longest_of(Offsets offsets) {
  int longest = 0;
  for (std::size_t i = 1; i < offsets.size(); ++i) longest = std::max(longest, offsets[i] - offsets[i - 1]);
  return longest;
}

}  // namespace

// In single precision, as the model was trained: a distance at the edge of two ranges is in the same one.
int t5_bucket(int distance, bool is_bidirectional, int buckets, int max_distance) {
  const int here = is_bidirectional ? buckets / 2 : buckets;  // in this direction
  const int first = is_bidirectional && distance > 0 ? here : 0;
  const int far = is_bidirectional ? std::abs(distance) : std::max(-distance, 0);
  const int exact = here / 2;
  if (far < exact) return first + far;
  const float part = std::log(static_cast<float>(far) / static_cast<float>(exact)) /
                     static_cast<float>(std::log(static_cast<double>(max_distance) / exact));
  const int range = static_cast<int>(part * static_cast<float>(here - exact));
  return first + std::min(exact + range, here - 1);
}

T5Stack::FeedForward::FeedForward(const Scope& s, const T5Config& c)
    : up(projection(s / "up", c.d_model, c.d_ff)), down(projection(s / "down", c.d_ff, c.d_model)), dropout(c.dropout) {
  if (c.is_gated) gate.emplace(projection(s / "gate", c.d_model, c.d_ff));
}

Tensor T5Stack::FeedForward::operator()(const Tensor& x) const {
  const Tensor hidden = gate ? (*gate)(x, Activation::gelu_tanh) * up(x) : up(x, Activation::relu);
  return down(dropout(hidden));
}

T5Stack::Layer::Layer(const Scope& s, Kind kind, const T5Config& c)
    : self_norm(rms(s / "self_norm", c)),
      self_attn(attention_of(s / "self_attn", c)),
      ffn_norm(rms(s / "ffn_norm", c)),
      ffn(s / "ffn", c) {
  if (kind == Kind::encoder) return;
  cross_norm.emplace(rms(s / "cross_norm", c));
  cross_attn.emplace(attention_of(s / "cross_attn", c));
}

T5Stack::T5Stack(const Scope& s, Kind kind, const T5Config& c)
    : kind_(kind),
      config_(c),
      relative_(s.parameter("relative", {c.buckets, c.n_heads}, init_normal(1 / std::sqrt(c.d_model)))),
      norm_(rms(s / "norm", c)) {
  for (int i = 0; i < (kind == Kind::encoder ? c.enc_layers : c.dec_layers); ++i)
    layers_.emplace_back(s / "layers" / i, kind, c);
}

Tensor T5Stack::biases(int longest) const {
  std::vector<int> buckets;
  for (int query = 0; query < longest; ++query)
    for (int key = 0; key < longest; ++key)
      buckets.push_back(t5_bucket(key - query, kind_ == Kind::encoder, config_.buckets, config_.max_distance));
  return reshape(transpose(index_select(relative_, 0, buckets)), {1, config_.n_heads, longest, longest});
}

Tensor T5Stack::operator()(Tensor x, Offsets offsets, const Tensor& memory, Offsets memory_offsets) const {
  const AttentionExtras own{.mask = kind_ == Kind::decoder ? Mask::causal() : Mask::none(),
                            .bias = biases(longest_of(offsets))};
  for (const Layer& layer : layers_) {
    x = add_dropout(x, layer.self_attn(layer.self_norm(x), offsets, own), config_.dropout);
    if (layer.cross_attn) {
      const Tensor seen = (*layer.cross_attn)((*layer.cross_norm)(x), offsets, memory, memory_offsets);
      x = add_dropout(x, seen, config_.dropout);
    }
    x = add_dropout(x, layer.ffn(layer.ffn_norm(x)), config_.dropout);
  }
  return norm_(x);
}

T5::T5(const Scope& s, const T5Config& c)
    : config(check_config("t5", c)),
      embedding(s / "embedding", c.vocabulary, c.d_model, init_normal(1)),
      dropout(c.dropout),
      encoder(s / "encoder", T5Stack::Kind::encoder, c),
      decoder(s / "decoder", T5Stack::Kind::decoder, c) {
  if (!c.tie_output) output.emplace(projection(s / "output", c.d_model, c.vocabulary));
}

Tensor T5::encode(const Ragged& src) const { return dropout(encoder(dropout(embedding(src.tokens)), src.offsets)); }

Tensor T5::decode(const Ragged& tgt, const Tensor& memory, Offsets memory_offsets) const {
  const Tensor x = dropout(decoder(dropout(embedding(tgt.tokens)), tgt.offsets, memory, memory_offsets));
  if (output) return (*output)(x);
  return embedding.as_linear(config.scale_tied ? x / std::sqrt(config.d_model) : x);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
