// Misuse of the ops: each throws a typed error whose one-line message names the op, the shapes and the rule.
// needs: precision: double; full: single
#include "support/errors.h"

#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>

#include <cmath>
#include <limits>

using namespace seppo;
using test::check_error;

BOOST_AUTO_TEST_CASE(matmul_shapes) {
  check_error<ShapeError>(
      [] {
        matmul(ones({2, 3}), ones({4, 5}));
      },
      {"matmul: inner sizes differ", "lhs [2,3] dim 1 = 3", "rhs [4,5] dim 0 = 4"});
  check_error<ShapeError>([] { matmul(ones({4}), ones({3, 5})); }, {"matmul: inner sizes differ", "= 4", "= 3"});
  check_error<ShapeError>([] { matmul(ones({3, 3}), ones({})); }, {"matmul", "[]"});
  check_error<ShapeError>(
      [] {
        matmul(ones({2, 3, 4}), ones({3, 4, 5}));
      },
      {"matmul: batch sizes differ", "dim 0 = 2", "dim 0 = 3"});
  check_error<ShapeError>(
      [] {
        matmul(ones({2, 2, 3, 4}), ones({2, 3, 4, 5}));
      },
      {"matmul: batch", "dim 1 = 2", "dim 1 = 3"});
}

BOOST_AUTO_TEST_CASE(broadcast_shapes) {
  for (const auto& [name, op] : {std::pair{"add", &add}, {"sub", &sub}, {"mul", &mul}, {"div", &div}}) {
    check_error<ShapeError>(
        [op = op] {
          op(ones({2, 3}), ones({2, 4}));
        },
        {std::string(name) + ": sizes differ", "lhs [2,3] dim 1 = 3", "rhs [2,4] dim 1 = 4"});
    check_error<ShapeError>([op = op] { op(ones({5, 2, 3}), ones({4, 1, 3})); }, {name, "dim 0 = 5", "dim 0 = 4"});
    check_error<ShapeError>([op = op] { op(ones({5, 2, 3}), ones({4, 3})); }, {name, "dim 1 = 2", "dim 0 = 4"});
  }
}

BOOST_AUTO_TEST_CASE(linear_shapes_name_the_parameter) {
  Parameters parameters(0);
  const Linear up(parameters.root() / "encoder" / 0 / "up", 4, 5);
  check_error<ShapeError>(
      [&] {
        up(ones({2, 3}));
      },
      {"linear: inner sizes differ", "x [2,3] dim 1 = 3", "[5,4] (encoder.0.up.weight) dim 1 = 4"});
  check_error<ShapeError>([&] { linear(ones({2, 4}), up.weight, ones({4})); }, {"linear: bias [4]", "dim 0 = 5"});
  check_error<ShapeError>([&] { linear(ones({}), up.weight); }, {"linear", "[]"});
  check_error<ShapeError>([&] { linear(ones({2, 4}), ones({})); }, {"linear", "weight []"});
}

