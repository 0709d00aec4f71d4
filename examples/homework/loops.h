// What the exercises are to compute, in plain loops over numbers in double precision. Spoilers: formulas, no ops.
#pragma once

#include "homework/exercises.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace homework {

// [sequences, rows, columns]
struct Array {
  int sequences = 0, rows = 0, columns = 0;
  std::vector<double> values;

  std::size_t at(int s, int row, int column) const {
    return static_cast<std::size_t>((s * rows + row) * columns + column);
  }
  double operator()(int s, int row, int column) const { return values[at(s, row, column)]; }
  double& operator()(int s, int row, int column) { return values[at(s, row, column)]; }
};

inline Array empty(int sequences, int rows, int columns) {
  return {sequences, rows, columns, std::vector<double>(static_cast<std::size_t>(sequences * rows * columns))};
}

inline std::vector<double> numbers(const Tensor& x) { return {x.values().begin(), x.values().end()}; }

// Of a batch, or of a single sequence.
inline Array array(const Tensor& x, int sequences = 0) {
  if (sequences == 0) sequences = x.size(0);
  return {sequences, x.size(-2), x.size(-1), numbers(x)};
}

namespace loops {

template <class F>
Array filled(int sequences, int rows, int columns, const F& f) {
  Array y = empty(sequences, rows, columns);
  for (int s = 0; s < sequences; ++s)
    for (int i = 0; i < rows; ++i)
      for (int c = 0; c < columns; ++c) y(s, i, c) = f(s, i, c);
  return y;
}

inline Array linear(const Array& x, const LinearWeights& map) {
  const std::vector<double> weights = numbers(map.weight), biases = numbers(map.bias);
  return filled(x.sequences, x.rows, map.weight.size(0), [&](int s, int i, int c) {
    double sum = biases[static_cast<std::size_t>(c)];
    for (int j = 0; j < x.columns; ++j) sum += x(s, i, j) * weights[static_cast<std::size_t>(c * x.columns + j)];
    return sum;
  });
}

// The weights with which query i of a sequence mixes the rows of V.
inline std::vector<double> weights_of(const Array& q, const Array& k, int s, int i, bool is_causal) {
  std::vector<double> weights;
  for (int j = 0; j < (is_causal ? i + 1 : k.rows); ++j) {
    double score = 0;
    for (int c = 0; c < q.columns; ++c) score += q(s, i, c) * k(s, j, c);
    weights.push_back(score / std::sqrt(q.columns));
  }
  const double top = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - top);
  for (double& w : weights) w /= sum;
  return weights;
}

inline Array attention(const Array& q, const Array& k, const Array& v, bool is_causal) {
  return filled(q.sequences, q.rows, v.columns, [&](int s, int i, int c) {
    const std::vector<double> weights = weights_of(q, k, s, i, is_causal);
    double sum = 0;
    for (std::size_t j = 0; j < weights.size(); ++j) sum += weights[j] * v(s, static_cast<int>(j), c);
    return sum;
  });
}

inline Array self_attention(const Array& x, const HeadWeights& head) {
  return attention(linear(x, head.q), linear(x, head.k), linear(x, head.v), false);
}

inline Array multi_head(const Array& x, const Array& memory, const HeadsWeights& heads, bool is_causal) {
  std::vector<Array> results;
  for (const HeadWeights& h : heads.heads)
    results.push_back(attention(linear(x, h.q), linear(memory, h.k), linear(memory, h.v), is_causal));
  const int width = results[0].columns;
  const int all = width * static_cast<int>(results.size());
  const Array beside = filled(x.sequences, x.rows, all, [&](int s, int i, int c) {
    return results[static_cast<std::size_t>(c / width)](s, i, c % width);
  });
  return linear(beside, heads.output);
}

inline Array layer_norm(const Array& x, const NormWeights& norm) {
  const std::vector<double> gain = numbers(norm.gain), bias = numbers(norm.bias);
  return filled(x.sequences, x.rows, x.columns, [&](int s, int i, int c) {
    double mean = 0, variance = 0;
    for (int j = 0; j < x.columns; ++j) mean += x(s, i, j) / x.columns;
    for (int j = 0; j < x.columns; ++j) variance += (x(s, i, j) - mean) * (x(s, i, j) - mean) / x.columns;
    const auto column = static_cast<std::size_t>(c);
    return gain[column] * (x(s, i, c) - mean) / std::sqrt(variance + 1e-10) + bias[column];
  });
}

inline Array feed_forward(const Array& x, const FeedForwardWeights& ffn) {
  Array hidden = linear(x, ffn.up);
  for (double& v : hidden.values) v = std::max(v, 0.0);
  return linear(hidden, ffn.down);
}

inline Array add_norm(const Array& x, const Array& y, const NormWeights& norm) {
  Array sum = x;
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += y.values[i];
  return layer_norm(sum, norm);
}

inline Array encoder_block(const Array& x, const EncoderWeights& block) {
  const Array y = add_norm(x, multi_head(x, x, block.attention, false), block.norm_1);
  return add_norm(y, feed_forward(y, block.ffn), block.norm_2);
}

inline Array decoder_block(const Array& x, const Array& memory, const DecoderWeights& block) {
  const Array a = add_norm(x, multi_head(x, x, block.self_attention, true), block.norm_1);
  const Array b = add_norm(a, multi_head(a, memory, block.cross_attention, false), block.norm_2);
  return add_norm(b, feed_forward(b, block.ffn), block.norm_3);
}

inline Array positions(int length, int d, bool are_sinusoids) {
  return filled(1, length, d, [&](int, int n, int c) {
    if (!are_sinusoids) return static_cast<double>(n) / length;
    const double angle = n / std::pow(10000.0, static_cast<double>(c - c % 2) / d);
    return c % 2 == 0 ? std::sin(angle) : std::cos(angle);
  });
}

}  // namespace loops
}  // namespace homework
