// Misuse of selections, windows, weighted losses and equations; test_errors.cpp has that of the other ops.
#define BOOST_TEST_MODULE ops_errors
#include "support/errors.h"

#include <seppo/autograd/ops.h>

#include <limits>

using namespace seppo;
using test::check_error;

BOOST_AUTO_TEST_CASE(selections_and_windows) {
  check_error<IndexError>(
      [] {
        index_add(ones({2, 3}), 1, {0, 3}, ones({2, 2}));
      },
      {"index_add: index 3 at position 1", "0..2", "dim 1 of x [2,3]"});
  check_error<ShapeError>(
      [] {
        index_add(ones({2, 3}), 1, {0, 1}, ones({2, 3}));
      },
      {"index_add: source [2,3] is not [2,2]", "x [2,3]", "2 slices along dim 1"});
  check_error<IndexError>([] { index_add(ones({2}), 1, {0}, ones({1})); }, {"index_add: axis 1", "[2]"});
  for (const int k : {0, 4, -1})
    check_error<ArgumentError>([=] { topk(ones({2, 3}), k); }, {"topk: k = ", "1..3", "dim 1 of x [2,3]"});
  check_error<IndexError>([] { topk(ones({2, 3}), 1, 2); }, {"topk: axis 2", "[2,3]"});
  check_error<ArgumentError>([] { unfold(ones({2, 3}), 1, 4, 1); }, {"unfold: size 4", "0..3", "dim 1 of x [2,3]"});
  check_error<ArgumentError>([] { unfold(ones({2, 3}), 1, 2, 0); }, {"unfold: step 0"});
  check_error<IndexError>([] { unfold(ones({2, 3}), 2, 1, 1); }, {"unfold: axis 2", "[2,3]"});
  check_error<ShapeError>([] { unfold(ones({1, 1, 1, 1, 1, 1}), 0, 1, 1); }, {"7 axes", "at most 6"});
  check_error<IndexError>([] { slice(ones({2, 3}), 1, -4, 3); }, {"slice: -4..3", "0..3", "dim 1", "[2,3]"});
  check_error<IndexError>([] { slice(ones({2, 3}), 1, 2, -2); }, {"slice: 2..-2", "0..3"});
  check_error<IndexError>([] { cumsum(ones({2, 3}), 2); }, {"cumsum: axis 2", "[2,3]"});
  check_error<IndexError>([] { amax(ones({2, 3}), {0, -3}); }, {"amax: axis -3", "[2,3]", "rank 2"});
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
