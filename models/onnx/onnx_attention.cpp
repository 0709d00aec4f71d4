// Attention and positions: heads have axes of their own, [batch, kv_heads, heads / kv_heads, rows, width], so that
// products broadcast the keys and values that several heads share.
#include "onnx_modules.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/guards.h"

#include <cmath>
#include <limits>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

using OnnxIntegers = std::vector<std::int64_t>;

constexpr double kNever = -std::numeric_limits<double>::infinity();

OnnxValue reshaped(OnnxGraph& g, const OnnxValue& x, const OnnxIntegers& sizes) {  // 0 keeps a size
  return g.op("Reshape", {x, g.integers(sizes)});
}

OnnxValue permuted(OnnxGraph& g, const OnnxValue& x, const OnnxIntegers& axes) {
  return g.op("Transpose", {x}, {{"perm", axes}});
}

// Elements begin .. end-1 of an axis, as integers of shape [1].
OnnxValue sliced(OnnxGraph& g, const OnnxValue& x, int axis, const OnnxValue& begin, const OnnxValue& end) {
  return g.op("Slice", {x, begin, end, g.integers({axis})});
}
OnnxValue sliced(OnnxGraph& g, const OnnxValue& x, int axis, int begin, int end) {
  return sliced(g, x, axis, g.integers({begin}), g.integers({end}));
}

// 0 .. length - 1, for a length of shape [1].
OnnxValue counted(OnnxGraph& g, const OnnxValue& length) {
  return g.op("Range", {g.integer(0), g.op("Squeeze", {length}), g.integer(1)});
}

// Rows begin .. end-1 of the stacked projection.
OnnxValue projected(OnnxGraph& g, const Linear& stacked, const OnnxValue& x, int begin, int end) {
  const OnnxGraph::Part here(g, stacked.name.text());
  const OnnxValue weight = sliced(g, g.weight(stacked.weight), 0, begin, end);
  const OnnxValue y = g.op("MatMul", {x, permuted(g, weight, {1, 0})});
  return stacked.bias.defined() ? g.op("Add", {y, sliced(g, g.weight(stacked.bias), 0, begin, end)}) : y;
}

// The sums and differences of the op rotary(), for all first and all second columns of pairs.
struct Turned {
  OnnxValue first, second;
};
Turned turned(OnnxGraph& g, const OnnxValue& a, const OnnxValue& b, const OnnxRotary& r) {
  return {g.op("Sub", {g.op("Mul", {a, r.cosines}), g.op("Mul", {b, r.sines})}),
          g.op("Add", {g.op("Mul", {a, r.sines}), g.op("Mul", {b, r.cosines})})};
}

// x [batch, length, heads, width], of whose columns the first 2 `pairs` are turned.
OnnxValue rotated(OnnxGraph& g, const OnnxValue& x, int heads, int width, int pairs, const OnnxRotary& r) {
  OnnxValue y;
  if (r.pairs == RotaryPairs::halves) {
    const Turned halves = turned(g, sliced(g, x, 3, 0, pairs), sliced(g, x, 3, pairs, 2 * pairs), r);
    y = g.op("Concat", {halves.first, halves.second}, {{"axis", std::int64_t{3}}});
  } else {
    const OnnxValue columns = reshaped(g, sliced(g, x, 3, 0, 2 * pairs), {0, 0, heads, pairs, 2});
    const auto column = [&](int i) { return g.op("Gather", {columns, g.integer(i)}, {{"axis", std::int64_t{4}}}); };
    const Turned neighbours = turned(g, column(0), column(1), r);
    const auto behind = [&](const OnnxValue& v) { return g.op("Unsqueeze", {v, g.integers({4})}); };
    y = g.op("Concat", {behind(neighbours.first), behind(neighbours.second)}, {{"axis", std::int64_t{4}}});
    y = reshaped(g, y, {0, 0, heads, 2 * pairs});
  }
  if (2 * pairs == width) return y;
  return g.op("Concat", {y, sliced(g, x, 3, 2 * pairs, width)}, {{"axis", std::int64_t{3}}});
}

