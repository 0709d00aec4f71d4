// The encoder-only models as ONNX graphs (seppo/models/onnx/onnx_modules.h).
#pragma once

#include "encoder_models.h"

#include <seppo/models/onnx/onnx_modules.h>

#include <cstdint>
#include <string>
#include <vector>

namespace examples {

using seppo::OnnxGraph;
using seppo::OnnxType;
using seppo::OnnxValue;

// An input of symbols [batch, length], as vectors with 1 at the symbol's place: [batch, length, symbols].
inline OnnxValue emit_symbols(OnnxGraph& g, int length, int symbols) {
  const OnnxValue ids = g.input("symbols", OnnxType::integers, {"batch", length});
  return g.op("OneHot", {ids, g.integer(symbols), g.numbers({2}, std::vector<seppo::real>{0, 1})},
              {{"axis", std::int64_t{-1}}});
}

// The parts of a Predictor: x and the results are [batch, length, d].
inline OnnxValue emit_encoded(OnnxGraph& g, const Predictor& m, OnnxValue x) {
  const seppo::PositionalEncoding& positions = m.positions;
  const seppo::LayerConfig& layer = m.config.layer;
  const OnnxValue length = emit_length(g, x);
  if (positions.table.defined()) x = g.op("Add", {x, emit_table(g, positions, length)});
  const int n_kv_heads = layer.n_kv_heads == 0 ? layer.n_heads : layer.n_kv_heads;
  const OnnxValue bias = emit_bias(g, length, {.slopes = positions.relative.slopes, .n_kv_heads = n_kv_heads});
  return emit(g, m.encoder, x, {.bias = bias, .rotary = emit_rotary(g, positions, length)});
}
inline OnnxValue emit_classified(OnnxGraph& g, const Predictor& m, OnnxValue x) {
  if (m.output_network) {
    x = emit(g, m.output_network->norm, emit(g, m.output_network->hidden, x));
    x = emit(g, seppo::Activation::relu, x);
  }
  return emit(g, m.output, x);
}

// x [batch, length, d] -> [batch, length + 1, d]
inline OnnxValue emit_in_front(OnnxGraph& g, const seppo::Tensor& token, const OnnxValue& x) {
  const OnnxValue batch = g.op("Shape", {x}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
  const OnnxValue shape = g.op("Concat", {batch, g.integers({1, token.size(-1)})}, {{"axis", std::int64_t{0}}});
  return g.op("Concat", {g.op("Expand", {g.weight(token), shape}), x}, {{"axis", std::int64_t{1}}});
}

// pool() of all sequences: [batch, length, d] -> [batch, d].
inline OnnxValue emit_pooled(OnnxGraph& g, const OnnxValue& x, Pooling pooling) {
  if (pooling == Pooling::class_token) return g.op("Gather", {x, g.integer(0)}, {{"axis", std::int64_t{1}}});
  const char* const op = pooling == Pooling::mean ? "ReduceMean" : "ReduceMax";
  return g.op(op, {x}, {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{0}}});
}

inline OnnxValue emit(OnnxGraph& g, const Classifier& m, OnnxValue x) {
  x = emit(g, m.predictor.input, x);
  if (m.class_token) x = emit_in_front(g, *m.class_token, x);
  return emit_classified(g, m.predictor, emit_pooled(g, emit_encoded(g, m.predictor, x), m.config.pooling));
}

}  // namespace examples
