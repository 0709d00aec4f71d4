// Heads of any width, and attention without biases, against loops.
// needs: precision: double
#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/ops.h>
#include <seppo/models/transformer_layers.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <vector>

using namespace seppo;

namespace {

// Row `query` of head `head`, which is so wide and has the only head of keys and values, from the stacked projections,
// in plain loops.
std::vector<double> mixture(const MultiHeadAttention& m, const Tensor& x, int query, int head, int width) {
  const auto project = [&](int row, int out) {
    double total = m.in_proj.bias.defined() ? double{m.in_proj.bias.at(out)} : 0;
    for (int j = 0; j < x.size(1); ++j) total += double{x.at(row, j)} * double{m.in_proj.weight.at(out, j)};
    return total;
  };
  std::vector<double> weights, mixed(static_cast<std::size_t>(width));
  double sum = 0;
  for (int row = 0; row < x.size(0); ++row) {
    double score = 0;
    for (int c = 0; c < width; ++c) score += project(query, head * width + c) * project(row, m.q_width + c);
    weights.push_back(std::exp(score / std::sqrt(width)));
    sum += weights.back();
  }
  for (int row = 0; row < x.size(0); ++row)
    for (int c = 0; c < width; ++c)
      mixed[static_cast<std::size_t>(c)] +=
          weights[static_cast<std::size_t>(row)] / sum * project(row, m.q_width + m.kv_width + c);
  return mixed;
}

}  // namespace

// Heads of any width, with fewer heads of keys and values, with and without biases of attention.
BOOST_AUTO_TEST_CASE(heads_have_a_width_of_their_own) {
  constexpr int kHeads = 2, kWidth = 5, kModel = 6;
  for (const bool has_bias : {true, false}) {
    Parameters parameters(3);
    const EncoderLayer layer(parameters.root(), {.d_model = kModel,
                                                 .n_heads = kHeads,
                                                 .d_ff = 4,
                                                 .n_kv_heads = 1,
                                                 .head_width = kWidth,
                                                 .attention_bias = has_bias});
    RandomStream random(4, Purpose::test);
    for (real& value : parameters.edit()) value = random.normal();
    const MultiHeadAttention& attention = layer.self_attn;
    BOOST_CHECK(attention.in_proj.weight.shape() == (Shape{(kHeads + 2) * kWidth, kModel}));
    BOOST_CHECK(attention.out_proj.weight.shape() == (Shape{kModel, kHeads * kWidth}));
    BOOST_CHECK_EQUAL(attention.in_proj.bias.defined(), has_bias);
    BOOST_CHECK_EQUAL(attention.out_proj.bias.defined(), has_bias);
    BOOST_CHECK(layer.ffn.up.bias.defined() && layer.add_norm_1.norm.bias.defined());
    const Inference guard;
    const Tensor x = randn({4, kModel}, random), y = attention(x, {0, 4});
    for (int row = 0; row < 4; ++row)
      for (int out = 0; out < kModel; ++out) {
        double expected = has_bias ? double{attention.out_proj.bias.at(out)} : 0;
        for (int head = 0; head < kHeads; ++head) {
          const std::vector<double> mixed = mixture(attention, x, row, head, kWidth);
          for (int c = 0; c < kWidth; ++c)
            expected +=
                mixed[static_cast<std::size_t>(c)] * double{attention.out_proj.weight.at(out, head * kWidth + c)};
        }
        BOOST_CHECK_SMALL(double{y.at(row, out)} - expected, 1e-11);
      }
  }
}