void check_attention(const MultiHeadAttention& m, const OnnxAttention& how) {
  check<ArgumentError>(!m.k_proj, "onnx: ", m.name.text(), " has projections of their own for keys and values");
  check<ArgumentError>(m.window == how.window, "onnx: ", m.name.text(), " has a window of ", m.window,
                       ", its scores one of ", how.window);
}

// Emits one attention.
class AttentionEmitter {
 public:
  AttentionEmitter(OnnxGraph& graph, const MultiHeadAttention& attention, const OnnxAttention& how)
      : g_(graph), m_(attention), how_(how) {}

  // q [batch, queries, q_width], k and v [batch, keys, kv_width] -> [batch, queries, q_width]
  OnnxValue attend(const OnnxValue& q, const OnnxValue& k, const OnnxValue& v) {
    const OnnxValue queries = permuted(g_, in_groups(q, group_), {0, 2, 3, 1, 4});
    const OnnxValue keys = permuted(g_, in_groups(k, 1), {0, 2, 3, 4, 1});
    const OnnxValue values = permuted(g_, in_groups(v, 1), {0, 2, 3, 1, 4});
    const double scale = m_.scale > 0 ? m_.scale : 1 / std::sqrt(width_);
    OnnxValue scores = g_.op("Mul", {g_.op("MatMul", {queries, keys}), g_.number(scale)});
    if (m_.softcap > 0) {
      const OnnxValue tanh = g_.op("Tanh", {g_.op("Mul", {scores, g_.number(1 / m_.softcap)})});
      scores = g_.op("Mul", {tanh, g_.number(m_.softcap)});
    }
    if (how_.bias.defined()) scores = g_.op("Add", {scores, how_.bias});
    const OnnxValue weights = g_.op("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
    const OnnxValue sums = g_.op("MatMul", {weights, values});
    return reshaped(g_, permuted(g_, sums, {0, 3, 1, 2, 4}), {0, 0, m_.q_width});
  }

  // Queries or keys [batch, length, heads width], normed and rotated.
  OnnxValue prepared(OnnxValue x, const std::optional<LayerNorm>& norm, int columns) {
    const bool is_of_heads = norm && norm->weight.size(0) == width_;
    if (norm && !is_of_heads) x = emit(g_, *norm, x);
    if (!is_of_heads && !how_.rotary.cosines.defined()) return x;
    const int heads = columns / width_;
    x = reshaped(g_, x, {0, 0, heads, width_});
    if (is_of_heads) x = emit(g_, *norm, x);
    if (how_.rotary.cosines.defined()) x = rotated(g_, x, heads, width_, how_.rotary.n_pairs, how_.rotary);
    return reshaped(g_, x, {0, 0, columns});
  }

 private:
  OnnxValue in_groups(const OnnxValue& x, int group) const {
    return reshaped(g_, x, {0, 0, m_.kv_width / width_, group, width_});
  }

  OnnxGraph& g_;
  const MultiHeadAttention& m_;
  const OnnxAttention& how_;
  int width_ = m_.q_width / m_.n_heads;
  int group_ = m_.q_width / m_.kv_width;
};

}  // namespace

