// Indices beside their rows in the table: repeated, negative and empty ones, padding, groups, parts.
// needs: precision: double; full: single; simd: avx2 plain
#include "support/op_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace test;

// The largest of each group of rows, of which the third is empty; x counts among equal elements, and NaN wins.
BOOST_AUTO_TEST_CASE(largest_elements_of_groups) {
  seppo::tape().clear();
  const real infinity = std::numeric_limits<real>::infinity();
  const real nan = std::numeric_limits<real>::quiet_NaN();
  const std::vector<int> groups{0, 1, -3, 1};
  const Tensor x = seppo::variable({4, 2}, {1, 7, 4, 5, 3, 7, 4, -2});
  const Tensor y = seppo::index_amax(seppo::full({3, 2}, -infinity), 0, groups, x);
  BOOST_CHECK(std::ranges::equal(y.values(), std::vector<real>{3, 7, 4, 5, -infinity, -infinity}));
  seppo::tape().backward(y, std::vector<real>{1, 2, 4, 8, 16, 32});
  BOOST_CHECK(std::ranges::equal(x.grad(), std::vector<real>{0, 1, 2, 8, 1, 1, 2, 0}));
  const Tensor least = seppo::variable({2}, {3, nan}), rows = seppo::variable({3}, {3, 3, 1});
  const Tensor z = seppo::index_amax(least, 0, {0, 0, 1}, rows);
  seppo::tape().backward(z, std::vector<real>{6, 1});
  BOOST_CHECK(z.values()[0] == 3 && std::isnan(z.values()[1]));
  BOOST_CHECK(std::ranges::equal(least.grad(), std::vector<real>{2, 0}));
  BOOST_CHECK(std::ranges::equal(rows.grad(), std::vector<real>{2, 2, 0}));
  BOOST_CHECK(std::isnan(seppo::index_amax(seppo::zeros({1}), 0, {0, 0}, seppo::tensor({2}, {nan, 1})).item()));
}

// As softmax: exact zeros for a group without any score, no overflow for large ones, and each group by itself.
BOOST_AUTO_TEST_CASE(groups_at_the_ends_of_the_range) {
  seppo::tape().clear();
  const real infinity = std::numeric_limits<real>::infinity();
  const real large = std::numeric_limits<real>::max() / 2;
  const Tensor x = seppo::variable({6}, {-infinity, large, 1, -infinity, large, -infinity});
  const Tensor y = seppo::index_softmax(x, 0, {4, 2, 9, 4, 2, 9});
  seppo::tape().backward(y, std::vector<real>{1, 2, 3, 4, 5, 6});
  const std::vector<real> expected{0, real{0.5f}, 1, 0, real{0.5f}, 0}, slopes{0, real{-0.75f}, 0, 0, real{0.75f}, 0};
  BOOST_CHECK(std::ranges::equal(y.values(), expected));
  BOOST_CHECK(std::ranges::equal(x.grad(), slopes));
}

// Rows return to the places that they were read from; repeated ones are summed.
BOOST_AUTO_TEST_CASE(index_add_undoes_index_select) {
  seppo::tape().clear();
  const Tensor x = seppo::tensor({3, 2}, {1, 2, 3, 4, 5, 6});
  const std::vector<int> ids{2, 0, 2};
  const Tensor y = seppo::index_add(seppo::zeros({3, 2}), 0, ids, seppo::index_select(x, 0, ids));
  const std::vector<double> expected{1, 2, 0, 0, 10, 12};
  BOOST_CHECK(std::equal(expected.begin(), expected.end(), y.values().begin()));
}

BOOST_AUTO_TEST_CASE(the_padding_row_of_an_embedding_gets_no_gradient) {
  seppo::tape().clear();
  const Tensor table = seppo::variable({3, 2}, {1, 2, 3, 4, 5, 6});
  const std::vector<int> ids{0, 1, 0, 2};
  const Tensor y = seppo::embedding(table, ids, {.padding_idx = 0});
  BOOST_CHECK_EQUAL(y.values()[0], 1);  // padding tokens have values as well
  seppo::tape().backward(y, std::vector<real>{1, 2, 3, 4, 5, 6, 7, 8});
  const std::vector<double> expected{0, 0, 3, 4, 7, 8};
  BOOST_CHECK(std::equal(expected.begin(), expected.end(), table.grad().begin()));
}

BOOST_AUTO_TEST_CASE(numbers_of_parts) {
  seppo::tape().clear();
  BOOST_CHECK_EQUAL(seppo::split(seppo::zeros({0, 3}), 2).size(), 1);
  BOOST_CHECK_EQUAL(seppo::chunk(seppo::zeros({6}), 4).size(), 3);  // as in PyTorch: parts of 2
}

BOOST_AUTO_TEST_CASE(negative_indices_count_from_the_end) {
  const auto results = [](const std::vector<int>& index) {
    seppo::tape().clear();
    const Tensor x = seppo::variable({3, 2}, {1, 2, 3, 4, 5, 6}), source = seppo::variable({2, 2}, {7, 8, 9, 10});
    const seppo::Indices indices{{2, 2}, index};
    const std::vector<int> rows(index.begin(), index.begin() + 2);
    const Tensor all = seppo::concat({seppo::gather(x, 0, indices), seppo::scatter_add(x, 0, indices, source),
                                      seppo::index_select(x, 0, rows), seppo::index_add(x, 0, rows, source)});
    seppo::backward(seppo::sum(all * all));
    std::vector<real> numbers(all.values().begin(), all.values().end());
    for (const Tensor& leaf : {x, source}) numbers.insert(numbers.end(), leaf.grad().begin(), leaf.grad().end());
    return numbers;
  };
  BOOST_CHECK(results({-1, -3, -2, -2}) == results({2, 0, 1, 1}));
  BOOST_CHECK(results({-3, -2, -1, -3}) == results({0, 1, 2, 0}));
}

// As in PyTorch, indices without elements may have any shape.
BOOST_AUTO_TEST_CASE(gathering_nothing) {
  for (const Shape& shape : {Shape{0}, Shape{0, 7}, Shape{2, 0, 3}}) {
    seppo::tape().clear();
    const Tensor x = seppo::variable({2, 3}, {1, 2, 3, 4, 5, 6}), y = seppo::gather(x, 1, {shape, {}});
    BOOST_CHECK(y.shape() == shape);
    seppo::backward(seppo::sum(y));
    for (const real g : x.grad()) BOOST_CHECK_EQUAL(g, 0);
  }
}
