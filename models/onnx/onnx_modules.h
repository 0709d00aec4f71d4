// Modules as parts of an ONNX graph (nn/io/onnx.h): emit(graph, module, x) appends the ops that compute what the
// module does in evaluation, and gives their result. A model of one's own is written as its operator() is:
//
//   OnnxGraph graph("classifier");
//   const OnnxValue x = graph.input("x", OnnxType::reals, {"batch", "length", 8});
//   const OnnxValue scores = emit(graph, model.output, emit(graph, model.norm, x));
//   graph.output("scores", scores, OnnxType::reals, {"batch", "length", 3});
//   graph.write("classifier.onnx");
//
// Where modules take the rows of ragged batches, [rows, d], these take rectangular ones, [batch, length, d]. Dropout is
// left out. Weights keep their names and layouts, and must live until the graph is written.
#pragma once

#include "../../nn/io/onnx.h"
#include "../../nn/modules/feed_forward.h"
#include "../../nn/modules/layer_norm.h"
#include "../../nn/modules/linear.h"
#include "../../nn/modules/multi_head_attention.h"
#include "../../nn/modules/positional_encoding.h"
#include "../experts.h"
#include "../transformer_layers.h"

namespace seppo {
inline namespace SEPPO_ABI {

// Throws ArgumentError for an activation of gated networks, which have two inputs.
OnnxValue emit(OnnxGraph& graph, Activation activation, const OnnxValue& x);

OnnxValue emit(OnnxGraph& graph, const Linear& linear, const OnnxValue& x, Activation activation = Activation::none);
OnnxValue emit(OnnxGraph& graph, const LayerNorm& norm, const OnnxValue& x);
OnnxValue emit(OnnxGraph& graph, const FeedForward& network, const OnnxValue& x);
// All networks compute all rows, of which each uses those it chose.
OnnxValue emit(OnnxGraph& graph, const Experts& experts, const OnnxValue& x);

// The vectors of these ids, integers of any shape.
OnnxValue emit_embedding(OnnxGraph& graph, const Tensor& table, const OnnxValue& ids);

// ---- positions

// The size of x along axis 1: an integer of shape [1].
OnnxValue emit_length(OnnxGraph& graph, const OnnxValue& x);
// The rows of the encoding's table for positions 0 .. length - 1, moved down by `offset`: [length, d]. Throws
// ArgumentError if it has none.
OnnxValue emit_table(OnnxGraph& graph, const PositionalEncoding& positions, const OnnxValue& length, int offset = 0);

// The rotation of positions 0 .. length - 1; nothing if the encoding is another.
struct OnnxRotary {
  OnnxValue cosines, sines;  // [length, 1, n_pairs]
  RotaryPairs pairs = RotaryPairs::interleaved;
  int n_pairs = 0;
};
OnnxRotary emit_rotary(OnnxGraph& graph, const PositionalEncoding& positions, const OnnxValue& length);

// ---- attention

// What is added to the scores, broadcast to [batch, kv_heads, heads / kv_heads, queries, keys]; undefined if nothing.
struct OnnxScores {
  bool is_causal = false;
  int window = 0;                     // AttentionOptions::window, of causal scores
  std::span<const real> slopes = {};  // of ALiBi
  int n_kv_heads = 1;                 // for ALiBi
};
// Throws ArgumentError for a window without is_causal.
OnnxValue emit_bias(OnnxGraph& graph, const OnnxValue& length, const OnnxScores& scores);
// The same for keys behind the first lengths[s] of sequence s, which no query attends to: lengths [batch], and `keys`
// [1] is how many there are.
OnnxValue emit_valid_lengths(OnnxGraph& graph, const OnnxValue& lengths, const OnnxValue& keys);

// Both throw ArgumentError for an attention whose keys and values have projections of their own, k_proj and v_proj, or
// whose window is not that of the bias.
struct OnnxAttention {
  OnnxValue bias = {};
  OnnxRotary rotary = {};
  int window = 0;  // OnnxScores::window of the bias
};
OnnxValue emit(OnnxGraph& graph, const MultiHeadAttention& attention, const OnnxValue& x, const OnnxAttention& how);
// Of queries [batch, queries, d_model] to a memory [batch, keys, d_model].
OnnxValue emit_cross(OnnxGraph& graph, const MultiHeadAttention& attention, const OnnxValue& x, const OnnxValue& memory,
                     const OnnxAttention& how);

// ---- layers

template <class Sublayer>
OnnxValue emit(OnnxGraph& graph, const AddNorm& add_norm, const OnnxValue& x, const Sublayer& sublayer) {
  if (add_norm.order == Norm::pre) return graph.op("Add", {x, sublayer(emit(graph, add_norm.norm, x))});
  return emit(graph, add_norm.norm, graph.op("Add", {x, sublayer(x)}));
}

OnnxValue emit(OnnxGraph& graph, const Encoder& encoder, OnnxValue x, const OnnxAttention& how);
// `how` is of the self-attention, whose bias has to be causal, and `cross` of the attention to the memory.
OnnxValue emit(OnnxGraph& graph, const Decoder& decoder, OnnxValue x, const OnnxValue& memory, const OnnxAttention& how,
               const OnnxAttention& cross);

}  // namespace SEPPO_ABI
}  // namespace seppo
