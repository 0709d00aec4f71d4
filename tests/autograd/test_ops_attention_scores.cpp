// Attention whose scores are capped, its scores as a tensor, and attention with an axis for heads.
// needs: precision: double single; simd: avx2 plain
#include "support/errors.h"
#include "support/grouped_attention.h"
#include "support/op_check.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/tools/attention_recorder.h>

#include <functional>

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

namespace {

struct HeadSizes {
  int sequences, heads, kv_heads, queries, keys, width, v_width;

  std::vector<Shape> shapes() const {
    return {
        {sequences, heads, queries, width}, {sequences, kv_heads, keys, width}, {sequences, kv_heads, keys, v_width}};
  }
};

// [sequences, heads, rows, width] -> [sequences, rows, heads width], and back
Tensor side_by_side(const Tensor& x) {
  return seppo::reshape(seppo::permute(x, {0, 2, 1, 3}), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}
Tensor on_an_axis(const Tensor& x, int heads) {
  return seppo::permute(seppo::reshape(x, {x.size(0), x.size(1), heads, -1}), {0, 2, 1, 3});
}

using Numbers = std::vector<std::vector<double>>;
using Attention = std::function<Tensor(Inputs, const seppo::AttentionOptions&)>;

// The output, the gradients and the weights, with a bias where scores are capped.
Numbers results(const HeadSizes& n, seppo::AttentionOptions options, const Attention& attention) {
  seppo::tape().clear();
  seppo::tape().random = {1, 2, 3, 4};
  std::vector<Shape> shapes = n.shapes();
  if (options.softcap > 0) shapes.push_back({n.heads, n.queries, n.keys});
  std::vector<Tensor> x;
  for (const Shape& shape : shapes)
    x.push_back(seppo::variable(shape, reals(normal_values(static_cast<std::size_t>(shape.numel()), x.size() + 1))));
  if (options.softcap > 0) options.bias = x[3];
  seppo::AttentionRecorder recorder;
  const seppo::Observe watch(recorder);
  const Tensor y = attention(x, options);
  seppo::tape().backward(y, reals(normal_values(y.numel(), 9)));
  Numbers all{{y.values().begin(), y.values().end()}};
  for (const Tensor& leaf : x) all.emplace_back(leaf.grad().begin(), leaf.grad().end());
  const seppo::AttentionMap& weights = recorder.maps.at(0);
  BOOST_CHECK(weights.shape == (Shape{n.sequences, n.heads, n.queries, n.keys}));
  all.emplace_back(weights.weights.begin(), weights.weights.end());
  return all;
}

}  // namespace

// It is the same attention wherever the heads lie, with all options, for short sequences and for several tiles.
BOOST_AUTO_TEST_CASE(heads_on_an_axis_and_side_by_side) {
  const std::vector<real> slopes = reals(std::vector{0.5, 0.25, 1.0, 0.125});
  for (const HeadSizes& n : {HeadSizes{5, 4, 2, 6, 7, 4, 3}, {2, 4, 1, 70, 150, 8, 8}, {2, 4, 4, 270, 270, 16, 20}}) {
    std::vector<int> positions, lengths;
    for (int i = 0; i < n.sequences * n.queries; ++i) positions.push_back(i % 7);
    for (int s = 0; s < n.sequences; ++s) lengths.push_back(s * n.keys / n.sequences);
    const seppo::AttentionOptions some[] = {
        {},
        {.mask = seppo::Mask::causal(), .dropout = 0.3},
        {.mask = seppo::Mask::valid_lengths(lengths), .slopes = slopes, .positions = positions, .softcap = 0.7}};
    for (const seppo::AttentionOptions& options : some) {
      const Numbers apart =
          results(n, options, [](Inputs x, const auto& o) { return seppo::attention(x[0], x[1], x[2], o); });
      const Numbers beside = results(n, options, [&](Inputs x, const auto& o) {
        const Tensor y = seppo::attention(side_by_side(x[0]), side_by_side(x[1]), side_by_side(x[2]), n.heads, o);
        return on_an_axis(y, n.heads);
      });
      for (std::size_t i = 0; i < apart.size(); ++i) check_close(apart[i], beside.at(i), 4e-12, "heads on an axis");
    }
  }
}

BOOST_AUTO_TEST_CASE(heads_that_do_not_fit) {
  using seppo::ones, seppo::ShapeError;
  const auto refused = [](const Shape& q, const Shape& k, const Shape& v, std::vector<std::string> words) {
    check_error<seppo::Error>([&] { seppo::attention(ones(q), ones(k), ones(v)); }, words);
  };
  refused({2, 3, 4}, {2, 3, 4}, {2, 3, 4}, {"attention: needs Q, K, V [sequences, heads, rows, width]", "[2,3,4]"});
  refused({2, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}, {"attention: needs", "K [1,2,3,4]"});
  refused({2, 2, 3, 4}, {2, 2, 3, 5}, {2, 2, 3, 4}, {"attention: heads of Q [2,2,3,4] and K [2,2,3,5]", "width"});
  refused({2, 2, 3, 4}, {2, 2, 3, 4}, {2, 1, 3, 4}, {"attention: K [2,2,3,4] and V [2,1,3,4]", "heads or rows"});
  refused({2, 2, 3, 4}, {2, 2, 3, 4}, {2, 2, 4, 4}, {"attention: K [2,2,3,4] and V [2,2,4,4]", "heads or rows"});
  refused({2, 3, 3, 4}, {2, 2, 3, 4}, {2, 2, 3, 4}, {"attention: ", "divides"});
}
