// attention() with fewer key-value heads, with V of another width, with biases and ALiBi; rotary().
// needs: precision: double single; simd: avx2 plain
#include "support/grouped_attention.h"
#include "support/op_check.h"
#include "support/reference.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/tools/attention_recorder.h>
#include <seppo/nn/modules/positional_encoding.h>

using namespace test;
namespace ref = test::reference;

// Short sequences, where the heads of a group lie side by side, and groups that do not fit the lanes.
BOOST_AUTO_TEST_CASE(grouped_queries_and_values_of_another_width) {
  for (const auto& [heads, kv_heads, width, v_width] :
       {std::array{4, 2, 3, 3}, {4, 1, 2, 5}, {2, 2, 4, 1}, {3, 1, 2, 2}, {6, 2, 1, 4}}) {
    const Batch b{kQueries, kKeys, heads, kv_heads, width, v_width};
    const auto causal = [&](int s, int i, int j) { return j <= i + b.keys(s) - b.queries(s); };
    check_op(
        "grouped", b.shapes(), [&](Inputs x) { return call(x, b, {}); },
        [&](const auto& x) { return naive(x, b, kNothing, kAll); });
    check_op(
        "grouped causal", b.shapes(),
        [&](Inputs x) { return call(x, b, {seppo::Mask::causal_valid_lengths(kLengths)}); },
        [&](const auto& x) {
          return naive(x, b, kNothing, [&](int s, int i, int j) {
            return causal(s, i, j) && j < kLengths[static_cast<std::size_t>(s)];
          });
        });
  }
}

// More heads than fit into one group: the gradient of a shared head comes from several lanes.
BOOST_AUTO_TEST_CASE(many_grouped_sequences) {
  std::vector<int> rows{0};
  for (int s = 0; s < 9; ++s) rows.push_back(rows.back() + 1 + s % 3);
  const Batch b{rows, rows, 4, 2, 4, 4};
  check_op(
      "many grouped", b.shapes(), [&](Inputs x) { return call(x, b, {seppo::Mask::causal()}); },
      [&](const auto& x) { return naive(x, b, kNothing, [](int, int i, int j) { return j <= i; }); });
}

// Bias matrices shared by sequences, heads, both or neither, some larger than needed, some containing -inf.
BOOST_AUTO_TEST_CASE(an_added_bias) {
  const Batch b{kQueries, kKeys, 4, 2, 2, 3};
  const std::vector<Shape> shapes{{5, 5}, {4, 5, 5}, {1, 6, 7}, {4, 4, 5, 5}, {1, 4, 5, 6}, {4, 1, 5, 5}};
  for (const Shape& shape : shapes) {
    const auto extra = [&](const auto& x, int s, int h, int i, int j) {
      const auto n = [&](int axis) { return shape.rank() >= axis ? shape[-axis] : 1; };
      const int matrix = (n(4) == 1 ? 0 : s) * n(3) + (n(3) == 1 ? 0 : h);
      return x[3].v[static_cast<std::size_t>((matrix * n(2) + i) * n(1) + j)];
    };
    auto all = b.shapes();
    all.push_back(shape);
    check_op(
        "bias", all, [&](Inputs x) { return call(x, b, {.bias = x[3]}); },
        [&](const auto& x) { return naive(x, b, extra, kAll); });
    check_op(
        "bias causal", all, [&](Inputs x) { return call(x, b, {.mask = seppo::Mask::causal(), .bias = x[3]}); },
        [&](const auto& x) {
          return naive(x, b, extra, [&](int s, int i, int j) { return j <= i + b.keys(s) - b.queries(s); });
        });
  }
  // No columns for keys that the mask forbids to all.
  auto narrow = b.shapes();
  narrow.push_back({5, 3});
  check_op(
      "bias of valid keys", narrow,
      [&](Inputs x) { return call(x, b, {.mask = seppo::Mask::valid_lengths(kLengths), .bias = x[3]}); },
      [&](const auto& x) {
        return naive(
            x, b,
            [](const auto& in, int, int, int i, int j) {
              return j < 3 ? in[3]({i, j}) : in[3]({i, 0}) * 0.0;
            },
            [&](int s, int, int j) { return j < kLengths[static_cast<std::size_t>(s)]; });
      });
  // -inf forbids keys, even all keys of a query.
  std::vector<double> forbidden(5 * 5, 0.0);
  for (const std::size_t at : {0u, 1u, 2u, 3u, 4u, 6u, 10u}) forbidden[at] = -std::numeric_limits<double>::infinity();
  auto all = b.shapes();
  all.push_back({5, 5});
  check_op(
      "bias of -inf", all,
      [&](Inputs x) {
        return call(x, b, {.bias = x[3] + seppo::tensor({5, 5}, reals(forbidden))});
      },
      [&](const auto& x) {
        return naive(
            x, b,
            [](const auto& in, int, int, int i, int j) {
              return in[3]({i, j});
            },
            [&](int, int i, int j) { return forbidden[static_cast<std::size_t>(5 * i + j)] == 0; });
      });
}

