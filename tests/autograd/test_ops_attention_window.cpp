// attention() through sliding windows, with scores scaled otherwise; rotary() of a share of each head.
// needs: precision: double single; simd: avx2 plain
#include "support/grouped_attention.h"
#include "support/op_check.h"

#include <seppo/nn/parameters.h>

#include <algorithm>
#include <cmath>

using namespace test;

namespace {

// How many keys, from the first, query i of sequence s may attend to without the window.
int attended(const Batch& b, const seppo::Mask& mask, int s, int i) {
  const int causal = mask.is_causal ? i + 1 + b.keys(s) - b.queries(s) : b.keys(s);
  const int valid = mask.lengths.empty() ? b.keys(s) : mask.lengths[static_cast<std::size_t>(s)];
  return std::clamp(causal, 0, valid);
}

void check_window(const std::string& name, const Batch& b, const seppo::AttentionOptions& options) {
  const auto allowed = [&](int s, int i, int j) {
    const int end = attended(b, options.mask, s, i);
    return j < end && j >= end - options.window;
  };
  check_op(
      name, b.shapes(), [&](Inputs x) { return call(x, b, options); },
      [&](const auto& x) { return naive(x, b, kNothing, allowed, options.softcap); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(short_sequences) {
  const Batch b{kQueries, kKeys, 4, 2, 3, 2};
  for (const int window : {1, 2, 3, 4, 100}) {
    check_window("window", b, {.window = window});
    check_window("causal window", b, {.mask = seppo::Mask::causal(), .window = window});
    check_window("window of valid keys", b, {.mask = seppo::Mask::valid_lengths(kLengths), .window = window});
    check_window("capped window", b,
                 {.mask = seppo::Mask::causal_valid_lengths(kLengths), .softcap = 0.5, .window = window});
  }
}

// Several tiles of keys, of which the first queries of a strip see other ones than the last.
BOOST_AUTO_TEST_CASE(long_sequences) {
  const std::vector<int> q_rows{0, 3, 5}, k_rows{0, 300, 310};
  const Batch few_queries{q_rows, k_rows, 2, 1, 2, 3};
  for (const int window : {140, 256})
    check_window("few queries", few_queries, {.mask = seppo::Mask::causal(), .window = window});
}

// The same values and gradients as those of a mask that forbids what is outside of the window, for sizes that
// check_op() would take long for.
BOOST_AUTO_TEST_CASE(as_an_explicit_mask) {
  constexpr int kRows = 620;
  const std::vector<int> rows{0, kRows};
  const auto run = [&](const seppo::AttentionOptions& options, std::vector<real>& values) {
    seppo::Tape own;
    const seppo::UseTape use(own);
    own.random = {7, 3, 0, 0};
    const std::vector<double> numbers = normal_values(3 * kRows * 8, 5);
    const Tensor x = seppo::variable({kRows, 24}, numbers);
    const Tensor y = seppo::attention({x, 0, 8}, {x, 8, 8}, {x, 16, 8}, 2, rows, rows, options);
    const std::vector<double> cotangent = normal_values(kRows * 8, 6);
    own.backward(y, std::vector<real>(cotangent.begin(), cotangent.end()));
    values.assign(y.values().begin(), y.values().end());
    values.insert(values.end(), x.grad().begin(), x.grad().end());
  };
  for (const double dropout : {0.0, 0.3})
    for (const int window : {1, 31, 200, 256, 500}) {
      std::vector<std::uint8_t> allowed;
      for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < kRows; ++j) allowed.push_back(j <= i && j > i - window);
      std::vector<real> got, expected;
      run({.mask = seppo::Mask::causal(), .dropout = dropout, .window = window}, got);
      run({.mask = seppo::Mask::allowed(allowed), .dropout = dropout}, expected);
      const std::vector<double> wide(expected.begin(), expected.end());
      check_close(std::span<const real>(got), wide, within(1e-12), "window of " + std::to_string(window));
    }
}

BOOST_AUTO_TEST_CASE(scores_are_scaled) {
  const Batch b{kQueries, kKeys, 4, 2, 3, 2};
  constexpr double kScale = 0.3;
  const auto by_hand = [&](auto x) {
    for (auto& value : x[0].v) value *= kScale * std::sqrt(3.0);
    return naive(x, b, kNothing, kAll, 0.5);
  };
  check_op(
      "scale", b.shapes(), [&](Inputs x) { return call(x, b, {.softcap = 0.5, .scale = kScale}); }, by_hand);
  const Batch even{{0, 3, 6}, {0, 4, 8}, 2, 1, 3, 2};
  const auto scores = [&](Inputs x) {
    const auto rows = [](const Tensor& t) { return seppo::reshape(t, Shape{2, t.size(0) / 2, t.size(1)}); };
    const Tensor s = seppo::attention_scores(rows(x[0]), rows(x[1]), 2, {.scale = kScale});
    const Tensor v = seppo::reshape(x[2], Shape{2, 1, 4, 2});
    return seppo::reshape(seppo::permute(seppo::matmul(seppo::softmax(s), v), {0, 2, 1, 3}), Shape{6, 4});
  };
  check_op("scale of scores", even.shapes(), scores, [&](auto x) {
    for (auto& value : x[0].v) value *= kScale * std::sqrt(3.0);
    return naive(x, even, kNothing, kAll);
  });
}

BOOST_AUTO_TEST_CASE(columns_beyond_the_table_stay_as_they_are) {
  const std::vector<int> positions{0, 5, 1};
  const real c = static_cast<real>(0.8);
  const real s = static_cast<real>(0.6);
  const std::vector<real> angles{1, 0, c, s, 0, 1, 0, 1, 0, 1, s, c};
  seppo::Parameters parameters(0);
  const Tensor table = parameters.root().constant(
      {6, 2},
      [&](std::span<real> values, const Shape&, seppo::RandomStream&) { std::ranges::copy(angles, values.begin()); });
  for (const auto pairs : {seppo::RotaryPairs::interleaved, seppo::RotaryPairs::halves})
    check_op(
        "share", {{3, 2 * 5 - 2}}, [&](Inputs x) { return seppo::rotary(x[0], 2, table, positions, pairs); },
        [&](const auto& x) {
          auto y = x[0];
          for (int r = 0; r < 3; ++r)
            for (const int a : {0, 4}) {
              const double cosine{table.values()[static_cast<std::size_t>(2 * positions[static_cast<std::size_t>(r)])]};
              const double sine{
                  table.values()[static_cast<std::size_t>(2 * positions[static_cast<std::size_t>(r)] + 1)]};
              y({r, a}) = x[0]({r, a}) * cosine - x[0]({r, a + 1}) * sine;
              y({r, a + 1}) = x[0]({r, a}) * sine + x[0]({r, a + 1}) * cosine;
            }
          return y;
        });
}

BOOST_AUTO_TEST_CASE(bad_arguments_are_refused) {
  const Tensor x = seppo::ones({1, 3, 4});
  const auto attend = [&](const seppo::AttentionOptions& options) { return seppo::attention(x, x, x, 2, options); };
  BOOST_CHECK_THROW(attend({.window = -1}), seppo::ArgumentError);
  BOOST_CHECK_THROW(attend({.scale = -1}), seppo::ArgumentError);
  BOOST_CHECK_THROW(seppo::attention_scores(x, x, 2, {.scale = -1}), seppo::ArgumentError);
  BOOST_CHECK_THROW(seppo::attention_scores(x, x, 2, {.window = 2}), seppo::ArgumentError);
}
