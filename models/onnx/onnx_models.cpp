// The forward passes of the models, op by op.
#include "onnx_models.h"

#include "onnx_modules.h"

#include <cmath>
#include <map>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// ---- Transformer

// scale embedding + position
OnnxValue emit_embedded(OnnxGraph& g, const Transformer& m, const Embedding& table, const OnnxValue& tokens,
                        const OnnxValue& length) {
  const OnnxGraph::Part here(g, table.name.text());
  OnnxValue x = emit_embedding(g, table.weight, tokens);
  if (m.config.scale_embeddings) x = g.op("Mul", {x, g.number(std::sqrt(m.config.layer.d_model))});
  return m.positions.table.defined() ? g.op("Add", {x, emit_table(g, m.positions, length)}) : x;
}

// x W^T
OnnxValue emit_as_linear(OnnxGraph& g, const Embedding& table, const OnnxValue& x) {
  const OnnxGraph::Part here(g, table.name.text());
  return g.op("MatMul", {x, g.op("Transpose", {g.weight(table.weight)}, {{"perm", std::vector<std::int64_t>{1, 0}}})});
}

OnnxValue sum_of(OnnxGraph& g, const OnnxValue& a, const OnnxValue& b) { return b.defined() ? g.op("Add", {a, b}) : a; }

// ---- LanguageModel

// Emits the layers of a language model. What several of them share is emitted once.
class DecoderEmitter {
 public:
  DecoderEmitter(OnnxGraph& graph, const LanguageModel& model, const OnnxValue& length)
      : g_(graph), m_(model), c_(model.config), d_(model.config.decoder), length_(length) {
    common_ = emit_rotary(g_, m_.positions, length_);
    if (m_.local_positions) local_ = emit_rotary(g_, *m_.local_positions, length_);
  }

  OnnxValue emit_layers(OnnxValue x) {
    for (int i = 0; i < std::ssize(m_.layers.layers); ++i) {
      const DecoderBlock& block = m_.layers.layers[static_cast<std::size_t>(i)];
      const OnnxGraph::Part here(g_, block.name.text());
      x = emit_block(block, i, x);
    }
    return m_.layers.norm ? emit(g_, *m_.layers.norm, x) : x;
  }

 private:
  OnnxValue emit_block(const DecoderBlock& block, int layer, const OnnxValue& x) {
    const auto attend = [&](const OnnxValue& z) { return emit(g_, block.self_attn, z, how(layer)); };
    const auto feed = [&](const OnnxValue& z) {
      return block.experts ? emit(g_, *block.experts, z) : emit(g_, *block.ffn, z);
    };
    if (d_.sublayers != Sublayers::one_after_another) {
      const OnnxValue z = emit(g_, *block.norm1, x);
      const OnnxValue a = add(x, attend(z));
      return add(a, feed(block.norm2 ? emit(g_, *block.norm2, x) : z));
    }
    const OnnxValue a = with_norms(x, *block.norm1, block.post_norm1, attend);
    return with_norms(a, *block.norm2, block.post_norm2, feed);
  }

  template <class Sublayer>
  OnnxValue with_norms(const OnnxValue& x, const LayerNorm& norm, const std::optional<LayerNorm>& second,
                       const Sublayer& sublayer) {
    if (d_.norm_place == NormPlace::after) return add(x, emit(g_, norm, sublayer(x)));
    if (second) return add(x, emit(g_, *second, sublayer(emit(g_, norm, x))));
    if (c_.layer.norm == Norm::post) return emit(g_, norm, add(x, sublayer(x)));
    return add(x, sublayer(emit(g_, norm, x)));
  }

  OnnxValue add(const OnnxValue& x, const OnnxValue& y) {
    if (d_.residual_scale == 1) return g_.op("Add", {x, y});
    return g_.op("Add", {x, g_.op("Mul", {y, g_.number(d_.residual_scale)})});
  }

  OnnxAttention how(int layer) {
    const LayerAttention& own = d_.attention(layer);
    OnnxValue& bias = biases_[own.window];
    if (!bias.defined()) {
      const OnnxGraph::Part shared(g_, "scores");
      bias = emit_bias(g_, length_,
                       {.is_causal = true,
                        .window = own.window,
                        .slopes = m_.positions.relative.slopes,
                        .n_kv_heads = c_.layer.kv_heads()});
    }
    OnnxAttention attention{.bias = bias, .window = own.window};
    if (own.positions == LayerPositions::none) return attention;
    attention.rotary = own.positions == LayerPositions::local ? local_ : common_;
    return attention;
  }

