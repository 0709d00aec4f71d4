// One way to write each exercise.
#include "homework/exercises.h"

#include <cctype>
#include <cmath>
#include <sstream>

namespace homework {

Ids token_ids(const std::vector<std::string>& tokens) {
  Ids ids;
  for (const std::string& token : tokens) ids.emplace(token, static_cast<int>(ids.size()));
  return ids;
}

std::vector<int> ids_of(const std::string& text, const Ids& ids) {
  std::vector<int> found;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!std::isdigit(static_cast<unsigned char>(word[0]))) {
      found.push_back(ids.at(word));
      continue;
    }
    for (const char digit : word) found.push_back(ids.at(std::string(1, digit)));
  }
  return found;
}

Tensor attention_by_loops(const Tensor& q, const Tensor& k, const Tensor& v) {
  const int n = q.size(0);
  const auto root = static_cast<seppo::real>(std::sqrt(q.size(1)));
  std::vector<Tensor> rows;
  for (int i = 0; i < n; ++i) {
    std::vector<Tensor> scores;
    for (int j = 0; j < n; ++j) scores.push_back(sum(slice(q, 0, i, i + 1) * slice(k, 0, j, j + 1), 1) / root);
    rows.push_back(matmul(softmax(reshape(concat(scores), {1, n})), v));
  }
  return concat(rows);
}

Tensor attention_by_products(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& allowed) {
  Tensor scores = matmul(q, transpose(k)) / static_cast<seppo::real>(std::sqrt(q.size(-1)));
  if (allowed.defined()) scores = where(allowed, scores, seppo::real{-1e9});
  return matmul(softmax(scores), v);
}

Tensor causal_mask(int n) { return tril(seppo::ones({n, n})); }

Tensor self_attention(const Tensor& x, const HeadWeights& head, const Tensor& allowed) {
  return attention_by_products(linear(x, head.q.weight, head.q.bias), linear(x, head.k.weight, head.k.bias),
                               linear(x, head.v.weight, head.v.bias), allowed);
}

Tensor multi_head_attention(const Tensor& x, const Tensor& memory, const HeadsWeights& heads, const Tensor& allowed) {
  std::vector<Tensor> results;
  for (const HeadWeights& head : heads.heads)
    results.push_back(attention_by_products(linear(x, head.q.weight, head.q.bias),
                                            linear(memory, head.k.weight, head.k.bias),
                                            linear(memory, head.v.weight, head.v.bias), allowed));
  return linear(concat(results, -1), heads.output.weight, heads.output.bias);
}

Tensor layer_norm(const Tensor& x, const NormWeights& norm, double eps) {
  const Tensor centred = x - mean(x, -1, true);
  const Tensor variance = mean(centred * centred, -1, true);
  return norm.gain * (centred / sqrt(variance + static_cast<seppo::real>(eps))) + norm.bias;
}

Tensor feed_forward(const Tensor& x, const FeedForwardWeights& ffn) {
  return linear(relu(linear(x, ffn.up.weight, ffn.up.bias)), ffn.down.weight, ffn.down.bias);
}

Tensor encoder_block(const Tensor& x, const EncoderWeights& block) {
  const Tensor y = layer_norm(x + multi_head_attention(x, x, block.attention), block.norm_1);
  return layer_norm(y + feed_forward(y, block.ffn), block.norm_2);
}

Tensor decoder_block(const Tensor& x, const Tensor& memory, const DecoderWeights& block) {
  const Tensor mask = causal_mask(x.size(1));
  const Tensor a = layer_norm(x + multi_head_attention(x, x, block.self_attention, mask), block.norm_1);
  const Tensor b = layer_norm(a + multi_head_attention(a, memory, block.cross_attention), block.norm_2);
  return layer_norm(b + feed_forward(b, block.ffn), block.norm_3);
}

Tensor simple_positions(int length, int d) {
  return expand(reshape(seppo::arange(length), {length, 1}) / static_cast<seppo::real>(length), {length, d});
}

Tensor sinusoids(int length, int d) {
  std::vector<double> values;
  for (int n = 0; n < length; ++n)
    for (int j = 0; j < d; ++j) {
      const double angle = n / std::pow(10000.0, static_cast<double>(j - j % 2) / d);
      values.push_back(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return seppo::tensor({length, d}, values);
}

}  // namespace homework
