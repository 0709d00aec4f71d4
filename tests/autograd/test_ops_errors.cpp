// Misuse of selections, parts, windows, columns, weighted losses and equations; test_errors.cpp covers the other ops.
// needs: precision: double; full: single; simd: avx2 plain
#include "support/errors.h"

#include <seppo/autograd/ops.h>

#include <climits>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace seppo;
using test::check_error;
using test::contains;
using test::message;

BOOST_AUTO_TEST_CASE(selections_and_windows) {
  check_error<IndexError>(
      [] {
        index_add(ones({2, 3}), 1, {0, 3}, ones({2, 2}));
      },
      {"index_add: index 3 at position 1", "-3..2", "dim 1 of x [2,3]"});
  check_error<ShapeError>(
      [] {
        index_add(ones({2, 3}), 1, {0, 1}, ones({2, 3}));
      },
      {"index_add: source [2,3] is not [2,2]", "x [2,3]", "2 slices along dim 1"});
  check_error<IndexError>([] { index_add(ones({2}), 1, {0}, ones({1})); }, {"index_add: axis 1", "[2]"});
  check_error<IndexError>([] { index_amax(ones({2}), 0, {-3}, ones({1})); },
                          {"index_amax: index -3", "-2..1", "x [2]"});
  check_error<ShapeError>([] { index_amax(ones({2}), 0, {1}, ones({2})); }, {"index_amax: source [2] is not [1]"});
  check_error<ShapeError>(
      [] {
        index_softmax(ones({2, 3}), 1, {0, 3});
      },
      {"index_softmax: 2 indices for the 3 slices", "dim 1 of x [2,3]"});
  for (const int k : {0, 4, -1})
    check_error<ArgumentError>([=] { topk(ones({2, 3}), k); }, {"topk: k = ", "1..3", "dim 1 of x [2,3]"});
  check_error<IndexError>([] { topk(ones({2, 3}), 1, 2); }, {"topk: axis 2", "[2,3]"});
  check_error<ArgumentError>([] { unfold(ones({2, 3}), 1, 4, 1); }, {"unfold: size 4", "0..3", "dim 1 of x [2,3]"});
  check_error<ArgumentError>([] { unfold(ones({2, 3}), 1, 2, 0); }, {"unfold: stride 0"});
  check_error<IndexError>([] { unfold(ones({2, 3}), 2, 1, 1); }, {"unfold: axis 2", "[2,3]"});
  check_error<ShapeError>([] { unfold(ones({1, 1, 1, 1, 1, 1}), 0, 1, 1); }, {"7 axes", "at most 6"});
  check_error<IndexError>([] { slice(ones({2, 3}), 1, -4, 3); }, {"slice: -4..3", "0..3", "dim 1", "[2,3]"});
  check_error<IndexError>([] { slice(ones({2, 3}), 1, 2, -2); }, {"slice: 2..-2", "0..3"});
  check_error<IndexError>([] { cumsum(ones({2, 3}), 2); }, {"cumsum: axis 2", "[2,3]"});
  check_error<IndexError>([] { amax(ones({2, 3}), {0, -3}); }, {"amax: axis -3", "[2,3]", "rank 2"});
}

