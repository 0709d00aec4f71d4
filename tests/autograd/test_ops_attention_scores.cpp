// Attention whose scores are capped, and its scores as a tensor.
// needs: precision: double single; simd: avx2 plain
#define BOOST_TEST_MODULE ops_attention_scores
#include "support/grouped_attention.h"
#include "support/op_check.h"

using namespace test;

// Caps so small that they bend every score, with all that may be combined with them.
BOOST_AUTO_TEST_CASE(capped_scores) {
  const Batch b{kQueries, kKeys, 4, 2, 2, 3};
  const std::vector<double> slopes{0.5, 0.25, 1, 0.1};
  const auto causal = [&](int s, int i, int j) { return j <= i + b.keys(s) - b.queries(s); };
  for (const double cap : {0.5, 2.0, 50.0}) {
    check_op(
        "capped", b.shapes(), [&](Inputs x) { return call(x, b, {.softcap = cap}); },
        [&](const auto& x) { return naive(x, b, kNothing, kAll, cap); });
    check_op(
        "capped, causal with valid lengths", b.shapes(),
        [&](Inputs x) { return call(x, b, {.mask = seppo::Mask::causal_valid_lengths(kLengths), .softcap = cap}); },
        [&](const auto& x) {
          return naive(
              x, b, kNothing,
              [&](int s, int i, int j) { return causal(s, i, j) && j < kLengths[static_cast<std::size_t>(s)]; }, cap);
        });
    auto all = b.shapes();
    all.push_back({5, 5});
    const std::vector<real> given = reals(slopes);
    check_op(
        "capped, with a bias and ALiBi", all,
        [&](Inputs x) { return call(x, b, {.bias = x[3], .slopes = given, .softcap = cap}); },
        [&](const auto& x) {
          const auto extra = [&](const auto& in, int s, int h, int i, int j) {
            return in[3]({i, j}) - slopes[static_cast<std::size_t>(h)] * std::abs(i + b.keys(s) - b.queries(s) - j);
          };
          return naive(x, b, extra, kAll, cap);
        });
  }
}

namespace {

// Weights from attention_scores, times V: what attention() computes at once.
Tensor by_scores(Inputs x, int heads, seppo::AttentionOptions options, const seppo::Mask& mask) {
  const int sequences = x[0].size(0), queries = x[0].size(1), keys = x[2].size(1), kv_heads = 2;
  const int v_width = x[2].size(2) / kv_heads;
  const Tensor weights = seppo::softmax(seppo::attention_scores(x[0], x[1], heads, options), mask);
  const Tensor grouped = seppo::reshape(weights, {sequences, kv_heads, heads / kv_heads, queries, keys});
  const Tensor v = seppo::reshape(x[2], {sequences, keys, kv_heads, v_width});
  return seppo::reshape(seppo::einsum("shgqk,skhw->sqhgw", grouped, v), {sequences, queries, heads * v_width});
}

}  // namespace

// The scores are those of attention(), values and gradients alike, also of several tiles.
BOOST_AUTO_TEST_CASE(scores_of_attention) {
  struct Sizes {
    int sequences, queries, keys;
  };
  for (const auto& [sequences, queries, keys] : {Sizes{2, 3, 5}, Sizes{1, 4, 4}, Sizes{2, 1, 3}, Sizes{1, 270, 300}})
    for (const double cap : {0.0, 0.7}) {
      const int heads = 4, kv_heads = 2, width = 3, v_width = 2;
      const auto values = [](const Shape& shape, std::uint64_t seed) {
        return reals(normal_values(static_cast<std::size_t>(shape.numel()), seed));
      };
      const Shape shapes[] = {{sequences, queries, heads * width},
                              {sequences, keys, kv_heads * width},
                              {sequences, keys, kv_heads * v_width},
                              {heads, queries + 1, keys + 2}};
      std::vector<int> positions;
      for (int i = 0; i < sequences * queries; ++i) positions.push_back(i % 7);
      const std::vector<real> slopes = reals(std::vector{0.5, 0.25, 1.0, 0.125});
      std::vector<std::vector<double>> found[2];
      for (const bool is_whole : {true, false}) {
        seppo::tape().clear();
        std::vector<Tensor> x;
        for (const Shape& shape : shapes) x.push_back(seppo::variable(shape, values(shape, x.size() + 1)));
        seppo::AttentionOptions options{.bias = x[3], .slopes = slopes, .positions = positions, .softcap = cap};
        if (queries == 3) options.positions = {};
        Tensor y;
        if (is_whole) {
          options.mask = seppo::Mask::causal();
          y = seppo::attention(x[0], x[1], x[2], heads, options);
        } else {
          y = by_scores(x, heads, options, seppo::Mask::causal());
        }
        seppo::tape().backward(y, values(y.shape(), 9));
        found[is_whole].push_back({y.values().begin(), y.values().end()});
        for (const Tensor& leaf : x) found[is_whole].push_back({leaf.grad().begin(), leaf.grad().end()});
      }
      for (std::size_t i = 0; i < found[0].size(); ++i)
        check_close(found[1][i], found[0][i], 4e-12, "attention and its scores, " + std::to_string(i));
    }
}