BOOST_AUTO_TEST_CASE(shapes_and_axes) {
  check_error<ShapeError>([] { reshape(ones({2, 3}), {4, 2}); }, {"reshape", "[2,3]", "6 elements", "[4,2]", "8"});
  check_error<ShapeError>([] { reshape(ones({2, 3}), {-1, 4}); }, {"reshape", "[2,3]", "divide"});
  check_error<ShapeError>([] { reshape(ones({2, 3}), {-1, -1}); }, {"negative size"});
  check_error<ShapeError>([] { reshape(ones({0, 3}), {-1, 0}); }, {"reshape", "[0,3]"});
  check_error<ShapeError>([] { reshape(ones({4}), {-2, -2}); }, {"negative"});
  check_error<ShapeError>([] { reshape(ones({4}), {1, 1, 1, 1, 1, 1, 4}); }, {"at most 6"});
  check_error<IndexError>([] { transpose(ones({2, 3}), 0, 2); }, {"axis 2", "[2,3]"});
  check_error<IndexError>([] { transpose(ones({2})); }, {"axis -2", "[2]"});
  check_error<ShapeError>([] { permute(ones({2, 3}), {0, 0}); }, {"permute", "axis 0", "twice"});
  check_error<ShapeError>([] { permute(ones({2, 3}), {0}); }, {"permute", "1 axes", "[2,3]"});
  check_error<IndexError>([] { permute(ones({2, 3}), {0, 2}); }, {"axis 2"});
  check_error<IndexError>([] { sum(ones({2, 3}), 2); }, {"axis 2", "[2,3]"});
  check_error<IndexError>([] { softmax(ones({2, 3}), -3); }, {"axis -3", "[2,3]"});
  check_error<ShapeError>([] { mean(ones({0})); }, {"mean", "no elements", "[0]"});
  check_error<ShapeError>([] { mean(ones({2, 0}), 1); }, {"mean", "no elements", "[2,0]"});
  check_error<IndexError>([] { softmax(ones({}), 1); }, {"axis 1", "[]"});
  check_error<IndexError>([] { slice(ones({}), 0, 0, 1); }, {"axis 0", "[]"});
  check_error<ShapeError>([] { tril(ones({3})); }, {"tril", "two axes", "[3]"});
  const std::vector<int> one{1}, long_second{4, 5};
  const std::vector<std::uint8_t> pairs(23, 1);
  check_error<ShapeError>(
      [&] {
        softmax(ones({2, 3, 4}), Mask::valid_lengths(one));
      },
      {"softmax", "1 valid lengths for 2"});
  check_error<IndexError>(
      [&] {
        softmax(ones({2, 3, 4}), Mask::valid_lengths(long_second));
      },
      {"softmax", "valid length 5", "sequence 1", "0..4"});
  check_error<ShapeError>([&] { softmax(ones({2, 3, 4}), Mask::allowed(pairs)); }, {"softmax", "23 pairs", "24"});
  const auto of_queries = [](List<int> lengths) { softmax(ones({2, 2, 4}), Mask::valid_query_lengths(lengths)); };
  check_error<ShapeError>([&] { of_queries({1, 2, 3}); }, {"softmax", "3 valid lengths for 4 queries"});
  check_error<ShapeError>([&] { of_queries({1, 2, 3, 4, 4}); }, {"softmax", "5 valid lengths for 4 queries"});
  check_error<IndexError>([&] { of_queries({1, 2, 3, 5}); }, {"softmax", "valid length 5", "query 3", "0..4"});
  check_error<IndexError>([&] { of_queries({1, -1, 3, 4}); }, {"softmax", "valid length -1", "query 1", "0..4"});
  check_error<ShapeError>([] { index_select(ones({}), 0, {0, 0}); }, {"index_select: of the scalar x [] there is one"});
  check_error<IndexError>([] { index_select(ones({}), 0, {1}); }, {"index_select: index 1 at position 0", "-1..0"});
  check_error<ShapeError>([] { ones({2, 3}).at(1); }, {"at: 1 indices given for [2,3]"});
  check_error<ShapeError>([] { ones({}).at(0); }, {"at: 1 indices given for []"});
  check_error<ShapeError>([] { ones({2, 3}).at(0, 0, 0); }, {"at: 3 indices given for [2,3]"});
  for (const std::int64_t out : {-4LL, 3LL, 1LL << 32, -(1LL << 32)}) {
    check_error<IndexError>([=] { ones({2, 3}).at(1, out); }, {"at: index ", "is not in 0..2, dim 1 of [2,3]"});
    check_error<IndexError>([=] { ones({3, 2}).at(out, 1); }, {"at: index ", "is not in 0..2, dim 0 of [3,2]"});
  }
  for (const Shape& shape : {Shape{2}, Shape{0}, Shape{1, 3}})
    check_error<ShapeError>([&] { ones(shape).item(); }, {"item", shape.str()});
  using Make = Tensor(const Shape&, List<real>);
  for (Make* make : std::initializer_list<Make*>{tensor, variable}) {
    check_error<ShapeError>([=] { make({2, 2}, {1, 2, 3}); }, {"tensor", "[2,2]", "4", "3"});
    check_error<ShapeError>([=] { make({2, 2}, {1, 2, 3, 4, 5}); }, {"tensor", "[2,2]", "4", "5"});
  }
}