BOOST_AUTO_TEST_CASE(an_axis_out_of_range_is_refused_in_the_name_of_the_op) {
  const std::vector<int> two{0, 1};
  const std::vector<std::pair<std::string, std::function<void(const Tensor&, int)>>> ops = {
      {"softmax", [](const Tensor& x, int axis) { softmax(x, axis); }},
      {"log_softmax", [](const Tensor& x, int axis) { log_softmax(x, axis); }},
      {"sum", [](const Tensor& x, int axis) { sum(x, axis); }},
      {"mean", [](const Tensor& x, int axis) { mean(x, axis); }},
      {"prod", [](const Tensor& x, int axis) { prod(x, axis); }},
      {"var", [](const Tensor& x, int axis) { var(x, axis); }},
      {"amax", [](const Tensor& x, int axis) { amax(x, axis); }},
      {"amin", [](const Tensor& x, int axis) { amin(x, axis); }},
      {"logsumexp", [](const Tensor& x, int axis) { logsumexp(x, axis); }},
      {"max", [](const Tensor& x, int axis) { seppo::max(x, axis); }},
      {"min", [](const Tensor& x, int axis) { seppo::min(x, axis); }},
      {"argmax", [](const Tensor& x, int axis) { argmax(x, axis); }},
      {"argmin", [](const Tensor& x, int axis) { argmin(x, axis); }},
      {"topk", [](const Tensor& x, int axis) { topk(x, 1, axis); }},
      {"cumsum", [](const Tensor& x, int axis) { cumsum(x, axis); }},
      {"gather",
       [&](const Tensor& x, int axis) {
         gather(x, axis, {{1, 2}, two});
       }},
      {"scatter_add",
       [&](const Tensor& x, int axis) {
         scatter_add(x, axis, {{1, 2}, two}, x);
       }},
      {"index_select", [&](const Tensor& x, int axis) { index_select(x, axis, two); }},
      {"index_add", [&](const Tensor& x, int axis) { index_add(x, axis, two, x); }},
      {"index_amax", [&](const Tensor& x, int axis) { index_amax(x, axis, two, x); }},
      {"index_softmax", [&](const Tensor& x, int axis) { index_softmax(x, axis, two); }},
      {"transpose", [](const Tensor& x, int axis) { transpose(x, axis, 0); }},
      {"transpose", [](const Tensor& x, int axis) { transpose(x, 0, axis); }},
      {"permute",
       [](const Tensor& x, int axis) {
         permute(x, {0, axis});
       }},
      {"squeeze", [](const Tensor& x, int axis) { squeeze(x, axis); }},
      {"flip", [](const Tensor& x, int axis) { flip(x, axis); }},
      {"slice", [](const Tensor& x, int axis) { slice(x, axis, 0, 1); }},
      {"concat",
       [](const Tensor& x, int axis) {
         concat({x, x}, axis);
       }},
      {"unfold", [](const Tensor& x, int axis) { unfold(x, axis, 1, 1); }},
      {"split", [](const Tensor& x, int axis) { split(x, 1, axis); }},
      {"split", [](const Tensor& x, int axis) { split(x, {1, 1}, axis); }},
      {"chunk", [](const Tensor& x, int axis) { chunk(x, 1, axis); }}};
  for (const auto& [name, op] : ops)
    for (const int axis : {-3, 2}) try {
        op(ones({2, 3}), axis);
        BOOST_ERROR(name);
      } catch (const IndexError& e) {
        const std::string expected = name + ": axis " + std::to_string(axis) + " is out of range for [2,3] of rank 2";
        BOOST_CHECK_EQUAL(e.what(), expected);
      }
}