// 270 of 300 keys, more than a tile, are forbidden by -inf or by a mask: this is equivalent to leaving them out.
BOOST_AUTO_TEST_CASE(forbidden_keys_of_a_long_sequence_are_as_none) {
  const int n = 300, forbidden = 270, d = 8;
  const std::vector<int> rows{0, n}, few{0, n - forbidden};
  const auto values = [](int r, int c, std::uint64_t seed) {
    return seppo::variable({r, c}, reals(normal_values(static_cast<std::size_t>(r * c), seed)));
  };
  const std::vector<double> cotangent = normal_values(n * d, 4);
  std::vector<double> bias(n * n, 0.0);
  std::vector<std::uint8_t> allowed(n * n, 1);
  for (std::size_t i = 0; i < bias.size(); ++i)
    if (i % n < forbidden || i / n == 7) {  // and query 7 sees no key
      bias[i] = -std::numeric_limits<double>::infinity();
      allowed[i] = 0;
    }
  for (const bool has_bias : {true, false}) {
    seppo::tape().clear();
    const Tensor q = values(n, d, 1), k = values(n, d, 2), v = values(n, d, 3),
                 b = seppo::variable({n, n}, reals(bias));
    seppo::AttentionOptions options;
    if (has_bias) options.bias = b;
    if (!has_bias) options.mask = seppo::Mask::allowed(allowed);
    const Tensor y = seppo::attention(q, k, v, 2, rows, rows, options);
    seppo::tape().backward(y, reals(cotangent));
    const Tensor query = values(n, d, 1), key = seppo::variable({n - forbidden, d}, k.values().subspan(forbidden * d)),
                 value = seppo::variable({n - forbidden, d}, v.values().subspan(forbidden * d));
    const Tensor expected = seppo::attention(query, key, value, 2, rows, few);
    std::vector<double> seen = cotangent;
    std::fill_n(seen.begin() + 7 * d, d, 0.0);
    seppo::tape().backward(expected, reals(seen));
    for (std::size_t i = 0; i < y.numel(); ++i) {
      const bool is_blind = i / d == 7, is_forbidden = i < forbidden * d;
      BOOST_CHECK_SMALL(double{y.values()[i] - (is_blind ? 0 : expected.values()[i])},
                        is_blind ? 1e-300 : within(1e-11));
      BOOST_CHECK_SMALL(double{q.grad()[i] - (is_blind ? 0 : query.grad()[i])}, is_blind ? 1e-300 : within(1e-11));
      for (const auto& [whole, part] : {std::pair{k, key}, {v, value}})
        BOOST_CHECK_SMALL(double{whole.grad()[i] - (is_forbidden ? 0 : part.grad()[i - forbidden * d])},
                          is_forbidden ? 1e-300 : within(1e-11));
    }
    if (!has_bias) continue;
    for (std::size_t i = 0; i < bias.size(); ++i)
      if (bias[i] != 0) BOOST_REQUIRE_EQUAL(b.grad()[i], 0);
  }
  seppo::tape().clear();
}