OnnxValue emit_length(OnnxGraph& g, const OnnxValue& x) {
  return g.op("Shape", {x}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
}

OnnxValue emit_table(OnnxGraph& g, const PositionalEncoding& positions, const OnnxValue& length, int offset) {
  check<ArgumentError>(positions.table.defined(), "onnx: the positional encoding has no table");
  if (positions.sinusoids) positions.sinusoids->compute_up_to(positions.max_positions);
  const OnnxValue end = offset == 0 ? length : g.op("Add", {length, g.integers({offset})});
  return sliced(g, g.weight(positions.table), 0, g.integers({offset}), end);
}

OnnxRotary emit_rotary(OnnxGraph& g, const PositionalEncoding& positions, const OnnxValue& length) {
  const Tensor& table = positions.relative.rotary;
  if (!table.defined()) return {};
  positions.sinusoids->compute_up_to(positions.max_positions);
  const int pairs = table.size(1) / 2;
  std::vector<real> cosines, sines;
  for (std::size_t i = 0; i < table.numel(); i += 2) {
    cosines.push_back(table.values()[i]);
    sines.push_back(table.values()[i + 1]);
  }
  const auto rows = [&](const std::vector<real>& values) {
    return sliced(g, g.numbers({table.size(0), 1, pairs}, values), 0, g.integers({0}), length);
  };
  return {rows(cosines), rows(sines), positions.relative.pairs, pairs};
}

OnnxValue emit_bias(OnnxGraph& g, const OnnxValue& length, const OnnxScores& scores) {
  check<ArgumentError>(scores.is_causal || scores.window == 0, "onnx: a window of scores that are not causal");
  if (!scores.is_causal && scores.slopes.empty()) return {};
  const OnnxValue ids = counted(g, length);
  // How far a key is before its query.
  const OnnxValue distance = g.op("Sub", {g.op("Unsqueeze", {ids, g.integers({1})}), ids});
  OnnxValue bias;
  if (scores.is_causal) {
    OnnxValue is_allowed = g.op("GreaterOrEqual", {distance, g.integer(0)});
    if (scores.window > 0) is_allowed = g.op("And", {is_allowed, g.op("Less", {distance, g.integer(scores.window)})});
    bias = g.op("Where", {is_allowed, g.number(0), g.number(kNever)});
  }
  if (scores.slopes.empty()) return bias;
  std::vector<real> slopes;
  for (const real slope : scores.slopes) slopes.push_back(-slope);
  const std::int64_t heads = std::ssize(slopes);
  const OnnxValue of_heads = g.numbers({scores.n_kv_heads, heads / scores.n_kv_heads, 1, 1}, slopes);
  const OnnxValue alibi = g.op("Mul", {g.to_reals(g.op("Abs", {distance})), of_heads});
  return bias.defined() ? g.op("Add", {bias, alibi}) : alibi;
}

OnnxValue emit_valid_lengths(OnnxGraph& g, const OnnxValue& lengths, const OnnxValue& keys) {
  const OnnxValue is_valid = g.op("Less", {counted(g, keys), g.op("Unsqueeze", {lengths, g.integers({1})})});
  const OnnxValue bias = g.op("Where", {is_valid, g.number(0), g.number(kNever)});  // [batch, keys]
  return g.op("Unsqueeze", {bias, g.integers({1, 2, 3})});
}

OnnxValue emit(OnnxGraph& g, const MultiHeadAttention& m, const OnnxValue& x, const OnnxAttention& how) {
  check_attention(m, how);
  const OnnxGraph::Part here(g, m.name.text());
  AttentionEmitter emitter(g, m, how);
  const OnnxValue qkv = emit(g, m.in_proj, x);
  const auto parts =
      g.ops("Split", {qkv, g.integers({m.q_width, m.kv_width, m.kv_width})}, 3, {{"axis", std::int64_t{-1}}});
  const OnnxValue q = emitter.prepared(parts[0], m.q_norm, m.q_width);
  const OnnxValue k = emitter.prepared(parts[1], m.k_norm, m.kv_width);
  return emit(g, m.out_proj, emitter.attend(q, k, parts[2]));
}

OnnxValue emit_cross(OnnxGraph& g, const MultiHeadAttention& m, const OnnxValue& x, const OnnxValue& memory,
                     const OnnxAttention& how) {
  check_attention(m, how);
  const OnnxGraph::Part here(g, m.name.text());
  const int k_end = m.q_width + m.kv_width;
  const OnnxValue q = projected(g, m.in_proj, x, 0, m.q_width);
  const OnnxValue k = projected(g, m.in_proj, memory, m.q_width, k_end);
  const OnnxValue v = projected(g, m.in_proj, memory, k_end, k_end + m.kv_width);
  return emit(g, m.out_proj, AttentionEmitter(g, m, how).attend(q, k, v));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