BOOST_AUTO_TEST_CASE(weights_and_probabilities) {
  const auto weight = [] { return ones({2}); };
  check_error<ShapeError>(
      [=] {
        cross_entropy(ones({2, 3}), {0, 1}, {.weight = weight()});
      },
      {"cross_entropy: weight must be [3]", "logits [2,3]"});
  check_error<ShapeError>(
      [=] {
        cross_entropy(ones({2, 3}), ones({2, 3}), {.weight = weight()});
      },
      {"cross_entropy: weight must be [3]", "logits [2,3]"});
  check_error<ShapeError>(
      [=] {
        nll_loss(ones({2, 3}), {0, 1}, {.weight = weight()});
      },
      {"nll_loss: weight must be [3]", "log_probabilities [2,3]"});
  check_error<ShapeError>(
      [] {
        cross_entropy(ones({2, 3}), ones({3, 2}));
      },
      {"cross_entropy: logits [2,3] and probabilities [3,2]"});
  check_error<ShapeError>([] { cross_entropy(ones({}), ones({})); }, {"cross_entropy: needs logits [..., classes]"});
  check_error<ArgumentError>(
      [] {
        cross_entropy(ones({2, 3}), ones({2, 3}), {.label_smoothing = 2});
      },
      {"cross_entropy: label_smoothing 2"});
  check_error<ShapeError>([] { huber_loss(ones({2}), ones({3})); }, {"huber_loss: x [2] and target [3]"});
  for (const double delta : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    check_error<ArgumentError>([=] { huber_loss(ones({2}), ones({2}), delta); }, {"huber_loss: delta"});
  check_error<ShapeError>(
      [] {
        binary_cross_entropy_with_logits(ones({2}), ones({2}), {.pos_weight = ones({3, 2})});
      },
      {"binary_cross_entropy_with_logits", "larger than logits [2]"});
}

BOOST_AUTO_TEST_CASE(equations) {
  const auto one = [](const char* equation) { einsum(equation, ones({2, 3})); };
  const auto two = [](const char* equation) { einsum(equation, ones({2, 3}), ones({3, 2})); };
  check_error<ArgumentError>([=] { one("ij,jk->ik"); }, {"one operand must be like \"ij->ji\"", "got \"ij,jk->ik\""});
  check_error<ArgumentError>([=] { two("ij->ji"); }, {"two operands must be like \"ij,jk->ik\"", "got \"ij->ji\""});
  check_error<ArgumentError>([=] { two("ij->jk,ik"); }, {"two operands must be like"});
  check_error<ArgumentError>([=] { one("ii"); }, {"einsum: label i is repeated within \"ii\""});
  check_error<ArgumentError>([=] { two("ij,kk->i"); }, {"einsum: label k is repeated within \"kk\""});
  check_error<ArgumentError>([=] { two("ij,jk->ii"); }, {"einsum: label i is repeated within \"ii\""});
  check_error<ArgumentError>([=] { one("..j->j"); }, {"einsum: labels are letters"});
  check_error<ArgumentError>([=] { one("...j...->j"); }, {"einsum: labels are letters"});
  check_error<ArgumentError>([=] { one("i9->i"); }, {"einsum: labels are letters"});
  check_error<ShapeError>([=] { one("...ijk->i"); }, {"einsum: lhs [2,3]", "the 3 axes \"...ijk\""});
  check_error<ShapeError>([=] { one("i->i"); }, {"einsum: lhs [2,3]", "the 1 axes \"i\""});
  check_error<ShapeError>([=] { two("...i,...j->ij"); }, {"einsum: sizes of \"...\" differ", "[2,3] dim 0 = 2"});
}

BOOST_AUTO_TEST_CASE(sums_and_norms) {
  for (const Shape& other : {Shape{2, 4}, Shape{3}, Shape{1, 3}, Shape{3, 2}}) {
    check_error<ShapeError>(
        [&] {
          add_norm(ones({2, 3}), ones(other), ones({3}), ones({3}));
        },
        {"add_norm: ", "[2,3]", other.str()});
    check_error<ShapeError>([&] { add_dropout(ones({2, 3}), ones(other), 0.1); }, {"add_dropout: ", other.str()});
  }
  check_error<ArgumentError>(
      [] {
        add_norm(ones({2, 3}), ones({2, 3}), ones({3}), {}, {.dropout_before = 2});
      },
      {"[0, 1]"});
}

BOOST_AUTO_TEST_CASE(vectors_of_weights) {
  check_error<ShapeError>(
      [] {
        linear(ones({2, 3}), ones({3}), ones({1}));
      },
      {"linear: bias [1] must be a scalar for weight [3]"});
  check_error<ShapeError>([] { linear(ones({2, 3}), ones({2})); }, {"linear: inner sizes differ", "x [2,3] dim 1 = 3"});
}

BOOST_AUTO_TEST_CASE(axes_of_classes) {
  check_error<IndexError>([] { cross_entropy(ones({2, 3}), {0, 1}, {.axis = 2}); }, {"cross_entropy: axis 2", "[2,3]"});
  check_error<ShapeError>(
      [] {
        cross_entropy(ones({2, 3, 4}), {0, 1}, {.axis = 1});
      },
      {"cross_entropy: 2 targets for the 8 rows of logits [2,4,3]"});
  check_error<ShapeError>([] { nll_loss(ones({}), {0}, {.axis = 0}); }, {"nll_loss: needs log_probabilities", "[]"});
}

BOOST_AUTO_TEST_CASE(scores) {
  const auto q = [] { return ones({2, 3, 4}); };
  const std::vector<real> one{1};
  const std::vector<int> positions{0, 1};
  check_error<ShapeError>(
      [&] {
        attention_scores(q(), ones({3, 3, 4}), 2);
      },
      {"attention_scores: needs Q and K", "[3,3,4]"});
  check_error<ShapeError>(
      [&] {
        attention_scores(ones({2, 4}), q(), 2);
      },
      {"attention_scores: needs Q and K", "[2,4]"});
  check_error<ArgumentError>([&] { attention_scores(q(), q(), 3); }, {"attention_scores: width 4", "3 heads"});
  check_error<ShapeError>(
      [&] {
        attention_scores(q(), ones({2, 3, 3}), 2);
      },
      {"attention_scores: K of width 3", "width 2"});
  check_error<ArgumentError>([&] { attention_scores(q(), q(), 2, {.mask = Mask::causal()}); },
                             {"attention_scores: masks, windows and dropout", "softmax(scores, mask)"});
  const std::vector<int> lengths{3, 2, 1};
  const std::vector<std::uint8_t> pairs(27, 1);
  for (const Mask& mask : {Mask::valid_lengths(lengths), Mask::valid_query_lengths(lengths), Mask::allowed(pairs)})
    check_error<ArgumentError>([&] { attention_scores(q(), q(), 2, {.mask = mask}); },
                               {"attention_scores: masks, windows and dropout"});
  check_error<ArgumentError>([&] { attention_scores(q(), q(), 2, {.dropout = 0.5}); },
                             {"attention_scores: masks, windows and dropout"});
  check_error<ShapeError>(
      [&] {
        attention_scores(q(), q(), 2, {.bias = ones({3, 2})});
      },
      {"attention_scores: bias [3,2]", "3 queries and 3 keys"});
  check_error<ShapeError>([&] { attention_scores(q(), q(), 2, {.slopes = one}); },
                          {"attention_scores: 1 slopes for 2 heads"});
  check_error<ShapeError>([&] { attention_scores(q(), q(), 2, {.positions = positions}); },
                          {"attention_scores: 2 positions", "[2,3,4]"});
  for (const double cap : {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    check_error<ArgumentError>([&] { attention_scores(q(), q(), 2, {.softcap = cap}); }, {"attention_scores: softcap"});
    check_error<ArgumentError>([&] { attention(q(), q(), q(), 2, {.softcap = cap}); }, {"attention: softcap"});
  }
}

// In the order in which they were given.
BOOST_AUTO_TEST_CASE(parts_that_do_not_fit_are_named) {
  const Tensor a = zeros({2, 3}), b = zeros({3, 3}), flat = zeros({6});
  BOOST_CHECK(contains(message([&] { concat({a, a, b}, 1); }), "axis 1: [2,3] dim 0 = 2, [3,3] dim 0 = 3"));
  BOOST_CHECK(contains(message([&] { concat({a, flat}); }), "ranks differ: [2,3] and [6]"));
  BOOST_CHECK(contains(message([&] { stack({a, a, b}); }), "shapes differ: [2,3] and [3,3]"));
}

BOOST_AUTO_TEST_CASE(columns_are_within_their_matrix) {
  const Tensor x = ones({3, 8});
  const std::vector<int> rows{0, 3};
  const auto attends = [&](const Columns& q) {
    return message([&] { attention(q, Columns(x, 0, 4), Columns(x, 4, 4), 2, rows, rows); });
  };
  BOOST_CHECK_EQUAL(attends(Columns(x, 4, 4)), "no error");
  for (const auto& [first, count, said] : {std::tuple{-1, 4, "-1..3"},
                                           {5, 4, "5..9"},
                                           {0, 0, "0..0"},
                                           {8, 4, "8..12"},
                                           {INT_MAX, 4, "2147483647..2147483651"}})
    BOOST_CHECK(contains(attends(Columns(x, first, count)),
                         std::string("attention: columns ") + said + " are not within a matrix [3,8]"));
  BOOST_CHECK(contains(attends(Columns(ones({3, 8, 1}), 0, 4)), "are not within a matrix [3,8,1]"));
}