BOOST_AUTO_TEST_CASE(alibi_lowers_scores_by_the_distance) {
  const Batch b{kQueries, kKeys, 4, 2, 2, 2};
  const std::vector<real> slopes{real{0.5}, real{0.25}, 2, 1};
  const std::vector<int> positions{7, 0, 2, 5, 1, 2, 3, 4, 5};
  for (const bool given : {false, true})
    check_op(
        "alibi", b.shapes(),
        [&](Inputs x) { return call(x, b, {.slopes = slopes, .positions = given ? positions : std::vector<int>{}}); },
        [&](const auto& x) {
          return naive(
              x, b,
              [&](const auto&, int s, int h, int i, int j) {
                const int at = given ? positions[static_cast<std::size_t>(kQueries[static_cast<std::size_t>(s)] + i)]
                                     : i + b.keys(s) - b.queries(s);
                return -double{slopes[static_cast<std::size_t>(h)]} * std::abs(at - j);
              },
              kAll);
        });
}

// Several tiles: values and gradients equal those of separate ops for each head, which add the bias and ALiBi.
BOOST_AUTO_TEST_CASE(long_sequences_equal_repeated_heads) {
  const std::vector<int> rows{0, 300, 410};
  const int heads = 4, kv_heads = 2, width = 4, v_width = 6;
  const auto variable = [&](int r, int c, std::uint64_t seed) {
    return seppo::variable({r, c}, reals(normal_values(static_cast<std::size_t>(r * c), seed)));
  };
  seppo::tape().clear();
  const Tensor q = variable(410, heads * width, 1), k = variable(410, kv_heads * width, 2),
               v = variable(410, kv_heads * v_width, 3), bias = variable(300, 300, 4);
  const std::vector<real> slopes = reals(std::vector{1.0, 0.5, 0.1, 0.01});
  const std::vector<double> cotangent = normal_values(410 * heads * v_width, 5);
  const auto gradients = [&](const Tensor& y) {
    std::vector<std::vector<double>> all{{y.values().begin(), y.values().end()}};
    seppo::tape().backward(y, reals(cotangent));
    for (const Tensor& x : {q, k, v, bias}) {
      all.emplace_back(x.grad().begin(), x.grad().end());
      for (std::size_t i = 0; i < x.numel(); ++i) seppo::grad_of(x)[i] = 0;
    }
    return all;
  };
  const auto fused = gradients(
      seppo::attention(q, k, v, heads, rows, rows, {.mask = seppo::Mask::causal(), .bias = bias, .slopes = slopes}));
  std::vector<Tensor> sequences;
  for (int s = 0; s < 2; ++s) {
    const int n = rows[static_cast<std::size_t>(s) + 1] - rows[static_cast<std::size_t>(s)];
    std::vector<double> distances;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) distances.push_back(std::abs(i - j));
    std::vector<Tensor> outputs;
    for (int h = 0; h < heads; ++h) {
      const auto part = [&](const Tensor& x, int head, int w) {
        return seppo::slice(
            seppo::slice(x, 0, rows[static_cast<std::size_t>(s)], rows[static_cast<std::size_t>(s) + 1]), 1, head * w,
            (head + 1) * w);
      };
      Tensor scores = seppo::scale(seppo::matmul(part(q, h, width), seppo::transpose(part(k, h / 2, width))), 0.5);
      scores = scores + seppo::slice(seppo::slice(bias, 0, 0, n), 1, 0, n);
      scores = scores - seppo::scale(seppo::tensor({n, n}, reals(distances)), slopes[static_cast<std::size_t>(h)]);
      outputs.push_back(seppo::matmul(seppo::softmax(scores, seppo::Mask::causal()), part(v, h / 2, v_width)));
    }
    sequences.push_back(seppo::concat(outputs, 1));
  }
  const auto expected = gradients(seppo::concat(sequences));
  for (std::size_t i = 0; i < fused.size(); ++i) check_close(fused[i], expected[i], 1e-10, "long " + std::to_string(i));
  seppo::tape().clear();
}