BOOST_AUTO_TEST_CASE(sizes) {
  check_error<ShapeError>([] { zeros({2, -1}); }, {"axis 1", "-1"});
  check_error<ShapeError>([] { Shape({1 << 20, 1 << 20, 1 << 20}); }, {"2^48"});
  check_error<ShapeError>(
      [] {
        const std::vector<int> seven(7, 1);
        Shape{std::span<const int>(seven)};
      },
      {"7 axes"});
  const std::vector<double> three(3);
  BOOST_CHECK((Shape{three.size(), 2, three.size() * std::int64_t{2}} == Shape{3, 2, 6}));
  check_error<ShapeError>([] { Shape({1, std::size_t{1} << 31}); }, {"2147483648", "0..2^31 - 1"});
  check_error<ShapeError>([] { Shape({std::int64_t{-1} << 31, 1}); }, {"-2147483648"});
  check_error<ShapeError>([] { Shape({~std::uint64_t{0}}); }, {"-1", "0..2^31 - 1"});
  const int root = 1 << 24;
  BOOST_CHECK_EQUAL((Shape{root, root}.numel()), std::int64_t{1} << 48);
  check_error<ShapeError>([=] { Shape({root, root + 1}); }, {"2^48"});
  check_error<ShapeError>([=] { Shape({root, root, 1}).with(2, 2); }, {"2^48"});
  check_error<ShapeError>([] { Shape({2, 3}).with(0, -1); }, {"axis 0", "-1"});
  check_error<ShapeError>([] { Shape({1, 1, 1, 1, 1, 1}).append(1); }, {"7 axes"});
}

BOOST_AUTO_TEST_CASE(slices_and_concatenation) {
  check_error<IndexError>([] { slice(ones({2, 3}), 1, 1, 4); }, {"slice: 1..4", "0..3", "dim 1", "[2,3]"});
  check_error<IndexError>([] { slice(ones({2, 3}), 0, -3, 1); }, {"slice", "-3..1"});
  check_error<IndexError>([] { slice(ones({2, 3}), 0, 2, 1); }, {"slice", "2..1"});
  check_error<IndexError>([] { slice(ones({2, 3}), 0, 1, std::numeric_limits<int>::max()); }, {"slice"});
  check_error<ArgumentError>([] { concat(std::span<const Tensor>{}); }, {"concat", "no tensors"});
  check_error<ShapeError>([] { concat({ones({2, 3}), ones({2})}); }, {"concat", "ranks differ"});
  check_error<ShapeError>([] { concat({ones({2, 3}), ones({2, 4})}); }, {"concat", "dim 1 = 3", "dim 1 = 4"});
  check_error<IndexError>([] { concat({ones({2, 3})}, 2); }, {"axis 2"});
}

