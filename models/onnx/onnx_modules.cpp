// Modules but for attention, as formulas of ONNX's ops.
#include "onnx_modules.h"

#include "../../autograd/core/check.h"

#include <cmath>
#include <numbers>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

using OnnxIntegers = std::vector<std::int64_t>;

OnnxValue emit_gelu(OnnxGraph& g, const OnnxValue& x) {  // x/2 (1 + erf(x / sqrt(2)))
  const OnnxValue erf = g.op("Erf", {g.op("Mul", {x, g.number(1 / std::numbers::sqrt2)})});
  return g.op("Mul", {g.op("Mul", {x, g.number(0.5)}), g.op("Add", {erf, g.number(1)})});
}

OnnxValue emit_gelu_tanh(OnnxGraph& g, const OnnxValue& x) {  // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  const OnnxValue cube = g.op("Mul", {g.op("Mul", {x, x}), x});
  const OnnxValue sum = g.op("Add", {x, g.op("Mul", {cube, g.number(0.044715)})});
  const OnnxValue tanh = g.op("Tanh", {g.op("Mul", {sum, g.number(std::sqrt(2 / std::numbers::pi))})});
  return g.op("Mul", {g.op("Mul", {x, g.number(0.5)}), g.op("Add", {tanh, g.number(1)})});
}

OnnxValue emit_silu(OnnxGraph& g, const OnnxValue& x) { return g.op("Mul", {x, g.op("Sigmoid", {x})}); }

// The activation of a gate.
Activation opened(Activation gated) {
  if (gated == Activation::swiglu) return Activation::silu;
  return gated == Activation::geglu ? Activation::gelu : Activation::gelu_tanh;
}

// x W^T
OnnxValue emit_product(OnnxGraph& g, const OnnxValue& x, const Tensor& weight) {
  return g.op("MatMul", {x, g.op("Transpose", {g.weight(weight)}, {{"perm", OnnxIntegers{1, 0}}})});
}

// scale (x A^T) B^T
OnnxValue emit_adapter(OnnxGraph& g, const LowRank& adapter, const OnnxValue& x) {
  const OnnxValue narrow = g.op("Mul", {emit_product(g, x, adapter.a), g.number(adapter.scale)});
  return emit_product(g, narrow, adapter.b);
}

// x / sqrt(mean x^2 + eps)
OnnxValue emit_rms(OnnxGraph& g, const OnnxValue& x, double eps) {
  const OnnxValue mean =
      g.op("ReduceMean", {g.op("Mul", {x, x})}, {{"axes", OnnxIntegers{-1}}, {"keepdims", std::int64_t{1}}});
  return g.op("Div", {x, g.op("Sqrt", {g.op("Add", {mean, g.number(eps)})})});
}

}  // namespace

OnnxValue emit(OnnxGraph& g, Activation activation, const OnnxValue& x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return g.op("Relu", {x});
    case Activation::gelu:
      return emit_gelu(g, x);
    case Activation::gelu_tanh:
      return emit_gelu_tanh(g, x);
    case Activation::silu:
      return emit_silu(g, x);
    default:
      fail<ArgumentError>("onnx: the activation ", enum_names(activation)[static_cast<std::size_t>(activation)],
                          " has two inputs");
  }
}

OnnxValue emit(OnnxGraph& g, const Linear& linear, const OnnxValue& x, Activation activation) {
  const OnnxGraph::Part here(g, linear.name.text());
  OnnxValue y = emit_product(g, x, linear.weight);
  if (linear.adapter) y = g.op("Add", {y, emit_adapter(g, *linear.adapter, x)});
  if (linear.bias.defined()) y = g.op("Add", {y, g.weight(linear.bias)});
  return emit(g, activation, y);
}

OnnxValue emit(OnnxGraph& g, const LayerNorm& norm, const OnnxValue& x) {
  const OnnxGraph::Part here(g, norm.name.text());
  OnnxValue gain = g.weight(norm.weight);
  if (norm.is_offset) gain = g.op("Add", {gain, g.number(1)});
  if (norm.kind == NormKind::rms) return g.op("Mul", {emit_rms(g, x, norm.eps), gain});
  std::vector<OnnxValue> inputs{x, gain};
  if (norm.bias.defined()) inputs.push_back(g.weight(norm.bias));
  return g.op("LayerNormalization", inputs, {{"axis", std::int64_t{-1}}, {"epsilon", norm.eps}});
}

OnnxValue emit(OnnxGraph& g, const FeedForward& network, const OnnxValue& x) {
  const OnnxGraph::Part here(g, network.name.text());
  if (!network.gate) return emit(g, network.down, emit(g, network.up, x, network.activation));
  const OnnxValue gate = emit(g, *network.gate, x, opened(network.activation));
  return emit(g, network.down, g.op("Mul", {gate, emit(g, network.up, x)}));
}

OnnxValue emit(OnnxGraph& g, const Experts& experts, const OnnxValue& x) {
  const OnnxGraph::Part here(g, experts.name.text());
  const auto best = g.ops("TopK", {emit(g, experts.router, x), g.integers({experts.chosen})}, 2);
  const OnnxValue weights = g.op("Softmax", {best[0]}, {{"axis", std::int64_t{-1}}});
  OnnxValue sum;
  for (std::size_t e = 0; e < experts.experts.size(); ++e) {
    const OnnxValue is_chosen = g.op("Equal", {best[1], g.integer(static_cast<std::int64_t>(e))});
    const OnnxValue own = g.op("Where", {is_chosen, weights, g.number(0)});
    const OnnxValue weight = g.op("ReduceSum", {own, g.integers({-1})});  // [..., 1]
    const OnnxValue share = g.op("Mul", {emit(g, experts.experts[e], x), weight});
    sum = sum.defined() ? g.op("Add", {sum, share}) : share;
  }
  return sum;
}

OnnxValue emit_embedding(OnnxGraph& g, const Tensor& table, const OnnxValue& ids) {
  return g.op("Gather", {g.weight(table), ids});
}

OnnxValue emit(OnnxGraph& g, const Encoder& encoder, OnnxValue x, const OnnxAttention& how) {
  for (const EncoderLayer& layer : encoder.layers) {
    const OnnxGraph::Part here(g, layer.name.text());
    x = emit(g, layer.add_norm_1, x, [&](const OnnxValue& z) { return emit(g, layer.self_attn, z, how); });
    x = emit(g, layer.add_norm_2, x, [&](const OnnxValue& z) { return emit(g, layer.ffn, z); });
  }
  return encoder.norm ? emit(g, *encoder.norm, x) : x;
}

OnnxValue emit(OnnxGraph& g, const Decoder& decoder, OnnxValue x, const OnnxValue& memory, const OnnxAttention& how,
               const OnnxAttention& cross) {
  for (const DecoderLayer& layer : decoder.layers) {
    const OnnxGraph::Part here(g, layer.name.text());
    const auto attend = [&](const OnnxValue& z) { return emit(g, layer.self_attn, z, how); };
    const auto attend_memory = [&](const OnnxValue& z) { return emit_cross(g, layer.cross_attn, z, memory, cross); };
    x = emit(g, layer.add_norm_1, x, attend);
    x = emit(g, layer.add_norm_2, x, attend_memory);
    x = emit(g, layer.add_norm_3, x, [&](const OnnxValue& z) { return emit(g, layer.ffn, z); });
  }
  return decoder.norm ? emit(g, *decoder.norm, x) : x;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