// Short and long sequences, on one and several threads.
BOOST_AUTO_TEST_CASE(threads_change_no_byte) {
  for (const int length : {6, 200}) {
    std::vector<int> rows{0};
    for (int s = 0; s < 600 / length; ++s) rows.push_back(rows.back() + length);
    const Batch b{rows, rows, 8, 2, 8, 4};
    std::vector<std::vector<double>> results;
    for (const int threads : {1, 2, 3, 4}) {
      seppo::set_num_threads(threads);
      seppo::tape().clear();
      std::vector<Tensor> x;
      for (const Shape& shape : b.shapes())
        x.push_back(seppo::variable(shape, reals(normal_values(static_cast<std::size_t>(shape.numel()), 7))));
      const Tensor y = call(x, b, {seppo::Mask::causal()});
      results.emplace_back(y.values().begin(), y.values().end());
      seppo::tape().backward(y, reals(normal_values(y.numel(), 8)));
      for (const Tensor& input : x)
        results.back().insert(results.back().end(), input.grad().begin(), input.grad().end());
      BOOST_CHECK(results.back() == results.front());
    }
    seppo::set_num_threads(1);
  }
  seppo::tape().clear();
}

// The recorded weights times V give the output.
BOOST_AUTO_TEST_CASE(the_observer_sees_the_weights) {
  const Batch b{{0, 3, 5}, {0, 4, 9}, 4, 2, 2, 3};
  seppo::tape().clear();
  std::vector<Tensor> x;
  for (const Shape& shape : b.shapes())
    x.push_back(seppo::tensor(shape, reals(normal_values(static_cast<std::size_t>(shape.numel()), 1))));
  const Tensor bias = seppo::tensor({4, 3, 5}, reals(normal_values(60, 2)));
  const std::vector<real> slopes{1, real{0.5}, real{0.25}, 2};
  seppo::AttentionRecorder recorder;
  const seppo::Observe scope(recorder);
  const Tensor y = call(x, b, {.mask = seppo::Mask::causal(), .bias = bias, .slopes = slopes});
  const seppo::AttentionMap& map = recorder.maps.at(0);
  BOOST_REQUIRE(map.shape == (Shape{2, 4, 3, 5}));
  for (int s = 0; s < 2; ++s)
    for (int h = 0; h < 4; ++h)
      for (int i = 0; i < b.queries(s); ++i)
        for (int c = 0; c < 3; ++c) {
          double out = 0;
          for (int j = 0; j < b.keys(s); ++j)
            out += double{map.weights[static_cast<std::size_t>(((s * 4 + h) * 3 + i) * 5 + j)] *
                          x[2].values()[static_cast<std::size_t>((b.k_rows[static_cast<std::size_t>(s)] + j) * 6 +
                                                                 h / 2 * 3 + c)]};
          const int row = b.q_rows[static_cast<std::size_t>(s)] + i;
          BOOST_CHECK_SMALL(out - double{y.values()[static_cast<std::size_t>(row * 12 + h * 3 + c)]}, within(1e-12));
        }
}

namespace {

// Rotates each pair of a head by multiplying it, as a complex number, by e^(i angle).
template <class T>
Nd<T> turned(const Nd<T>& x, int first, int heads, int width, const std::vector<int>& positions, bool halves) {
  Nd<T> y({x.size(0), heads * width});
  for (int r = 0; r < x.size(0); ++r)
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < width / 2; ++i) {
        const int a = h * width + (halves ? i : 2 * i), b = h * width + (halves ? i + width / 2 : 2 * i + 1);
        const double angle = positions[static_cast<std::size_t>(r)] * std::pow(500.0, -2.0 * i / width);
        y({r, a}) = x({r, first + a}) * std::cos(angle) - x({r, first + b}) * std::sin(angle);
        y({r, b}) = x({r, first + a}) * std::sin(angle) + x({r, first + b}) * std::cos(angle);
      }
  return y;
}

}  // namespace