BOOST_AUTO_TEST_CASE(indices) {
  for (const int id : {-1, 5, std::numeric_limits<int>::max()})
    check_error<IndexError>(
        [=] {
          embedding(ones({5, 2}), std::vector<int>{0, id});
        },
        {"embedding: id " + std::to_string(id), "position 1", "0..4", "[5,2]"});
  for (const int id : {-1, 3})
    check_error<IndexError>(
        [=] {
          embedding(ones({5, 2}), {0}, {.positions = ones({3, 2}), .position_ids = {id}});
        },
        {"embedding: id " + std::to_string(id), "0..2", "[3,2]"});
  check_error<ShapeError>([] { embedding(ones({5}), std::vector<int>{0}); }, {"embedding", "[5]"});
  check_error<ShapeError>(
      [] {
        embedding(ones({5, 2}), std::vector<int>{0}, {.positions = ones({3, 3}), .position_ids = {}});
      },
      {"embedding", "[3,3]", "[5,2]"});
  check_error<IndexError>(
      [] {
        cross_entropy(ones({2, 3}), std::vector<int>{0, 3});
      },
      {"cross_entropy: target 3", "row 1", "0..2", "[2,3]"});
  check_error<IndexError>([] { cross_entropy(ones({2, 3}), std::vector<int>{-1, 0}); }, {"target -1"});
  check_error<ShapeError>(
      [] {
        cross_entropy(ones({2, 3}), std::vector<int>{0});
      },
      {"cross_entropy: 1 targets", "2 rows", "[2,3]"});
  check_error<ShapeError>([] { cross_entropy(ones({2, 0}), std::vector<int>{0, 0}); }, {"cross_entropy", "[2,0]"});
}

BOOST_AUTO_TEST_CASE(scalars) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double p : {-0.1, -1e-300, std::nextafter(1.0, 2.0), 1.5, nan})
    for (const Mode mode : {Mode::train, Mode::eval}) {
      const UseMode scope(mode);
      check_error<ArgumentError>([=] { dropout(ones({2}), p); }, {"dropout: p = ", "[0, 1]"});
    }
  for (const double step : {0.0, nan}) check_error<ArgumentError>([=] { arange(0, 1, step); }, {"arange: from 0 to 1"});
  for (const double s : {-0.1, 1.5, nan})
    check_error<ArgumentError>(
        [=] {
          cross_entropy(ones({1, 3}), std::vector<int>{0}, {.label_smoothing = s});
        },
        {"label_smoothing"});
  check_error<ArgumentError>([] { gated(ones({2}), ones({2}), Activation::silu); }, {"gated: the activation is not"});
  check_error<ArgumentError>([] { layer_norm(ones({2, 3}), ones({3}), ones({3}), -1); }, {"layer_norm: eps -1"});
  check_error<ShapeError>(
      [] {
        layer_norm(ones({2, 3}), ones({2}), ones({3}));
      },
      {"layer_norm", "x [2,3] dim 1 = 3", "[2]"});
  check_error<ShapeError>([] { layer_norm(ones({2, 0}), ones({0}), ones({0})); }, {"layer_norm", "[2,0]"});
}