  OnnxGraph& g_;
  const LanguageModel& m_;
  const LanguageModelConfig& c_;
  const DecoderConfig& d_;
  OnnxValue length_;
  OnnxRotary common_, local_;
  std::map<int, OnnxValue> biases_;  // by window
};

OnnxValue emit_tokens(OnnxGraph& g, const LanguageModel& m, const OnnxValue& tokens, const OnnxValue& length) {
  const OnnxGraph::Part here(g, m.embedding.name.text());
  const DecoderConfig& d = m.config.decoder;
  const double factor = (d.is_embedding_scaled ? std::sqrt(m.config.layer.d_model) : 1) * d.embedding_scale;
  OnnxValue x = emit_embedding(g, m.embedding.weight, tokens);
  if (factor != 1) x = g.op("Mul", {x, g.number(factor)});
  if (!m.positions.table.defined()) return x;
  return g.op("Add", {x, emit_table(g, m.positions, length, d.position_offset)});
}

OnnxValue emit_scores(OnnxGraph& g, const LanguageModel& m, OnnxValue x) {
  const DecoderConfig& d = m.config.decoder;
  if (d.output_scale != 1) x = g.op("Mul", {x, g.number(d.output_scale)});
  x = m.output ? emit(g, *m.output, x) : emit_as_linear(g, m.embedding, x);
  if (d.output_softcap == 0) return x;
  const OnnxValue tanh = g.op("Tanh", {g.op("Mul", {x, g.number(1 / d.output_softcap)})});
  return g.op("Mul", {tanh, g.number(d.output_softcap)});
}

}  // namespace

OnnxGraph onnx_graph(const Transformer& m) {
  OnnxGraph g("transformer");
  const OnnxValue src = g.input("src", OnnxType::integers, {"batch", "src_length"});
  const OnnxValue src_lengths = g.input("src_lengths", OnnxType::integers, {"batch"});
  const OnnxValue tgt = g.input("tgt", OnnxType::integers, {"batch", "tgt_length"});
  const std::span<const real> slopes = m.positions.relative.slopes;
  const int n_kv_heads = m.config.layer.kv_heads();

  const OnnxValue src_length = emit_length(g, src);
  const OnnxValue valid = emit_valid_lengths(g, src_lengths, src_length);
  const OnnxValue src_bias = emit_bias(g, src_length, {.slopes = slopes, .n_kv_heads = n_kv_heads});
  const OnnxAttention reading{.bias = sum_of(g, valid, src_bias), .rotary = emit_rotary(g, m.positions, src_length)};
  const OnnxValue memory = emit(g, m.encoder, emit_embedded(g, m, m.src_embedding, src, src_length), reading);

  const OnnxValue tgt_length = emit_length(g, tgt);
  const OnnxValue causal = emit_bias(g, tgt_length, {.is_causal = true, .slopes = slopes, .n_kv_heads = n_kv_heads});
  const OnnxAttention writing{.bias = causal, .rotary = emit_rotary(g, m.positions, tgt_length)};
  const OnnxValue y =
      emit(g, m.decoder, emit_embedded(g, m, m.tgt_embedding, tgt, tgt_length), memory, writing, {.bias = valid});
  const OnnxValue logits = m.output ? emit(g, *m.output, y) : emit_as_linear(g, m.tgt_embedding, y);
  g.output("logits", logits, OnnxType::reals, {"batch", "tgt_length", m.config.tgt_vocabulary});
  return g;
}

OnnxGraph onnx_graph(const LanguageModel& m) {
  OnnxGraph g("language_model");
  const OnnxValue tokens = g.input("tokens", OnnxType::integers, {"batch", "length"});
  const OnnxValue length = emit_length(g, tokens);
  OnnxValue x = emit_tokens(g, m, tokens, length);
  if (m.embedding_norm) x = emit(g, *m.embedding_norm, x);
  x = DecoderEmitter(g, m, length).emit_layers(x);
  g.output("logits", emit_scores(g, m, x), OnnxType::reals, {"batch", "length", m.config.vocabulary});
  return g;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
