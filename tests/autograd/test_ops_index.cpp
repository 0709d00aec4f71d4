// Gathering, scattering and splitting at indices.
// needs: precision: double; full: single; simd: avx2 plain
#define BOOST_TEST_MODULE ops_index
#include "support/op_check.h"
#include "support/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace test;
namespace ref = test::reference;

namespace {

std::vector<int> random_indices(seppo::RandomStream& random, std::size_t count, int below) {
  std::vector<int> indices(count);
  for (int& i : indices) i = static_cast<int>(random.below(static_cast<std::uint32_t>(below)));
  return indices;
}

struct Case {
  Shape x, indices;
  int axis;
  std::vector<int> values;
};

// Index tensors for shapes of ranks 1 to 4: of any length along the axis, and no larger than x elsewhere.
std::vector<Case> index_cases() {
  seppo::RandomStream random(3, seppo::Purpose::test);
  std::vector<Case> cases;
  for (const Shape& x : {Shape{5}, Shape{1}, Shape{3, 4}, Shape{2, 3, 4}, Shape{4, 1, 2}, Shape{2, 3, 2, 3}})
    for (int axis = -x.rank(); axis < x.rank(); ++axis)
      for (int repeat = 0; repeat < 3; ++repeat) {
        std::vector<int> sizes;
        for (int a = 0; a < x.rank(); ++a)
          sizes.push_back(static_cast<int>(a == x.axis(axis) ? random.below(6)
                                                             : 1 + random.below(static_cast<std::uint32_t>(x[a]))));
        const Shape shape{std::span<const int>(sizes)};
        cases.push_back({x, shape, axis, random_indices(random, static_cast<std::size_t>(shape.numel()), x[axis])});
      }
  return cases;
}

}  // namespace

BOOST_AUTO_TEST_CASE(op_gather) {
  for (const Case& c : index_cases())
    check_op(
        "gather", {c.x},
        [&](Inputs x) {
          return seppo::gather(x[0], c.axis, {c.indices, c.values});
        },
        [&](const auto& x) {
          std::size_t i = 0;
          return ref::pick(x[0], sizes_of(c.indices), [&](std::vector<int> index) {
            index[static_cast<std::size_t>(c.x.axis(c.axis))] = c.values[i++];
            return index;
          });
        });
}

BOOST_AUTO_TEST_CASE(op_scatter_add) {
  for (const Case& c : index_cases()) {
    // the source is larger than the indices: the rest of it is ignored
    std::vector<int> larger = sizes_of(c.indices);
    for (int& size : larger) ++size;
    check_op(
        "scatter_add", {c.x, Shape(std::span<const int>(larger))},
        [&](Inputs x) {
          return seppo::scatter_add(x[0], c.axis, {c.indices, c.values}, x[1]);
        },
        [&](const auto& x) {
          auto y = x[0];
          std::size_t i = 0;
          each_index(sizes_of(c.indices), [&](const std::vector<int>& index) {
            std::vector<int> to = index;
            to[static_cast<std::size_t>(c.x.axis(c.axis))] = c.values[i++];
            y(to) += x[1](index);
          });
          return y;
        });
  }
}

BOOST_AUTO_TEST_CASE(op_index_select) {
  seppo::RandomStream random(4, seppo::Purpose::test);
  for (const Shape& shape : {Shape{5}, Shape{3, 4}, Shape{2, 3, 4}, Shape{2, 3, 2, 3}})
    for (int axis = -shape.rank(); axis < shape.rank(); ++axis)
      for (const int count : {0, 1, 5}) {
        const std::vector<int> index = random_indices(random, static_cast<std::size_t>(count), shape[axis]);
        std::vector<int> result = sizes_of(shape);
        result[static_cast<std::size_t>(shape.axis(axis))] = count;
        check_op(
            "index_select", {shape}, [&](Inputs x) { return seppo::index_select(x[0], axis, index); },
            [&](const auto& x) {
              return ref::pick(x[0], result, [&](std::vector<int> at) {
                int& own = at[static_cast<std::size_t>(shape.axis(axis))];
                own = index[static_cast<std::size_t>(own)];
                return at;
              });
            });
      }
}