BOOST_AUTO_TEST_CASE(attention_arguments) {
  const std::vector<int> good{0, 2, 4}, falls{0, 3, 2, 4}, short_{0, 2, 3}, one{0, 4};
  const auto run = [](const Tensor& q, const Tensor& k, const Tensor& v, int heads, const std::vector<int>& qo,
                      const std::vector<int>& ko,
                      const Mask& mask = Mask::none()) { attention(q, k, v, heads, qo, ko, {mask}); };
  check_error<ArgumentError>(
      [&] {
        run(ones({4, 6}), ones({4, 6}), ones({4, 6}), 4, good, good);
      },
      {"attention: width 6", "4 heads"});
  check_error<ArgumentError>([&] { run(ones({4, 6}), ones({4, 6}), ones({4, 6}), 0, good, good); }, {"0 heads"});
  check_error<ShapeError>(
      [&] {
        run(ones({4, 6}), ones({4, 4}), ones({4, 6}), 2, good, good);
      },
      {"K of width 4", "Q's width 3", "its 2"});
  check_error<ShapeError>(
      [&] {
        run(ones({4, 6}), ones({4, 6}), ones({3, 6}), 2, good, good);
      },
      {"K [4,6] and V [3,6]"});
  check_error<ShapeError>(
      [&] {
        run(ones({4, 6}), ones({4, 6}), ones({4, 6}), 2, falls, good);
      },
      {"query offsets", "4 rows"});
  check_error<ShapeError>(
      [&] {
        run(ones({4, 6}), ones({4, 6}), ones({4, 6}), 2, good, short_);
      },
      {"key offsets", "4 rows"});
  check_error<ShapeError>([&] { run(ones({4, 6}), ones({4, 6}), ones({4, 6}), 2, {}, good); }, {"query offsets"});
  check_error<ShapeError>(
      [&] {
        run(ones({4, 6}), ones({4, 6}), ones({4, 6}), 2, one, good);
      },
      {"1 query sequences, 2 key"});
  const std::vector<int> lengths{1}, negative{1, -1}, large{1, 3};
  const std::vector<std::uint8_t> pairs(7, 1);
  check_error<ShapeError>(
      [&] {
        run(ones({4, 6}), ones({4, 6}), ones({4, 6}), 2, good, good, Mask::valid_lengths(lengths));
      },
      {"1 valid lengths for 2"});
  for (const auto* bad : {&negative, &large})
    check_error<IndexError>(
        [&] {
          run(ones({4, 6}), ones({4, 6}), ones({4, 6}), 2, good, good, Mask::valid_lengths(*bad));
        },
        {"valid length", "sequence 1", "0..2"});
  check_error<ShapeError>(
      [&] {
        run(ones({4, 6}), ones({4, 6}), ones({4, 6}), 2, good, good, Mask::allowed(pairs));
      },
      {"7 pairs", "8"});
  const auto of_queries = [&](List<int> some) {
    run(ones({4, 6}), ones({4, 6}), ones({4, 6}), 2, good, good, Mask::valid_query_lengths(some));
  };
  check_error<ShapeError>([&] { of_queries({1, 2}); }, {"attention", "2 valid lengths for 4 queries"});
  check_error<IndexError>([&] { of_queries({1, 2, 1, 3}); }, {"attention", "valid length 3", "query 3", "0..2"});
  check_error<ShapeError>([] { attention(ones({2, 3, 4}), ones({3, 4}), ones({3, 4}), 2); }, {"attention", "[3,4]"});
  check_error<ShapeError>(
      [&] {
        attention({ones({4, 6}), 4, 4}, {ones({4, 6}), 0, 4}, {ones({4, 6}), 0, 4}, 2, good, good);
      },
      {"columns 4..8", "[4,6]"});
}

BOOST_AUTO_TEST_CASE(parameters_and_names) {
  Parameters parameters(0);
  parameters.root().parameter("w", {2}, init_zeros());
  check_error<ArgumentError>([&] { parameters.root().parameter("w", {2}, init_zeros()); }, {"w", "taken"});
}

