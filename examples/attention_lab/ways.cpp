// The same attention in several ways, from two loops to one fused op.
#include "attention_lab/ways.h"

#include <cmath>

namespace attention_lab {

using seppo::real;

namespace {

real scale_of(const Tensor& q) { return 1 / std::sqrt(static_cast<real>(q.size(-1))); }

}  // namespace

Tensor two_loops(const Tensor& q, const Tensor& k, const Tensor& v) {
  const int length = q.size(0);
  std::vector<Tensor> outputs;
  for (int i = 0; i < length; ++i) {
    const Tensor query = reshape(slice(q, 0, i, i + 1), {-1});
    std::vector<Tensor> scores;
    for (int j = 0; j < length; ++j) {
      const Tensor key = reshape(slice(k, 0, j, j + 1), {-1});
      scores.push_back(scale(matmul(query, key), scale_of(q)));
    }
    outputs.push_back(matmul(softmax(seppo::stack(scores)), v));
  }
  return seppo::stack(outputs);
}

Tensor two_loops_for_a_batch(const Tensor& q, const Tensor& k, const Tensor& v) {
  const int length = q.size(1);
  std::vector<Tensor> outputs;
  for (int i = 0; i < length; ++i) {
    const Tensor query = slice(q, 1, i, i + 1);  // [batch, 1, d]
    std::vector<Tensor> scores;
    for (int j = 0; j < length; ++j)
      scores.push_back(scale(sum(query * slice(k, 1, j, j + 1), 2), scale_of(q)));  // [batch, 1]
    const Tensor weights = softmax(seppo::concat(scores, 1));                       // [batch, length]
    outputs.push_back(matmul(unsqueeze(weights, 1), v));                            // [batch, 1, d]
  }
  return seppo::concat(outputs, 1);
}

Tensor no_loop(const Tensor& q, const Tensor& k, const Tensor& v) {
  return matmul(softmax(scale(matmul(q, transpose(k)), scale_of(q))), v);
}

Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v, int n_heads) { return attention(q, k, v, n_heads); }

Tensor separate_heads(const seppo::MultiHeadAttention& attention, const Tensor& x) {
  const int d = attention.d_model, width = d / attention.n_heads;
  std::vector<Tensor> heads;
  for (int h = 0; h < attention.n_heads; ++h) {
    const auto project = [&](int part) {  // 0: queries, 1: keys, 2: values of this head
      const int begin = part * d + h * width;
      return linear(x, slice(attention.in_proj.weight, 0, begin, begin + width),
                    slice(attention.in_proj.bias, 0, begin, begin + width));
    };
    heads.push_back(no_loop(project(0), project(1), project(2)));
  }
  return attention.out_proj(seppo::concat(heads, 2));
}

Tensor stacked_heads(const seppo::MultiHeadAttention& attention, const Tensor& x) {
  const int batch = x.size(0), length = x.size(1);
  std::vector<int> rows;
  for (int s = 0; s <= batch; ++s) rows.push_back(s * length);
  const Tensor y = attention(reshape(x, {batch * length, attention.d_model}), rows);
  return reshape(y, x.shape());
}

}  // namespace attention_lab