BOOST_AUTO_TEST_CASE(op_index_add) {
  seppo::RandomStream random(5, seppo::Purpose::test);
  for (const Shape& shape : {Shape{5}, Shape{3, 4}, Shape{2, 3, 4}, Shape{2, 3, 2, 3}, Shape{2, 1, 1}, Shape{0, 3}})
    for (int axis = -shape.rank(); axis < shape.rank(); ++axis)
      for (const int count : {0, 1, 5}) {
        if (shape[axis] == 0 && count > 0) continue;
        const std::vector<int> index =
            count == 0 ? std::vector<int>{} : random_indices(random, static_cast<std::size_t>(count), shape[axis]);
        const auto reference = [&](const auto& x, const auto& source) {
          auto y = x;
          each_index(source.shape, [&](std::vector<int> at) {
            const auto value = source(at);
            int& own = at[static_cast<std::size_t>(shape.axis(axis))];
            own = index[static_cast<std::size_t>(own)];
            y(at) += value;
          });
          return y;
        };
        check_op(
            "index_add", {shape, shape.with(axis, count)},
            [&](Inputs x) { return seppo::index_add(x[0], axis, index, x[1]); },
            [&](const auto& x) { return reference(x[0], x[1]); });
        if (count == shape[axis])
          check_op(
              "index_add aliased", {shape}, [&](Inputs x) { return seppo::index_add(x[0], axis, index, x[0]); },
              [&](const auto& x) { return reference(x[0], x[0]); });
      }
}

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

BOOST_AUTO_TEST_CASE(op_stack) {
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 3}, Shape{2, 0, 3}, Shape{2, 3, 2}})
    for (int axis = -shape.rank() - 1; axis <= shape.rank(); ++axis) {
      const auto at = static_cast<std::size_t>(axis < 0 ? axis + shape.rank() + 1 : axis);
      std::vector<int> result = sizes_of(shape);
      result.insert(result.begin() + static_cast<std::ptrdiff_t>(at), 3);
      check_op(
          "stack", {shape, shape},
          [&](Inputs x) {
            return seppo::stack({x[0], x[1], x[0]}, axis);
          },
          [&](const auto& x) {
            auto y = x[0];
            y.shape = result;
            y.v.resize(y.v.size() * 3);
            each_index(result, [&](const std::vector<int>& index) {
              std::vector<int> own = index;
              own.erase(own.begin() + static_cast<std::ptrdiff_t>(at));
              y(index) = x[static_cast<std::size_t>(index[at] % 2)](own);
            });
            return y;
          });
    }
}

// Parts of a tensor, concatenated in reverse: each gradient must reach its own elements.
BOOST_AUTO_TEST_CASE(op_split_and_chunk) {
  const auto reversed = [](std::vector<Tensor> parts, int axis) {
    std::reverse(parts.begin(), parts.end());
    return seppo::concat(parts, axis);
  };
  const auto check_parts = [&](const Shape& shape, int axis, const std::vector<int>& sizes, const auto& op) {
    check_op(
        "split", {shape}, [&](Inputs x) { return reversed(op(x[0]), axis); },
        [&](const auto& x) {
          std::vector<int> order;  // of indices along the axis
          int end = shape[axis];
          for (std::size_t i = sizes.size(); i-- > 0; end -= sizes[i])
            for (int k = end - sizes[i]; k < end; ++k) order.push_back(k);
          return ref::pick(x[0], sizes_of(shape), [&](std::vector<int> at) {
            int& own = at[static_cast<std::size_t>(shape.axis(axis))];
            own = order[static_cast<std::size_t>(own)];
            return at;
          });
        });
  };
  for (const int axis : {0, 1, -1}) {
    const Shape shape = axis == 0 ? Shape{7, 2} : axis == 1 ? Shape{2, 7, 3} : Shape{3, 7};
    check_parts(shape, axis, {2, 5, 0}, [=](const Tensor& x) { return seppo::split(x, {2, 5, 0}, axis); });
    check_parts(shape, axis, {3, 3, 1}, [=](const Tensor& x) { return seppo::split(x, 3, axis); });
    check_parts(shape, axis, {7}, [=](const Tensor& x) { return seppo::split(x, 9, axis); });
    check_parts(shape, axis, {2, 2, 2, 1}, [=](const Tensor& x) { return seppo::chunk(x, 4, axis); });
    check_parts(shape, axis, {7}, [=](const Tensor& x) { return seppo::chunk(x, 1, axis); });
    check_parts(shape, axis, {1, 1, 1, 1, 1, 1, 1}, [=](const Tensor& x) { return seppo::chunk(x, 7, axis); });
  }
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
