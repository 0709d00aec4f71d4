// A naive attention() of ragged batches whose heads of K and V may be fewer than those of Q.
#pragma once

#include "support/op_check.h"
#include "support/reference.h"

#include <cmath>
#include <vector>

namespace test {

// A ragged batch and its heads.
struct Batch {
  std::vector<int> q_rows, k_rows;
  int heads, kv_heads, width, v_width;

  int sequences() const { return static_cast<int>(q_rows.size()) - 1; }
  int queries(int s) const { return q_rows[static_cast<std::size_t>(s) + 1] - q_rows[static_cast<std::size_t>(s)]; }
  int keys(int s) const { return k_rows[static_cast<std::size_t>(s) + 1] - k_rows[static_cast<std::size_t>(s)]; }
  std::vector<Shape> shapes() const {
    return {{q_rows.back(), heads * width}, {k_rows.back(), kv_heads * width}, {k_rows.back(), kv_heads * v_width}};
  }
};

// Element by element. The scores are capped, unless the cap is 0, and extra(inputs, s, h, i, j) is added to them;
// allowed(s, i, j) is the mask.
template <class T, class Extra, class Allowed>
Nd<T> naive(const Arrays<T>& x, const Batch& b, const Extra& extra, const Allowed& allowed, double cap = 0) {
  Nd<T> out({b.q_rows.back(), b.heads * b.v_width});
  for (int s = 0; s < b.sequences(); ++s)
    for (int h = 0; h < b.heads; ++h)
      for (int i = 0; i < b.queries(s); ++i) {
        const int query = b.q_rows[static_cast<std::size_t>(s)] + i, key = b.k_rows[static_cast<std::size_t>(s)];
        const int of_keys = h / (b.heads / b.kv_heads);
        std::vector<T> weights;
        for (int j = 0; j < b.keys(s); ++j) {
          T dot = 0;
          for (int c = 0; c < b.width; ++c)
            dot += x[0]({query, h * b.width + c}) * x[1]({key + j, of_keys * b.width + c});
          const T score = dot / std::sqrt(static_cast<double>(b.width));
          weights.push_back((cap > 0 ? cap * std::tanh(score / cap) : score) + extra(x, s, h, i, j));
        }
        reference::softmax_allowed(weights, [&](std::size_t j) { return allowed(s, i, static_cast<int>(j)); });
        for (int c = 0; c < b.v_width; ++c)
          for (int j = 0; j < b.keys(s); ++j)
            out({query, h * b.v_width + c}) +=
                weights[static_cast<std::size_t>(j)] * x[2]({key + j, of_keys * b.v_width + c});
      }
  return out;
}

const inline auto kNothing = [](const auto&, int, int, int, int) { return 0.0; };
const inline auto kAll = [](int, int, int) { return true; };

const inline std::vector<int> kQueries{0, 3, 3, 4, 9}, kKeys{0, 2, 4, 9, 12}, kLengths{2, 1, 0, 3};

inline std::vector<double> normal_values(std::size_t n, std::uint64_t seed) {
  seppo::RandomStream random(seed, seppo::Purpose::test);
  std::vector<double> v(n);
  for (double& x : v) x = random.normal();
  return v;
}

inline Tensor call(Inputs x, const Batch& b, const seppo::AttentionOptions& options) {
  return seppo::attention(x[0], x[1], x[2], b.heads, b.q_rows, b.k_rows, options);
}

}  // namespace test