BOOST_AUTO_TEST_CASE(rotary_turns_pairs_of_columns) {
  const std::vector<int> positions{0, 5, 1, 1, 39};
  for (const auto kind : {seppo::Positions::rotary, seppo::Positions::rotary_halves})
    for (const int width : {2, 4, 6}) {
      seppo::Parameters parameters(0);
      const seppo::PositionalEncoding encoding(parameters.root(), kind, 40, 3 * width, {.n_heads = 3, .theta = 500});
      const seppo::AttentionPositions turn = encoding.for_attention(positions);
      check_op(
          "rotary", {{5, 3 * width}},
          [&](Inputs x) { return seppo::rotary(x[0], 3, turn.rotary, positions, turn.pairs); },
          [&](const auto& x) { return turned(x[0], 0, 3, width, positions, kind == seppo::Positions::rotary_halves); });
      check_op(
          "rotary columns", {{5, 3 * width + 4}},
          [&](Inputs x) {
            return seppo::rotary({x[0], 3, 2 * width}, 2, turn.rotary, positions, turn.pairs);
          },
          [&](const auto& x) { return turned(x[0], 3, 2, width, positions, kind == seppo::Positions::rotary_halves); });
    }
}

BOOST_AUTO_TEST_CASE(bad_arguments_are_refused) {
  constexpr int kMost = std::numeric_limits<int>::max();
  const std::vector<int> rows{0, 3}, positions{0, 1, 2};
  const auto x = [](int r, int c) { return seppo::ones({r, c}); };
  const auto attend = [&](int k, int v, const seppo::AttentionOptions& options) {
    return seppo::attention(x(3, 8), x(3, k), x(3, v), 4, rows, rows, options);
  };
  const std::vector<real> slopes{1, 1};
  BOOST_CHECK_NO_THROW(attend(4, 6, {}));
  BOOST_CHECK_THROW(attend(3, 8, {}), seppo::ShapeError);  // no heads of width 2
  BOOST_CHECK_THROW(attend(6, 6, {}), seppo::ShapeError);  // 4 is not divisible by 3 heads
  BOOST_CHECK_THROW(attend(4, 5, {}), seppo::ShapeError);
  BOOST_CHECK_THROW(attend(16, 16, {}), seppo::ShapeError);
  BOOST_CHECK_THROW(attend(1, 1, {}), seppo::ShapeError);
  for (const Shape& bias : std::vector<Shape>{{3}, {2, 3}, {3, 2}, {2, 3, 3}, {2, 4, 3, 3}})
    BOOST_CHECK_THROW(attend(8, 8, {.bias = seppo::ones(bias)}), seppo::ShapeError);
  const std::vector<int> length{2};
  const seppo::Mask two = seppo::Mask::valid_lengths(length);
  BOOST_CHECK_NO_THROW(attend(8, 8, {.mask = two, .bias = seppo::ones({3, 2})}));
  BOOST_CHECK_THROW(attend(8, 8, {.mask = two, .bias = seppo::ones({3, 1})}), seppo::ShapeError);
  BOOST_CHECK_THROW(attend(8, 8, {.slopes = slopes}), seppo::ShapeError);
  BOOST_CHECK_THROW(attend(8, 8, {.positions = rows}), seppo::ShapeError);
  const auto turn = [&](const seppo::Columns& c, int heads, const Tensor& table, std::span<const int> at) {
    return seppo::rotary(c, heads, table, at);
  };
  BOOST_CHECK_NO_THROW(turn(x(3, 8), 2, x(3, 4), positions));
  BOOST_CHECK_THROW(turn({x(3, 8), 4, 8}, 2, x(3, 4), positions), seppo::ShapeError);
  BOOST_CHECK_THROW(turn({x(3, 8), kMost, 4}, 2, x(3, 2), positions), seppo::ShapeError);
  for (const auto& [heads, width] : {std::pair{2, 3}, {kMost, 0}})
    BOOST_CHECK_THROW(turn(x(3, 6), heads, x(3, width), positions), seppo::ArgumentError);
  BOOST_CHECK_THROW(turn(x(3, 8), 0, x(3, 4), positions), seppo::ArgumentError);
  BOOST_CHECK_THROW(turn(x(3, 8), 2, x(3, 6), positions), seppo::ShapeError);
  BOOST_CHECK_THROW(turn(x(3, 8), 2, x(3, 3), positions), seppo::ShapeError);
  BOOST_CHECK_THROW(turn(x(3, 8), 2, x(3, 4), rows), seppo::ShapeError);
  BOOST_CHECK_THROW(turn(x(3, 8), 2, x(2, 4), positions), seppo::IndexError);
}