// Messages of further ops name the op, the roles, the shapes, the axis with both sizes, and the rule.
BOOST_AUTO_TEST_CASE(catalogue) {
  const std::vector<int> two{0, 2}, three{0, 1, 2};
  check_error<ShapeError>(
      [] {
        where(ones({2, 3}), ones({4}), ones({}));
      },
      {"where: sizes differ and neither is 1", "condition [2,3] dim 1 = 3", "lhs [4] dim 0 = 4"});
  check_error<ShapeError>(
      [] {
        masked_fill(ones({3}), ones({2, 3}), 0);
      },
      {"masked_fill: mask [2,3]", "larger", "x [3]"});
  check_error<ShapeError>([] { maximum(ones({2, 3}), ones({2, 4})); }, {"maximum", "dim 1 = 3", "dim 1 = 4"});
  check_error<ShapeError>(
      [] {
        expand(ones({2, 3}), {4, 3});
      },
      {"expand: x [2,3] dim 0 = 2", "neither 1 nor", "[4,3] dim 0 = 4"});
  check_error<ShapeError>([] { expand(ones({2, 3}), {2, 4}); }, {"expand", "dim 1 = 3", "[2,4] dim 1 = 4"});
  check_error<ShapeError>([] { expand(ones({2, 3}), {3}); }, {"expand", "[2,3]", "more axes", "[3]"});
  check_error<ArgumentError>([] { clamp(ones({2}), std::numeric_limits<double>::quiet_NaN(), 1); }, {"clamp", "NaN"});
  check_error<IndexError>([] { sum(ones({2, 3}), {0, -2}); }, {"sum: axis -2 of [2,3]", "twice"});
  check_error<IndexError>([] { amax(ones({2, 3}), {0, 2}); }, {"axis 2", "[2,3]", "rank 2"});
  check_error<ShapeError>([] { amax(ones({2, 0}), 1); }, {"amax: of no elements", "[2,0]"});
  check_error<ShapeError>([] { amin(ones({0})); }, {"amin: of no elements", "[0]"});
  for (const int correction : {-1, 0, 1})
    check_error<ShapeError>([=] { var(ones({0, 2}), 0, correction); }, {"of ", "elements", "[0,2]"});
  check_error<ShapeError>([] { seppo::max(ones({2, 0}), 1); }, {"max: of no elements", "[2,0] dim 1 = 0"});
  check_error<ShapeError>([] { var(ones({2, 1}), 1); }, {"var: of 1 elements", "[2,1]", "correction 1"});
  check_error<ShapeError>([] { stddev(ones({2, 3}), 1, 3.5); }, {"stddev: of 3 elements", "[2,3]", "correction 3.5"});
  check_error<IndexError>([] { norm(ones({2, 3}), {0, 2}); }, {"norm", "axis 2", "[2,3]", "rank 2"});
  check_error<IndexError>(
      [] {
        index_select(ones({2, 3}), 0, {-3});
      },
      {"index_select: index -3 at position 0", "-2..1"});
  check_error<IndexError>([] { gather(ones({2, 3}), 2, {{0}, {}}); }, {"gather: axis 2", "[2,3]"});
  check_error<IndexError>([] { cumsum(ones({2}), 1); }, {"axis 1", "[2]"});
  check_error<ShapeError>([&] { gather(ones({2, 3}), 0, {{2}, two}); }, {"gather: indices [2]", "x [2,3]", "rank"});
  check_error<ShapeError>(
      [&] {
        gather(ones({2, 1}), 0, {{1, 2}, two});
      },
      {"gather: indices [1,2] dim 1 = 2", "x [2,1] dim 1 = 1"});
  check_error<ShapeError>(
      [&] {
        gather(ones({2, 3}), 0, {{1, 3}, two});
      },
      {"gather: indices [1,3]", "3 elements", "2 values"});
  check_error<IndexError>(
      [&] {
        gather(ones({2, 3}), 0, {{1, 3}, three});
      },
      {"gather: index 2 at position 2", "-2..1", "dim 0 of x [2,3]"});
  check_error<ShapeError>(
      [&] {
        scatter_add(ones({3, 1}), 0, {{3, 1}, three}, ones({2, 1}));
      },
      {"scatter_add: indices [3,1] dim 0 = 3", "source [2,1] dim 0 = 2"});
  check_error<IndexError>(
      [&] {
        index_select(ones({2, 3}), 0, three);
      },
      {"index_select: index 2 at position 2", "-2..1", "x [2,3]"});
  check_error<ShapeError>([&] { split(ones({4, 2}), {1, 2}); }, {"split", "add up to 3", "dim 0 = 4", "[4,2]"});
  check_error<ShapeError>([&] { split(ones({4, 2}), {5, -1}); }, {"split: negative size -1", "[4,2]"});
  check_error<ArgumentError>([&] { split(ones({4, 2}), 0); }, {"split: size 0"});
  check_error<ArgumentError>([&] { chunk(ones({4, 2}), 0); }, {"chunk: 0 chunks"});
  check_error<ShapeError>([&] { stack({ones({2}), ones({3})}); }, {"stack: shapes differ: [2] and [3]"});
  check_error<ShapeError>([&] { squeeze(ones({2, 3}), 1); }, {"squeeze: x [2,3] dim 1 = 3 is not 1"});
  check_error<IndexError>([&] { unsqueeze(ones({2, 3}), 4); }, {"unsqueeze: axis 4", "[2,3]", "rank 2"});
  check_error<ShapeError>([&] { unsqueeze(ones({1, 1, 1, 1, 1, 1}), 0); }, {"unsqueeze", "[1,1,1,1,1,1]", "6 axes"});
  check_error<ShapeError>([&] { tril(ones({2})); }, {"tril: needs at least two axes, got [2]"});
  check_error<ArgumentError>(
      [&] {
        einsum("ijjk", ones({2, 3}), ones({3, 2}));
      },
      {"einsum", "ij,jk->ik", "got \"ijjk\""});
  check_error<ArgumentError>([&] { einsum("ii,ij->j", ones({2, 2}), ones({2, 2})); }, {"einsum: label i is repeated"});
  check_error<ArgumentError>(
      [&] {
        einsum("ij,jk->iz", ones({2, 3}), ones({3, 2}));
      },
      {"einsum: label z", "no operand"});
  check_error<ArgumentError>([&] { einsum("i1,1k->ik", ones({2, 3}), ones({3, 2})); }, {"einsum: labels are letters"});
  check_error<ArgumentError>([&] { einsum("1j,jk->k", ones({2, 3}), ones({3, 2})); }, {"einsum: labels are letters"});
  check_error<ShapeError>(
      [&] {
        einsum("ijk,jk->i", ones({2, 3}), ones({3, 2}));
      },
      {"einsum: lhs [2,3]", "the 3 axes \"ijk\""});
  check_error<ShapeError>(
      [&] {
        einsum("ij,jk->ik", ones({2, 3}), ones({4, 2}));
      },
      {"einsum: sizes of label j differ: lhs [2,3] dim 1 = 3, rhs [4,2] dim 0 = 4"});
  check_error<ShapeError>(
      [&] {
        einsum("abcd,efg->abcdefg", ones({1, 1, 1, 1}), ones({1, 1, 1}));
      },
      {"einsum", "more than 6 axes"});
  check_error<ShapeError>([&] { rms_norm(ones({2, 3}), ones({2})); }, {"rms_norm", "x [2,3] dim 1 = 3", "got [2]"});
  check_error<ArgumentError>([&] { rms_norm(ones({2, 3}), ones({3}), -1); }, {"rms_norm: eps -1"});
  const auto normalise = [](int rows, const BatchNormOptions& options, int n = 3) {
    batch_norm(ones({rows, 3}), ones({3}), ones({3}), zeros({n}), ones({3}), options);
  };
  check_error<ShapeError>([&] { normalise(2, {}, 2); }, {"batch_norm", "x [2,3] dim 1 = 3", "got [2]"});
  check_error<ShapeError>([&] { normalise(1, {}); }, {"batch_norm: training needs more than one row", "[1,3]"});
  check_error<ArgumentError>([&] { normalise(2, {.momentum = 2}); }, {"batch_norm: momentum 2", "[0, 1]"});
  check_error<ArgumentError>([&] { normalise(2, {.eps = -1}); }, {"batch_norm: eps -1"});
  check_error<ShapeError>([&] { nll_loss(ones({2, 3}), three); }, {"nll_loss: 3 targets for the 2 rows", "[2,3]"});
  check_error<IndexError>([&] { nll_loss(ones({2, 2}), two); }, {"nll_loss: target 2 of row 1", "0..1", "[2,2]"});
  check_error<ShapeError>([&] { mse_loss(ones({2}), ones({3})); }, {"mse_loss: x [2] and target [3]"});
  check_error<ShapeError>([&] { binary_cross_entropy_with_logits(ones({2}), ones({3})); },
                          {"binary_cross_entropy_with_logits: logits [2] and target [3]"});
  check_error<ArgumentError>([&] { cosine_similarity(ones({2}), ones({2}), 0, 0); }, {"cosine_similarity: eps 0"});
  check_error<StateError>([] { seppo::exp(Tensor()); }, {"empty handle"});
}
