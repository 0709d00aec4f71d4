// Reductions beside their rows in the table: ties, NaN, infinities, large values.
// needs: precision: double single; simd: avx2 plain
#include "support/op_check.h"

#include <limits>
#include <numeric>

using namespace test;
using seppo::Axes;

namespace {

Axes axes_of(const std::vector<int>& axes) {
  switch (axes.size()) {
    case 0:
      return {};
    case 1:
      return axes[0];
    case 2:
      return {axes[0], axes[1]};
    case 3:
      return {axes[0], axes[1], axes[2]};
    default:
      return {axes[0], axes[1], axes[2], axes[3]};
  }
}

}  // namespace

// The slope of an element is the product of the others: 0 where there are two zeros, and not 0 where there is one.
BOOST_AUTO_TEST_CASE(products_with_zeros) {
  for (std::uint32_t zeros = 0; zeros < 16; ++zeros) {
    seppo::tape().clear();
    std::vector<real> values{2, -3, 5, 7};
    for (std::size_t i = 0; i < 4; ++i)
      if (zeros >> i & 1) values[i] = 0;
    const Tensor x = seppo::variable({2, 2}, values);
    const Tensor y = seppo::prod(x);
    seppo::tape().backward(y, std::vector<real>{-2});
    BOOST_CHECK_EQUAL(y.item(), values[0] * values[1] * values[2] * values[3]);
    for (std::size_t i = 0; i < 4; ++i) {
      real others = 1;
      for (std::size_t j = 0; j < 4; ++j)
        if (j != i) others *= values[j];
      BOOST_CHECK_EQUAL(x.grad()[i], -2 * others);
    }
  }
  BOOST_CHECK_EQUAL(seppo::prod(seppo::zeros({0})).item(), 1);
}
BOOST_AUTO_TEST_CASE(roots_of_nothing_have_no_slope) {
  for (const auto& op : {std::function([](const Tensor& x) { return seppo::norm(x, 1); }),
                         std::function([](const Tensor& x) { return seppo::stddev(x, 1); })}) {
    seppo::tape().clear();
    const Tensor x = seppo::variable({2, 3}, {0, 0, 0, 3, 0, 4}), y = op(x);
    seppo::tape().backward(y, std::vector<real>{5, 1});
    BOOST_CHECK_EQUAL(y.values()[0], 0);
    BOOST_CHECK(x.grad()[0] == 0 && x.grad()[1] == 0 && x.grad()[2] == 0 && x.grad()[5] > 0);
  }
}
BOOST_AUTO_TEST_CASE(topk_of_equal_elements_and_nan) {
  seppo::tape().clear();
  const real nan = std::numeric_limits<real>::quiet_NaN();
  const Tensor x = seppo::variable({5}, {2, 5, 5, nan, 1});
  const auto top = seppo::topk(x, 3), low = seppo::topk(x, 4, 0, false);
  BOOST_CHECK((top.indices == std::vector<int>{3, 1, 2}));
  BOOST_CHECK((low.indices == std::vector<int>{4, 0, 1, 2}));
  seppo::tape().backward(top.values, std::vector<real>{3, 4, 5});
  BOOST_CHECK((std::vector<real>(x.grad().begin(), x.grad().end()) == std::vector<real>{0, 4, 5, 3, 0}));
  // Few distinct values, so that many are equal.
  seppo::RandomStream random(3, seppo::Purpose::test);
  for (const int k : {1, 20, 63, 64})
    for (const bool largest : {true, false}) {
      std::vector<real> values(64);
      for (real& v : values) v = random.below(8) == 0 ? nan : static_cast<real>(random.below(4));
      std::vector<int> order(64);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](int a, int b) {
        const real p = values[static_cast<std::size_t>(largest ? a : b)],
                   q = values[static_cast<std::size_t>(largest ? b : a)];
        return std::isnan(q) ? false : std::isnan(p) || p > q;
      });
      order.resize(static_cast<std::size_t>(k));
      BOOST_CHECK(seppo::topk(seppo::tensor({64}, values), k, 0, largest).indices == order);
    }
  const Tensor columns = seppo::tensor({3, 2}, {1, 6, 3, 4, 2, 5});
  BOOST_CHECK((seppo::topk(columns, 2, 0).indices == std::vector<int>{1, 0, 2, 2}));
}

BOOST_AUTO_TEST_CASE(indices_of_extremes) {
  seppo::tape().clear();
  const real nan = std::numeric_limits<real>::quiet_NaN();
  const Tensor x = seppo::tensor({2, 3}, {3, 7, 7, 5, -1, -1});
  BOOST_CHECK((seppo::argmax(x) == std::vector<int>{1, 0}));  // the first of equal elements
  BOOST_CHECK((seppo::argmin(x) == std::vector<int>{0, 1}));
  BOOST_CHECK((seppo::argmax(x, 0) == std::vector<int>{1, 0, 0}));
  BOOST_CHECK((seppo::max(x, 1).indices == std::vector<int>{1, 0}));
  BOOST_CHECK((seppo::min(x, 0).indices == std::vector<int>{0, 1, 1}));
  BOOST_CHECK((seppo::argmax(seppo::tensor({3}, {1, nan, 9})) == std::vector<int>{1}));
  BOOST_CHECK(std::isnan(seppo::amax(seppo::tensor({3}, {1, nan, 9})).item()));
  BOOST_CHECK(std::isnan(seppo::amin(seppo::tensor({3}, {1, nan, 9})).item()));
}

// amax splits the gradient among equal elements, max gives all of it to the first.
BOOST_AUTO_TEST_CASE(ties) {
  const auto slopes = [](const auto& op) {
    seppo::tape().clear();
    const Tensor x = seppo::variable({5}, {2, 5, 1, 5, 1});
    seppo::tape().backward(op(x), std::vector<real>{6});
    return std::vector<real>(x.grad().begin(), x.grad().end());
  };
  using Values = std::vector<real>;
  BOOST_CHECK((slopes([](const Tensor& x) { return seppo::amax(x); }) == Values{0, 3, 0, 3, 0}));
  BOOST_CHECK((slopes([](const Tensor& x) { return seppo::max(x, 0).values; }) == Values{0, 6, 0, 0, 0}));
  BOOST_CHECK((slopes([](const Tensor& x) { return seppo::amin(x); }) == Values{0, 0, 3, 0, 3}));
  BOOST_CHECK((slopes([](const Tensor& x) { return seppo::min(x, 0).values; }) == Values{0, 0, 6, 0, 0}));
}

// Over any axes: few distinct values, so that many are equal, and some NaN, which wins; no element of its group gets a
// gradient.
BOOST_AUTO_TEST_CASE(ties_and_nan_over_every_set_of_axes) {
  seppo::RandomStream random(7, seppo::Purpose::data);
  using seppo::real;
  const real nan = std::numeric_limits<real>::quiet_NaN();
  for (const Shape& shape : {Shape{7}, Shape{3, 40}, Shape{40, 3}, Shape{5, 2, 9}, Shape{2, 3, 2, 17}})
    for (std::uint32_t set = 1; set < (1u << shape.rank()); ++set)
      for (const int sign : {1, -1}) {
        std::vector<int> axes;
        for (int axis = 0; axis < shape.rank(); ++axis)
          if (set >> axis & 1) axes.push_back(axis);
        seppo::tape().clear();
        std::vector<real> values(static_cast<std::size_t>(shape.numel()));
        for (real& v : values) v = random.uniform() < 0.02 ? nan : static_cast<real>(std::floor(3 * random.uniform()));
        const Tensor x = seppo::variable(shape, values);
        const Tensor y = sign > 0 ? seppo::amax(x, axes_of(axes), true) : seppo::amin(x, axes_of(axes), true);
        std::vector<real> dy(y.numel());
        for (real& v : dy) v = static_cast<real>(random.normal());
        seppo::tape().backward(y, dy);

        std::vector<std::vector<std::size_t>> members(y.numel());
        std::size_t next = 0;
        each_index(sizes_of(shape), [&](std::vector<int> at) {
          for (const int axis : axes) at[static_cast<std::size_t>(axis)] = 0;
          members[test::Nd<double>(sizes_of(y.shape())).offset(at)].push_back(next++);
        });
        for (std::size_t i = 0; i < members.size(); ++i) {
          real best = static_cast<real>(-sign) * std::numeric_limits<real>::infinity();
          for (const std::size_t m : members[i])
            if (std::isnan(values[m]) || (sign > 0 ? values[m] > best : values[m] < best)) best = values[m];
          BOOST_REQUIRE(std::isnan(best) ? std::isnan(y.data()[i]) : y.data()[i] == best);
          const auto equal = std::ranges::count_if(members[i], [&](std::size_t m) { return values[m] == best; });
          for (const std::size_t m : members[i])
            BOOST_REQUIRE_EQUAL(x.grad()[m], values[m] == best ? dy[i] / static_cast<real>(equal) : 0);
        }
      }
}

BOOST_AUTO_TEST_CASE(logsumexp_at_infinity) {
  seppo::tape().clear();
  const real infinity = std::numeric_limits<real>::infinity();
  const Tensor nothing = seppo::variable({2}, {-infinity, -infinity}), all = seppo::variable({2}, {infinity, 1});
  const Tensor y = seppo::logsumexp(nothing), z = seppo::logsumexp(all);
  BOOST_CHECK_EQUAL(y.item(), -infinity);
  BOOST_CHECK_EQUAL(z.item(), infinity);
  seppo::tape().backward(y + z);
  for (const Tensor& x : {nothing, all})
    for (const real g : x.grad()) BOOST_CHECK_EQUAL(g, 0);
  BOOST_CHECK_EQUAL(seppo::logsumexp(seppo::zeros({0})).item(), -infinity);
  const real large = std::numeric_limits<real>::max() / 4;
  BOOST_CHECK_EQUAL(seppo::logsumexp(seppo::tensor({2}, {large, -large})).item(), large);
}

// The variance of values far from zero is as accurate as that of their differences.
BOOST_AUTO_TEST_CASE(variance_of_large_values) {
  seppo::tape().clear();
  const real far = kIsDouble ? real{1e9} : real{1e6};
  const Tensor x = seppo::tensor({4}, {far, far + 1, far + 2, far + 3});
  BOOST_CHECK_CLOSE(double{seppo::var(x).item()}, 5.0 / 3, within(1e-9));
  BOOST_CHECK_CLOSE(double{seppo::var(x, {}, 0).item()}, 1.25, within(1e-9));
}

BOOST_AUTO_TEST_CASE(reductions_drop_their_axes) {
  const Tensor x = seppo::ones({2, 3, 4});
  for (const Tensor& y : {seppo::sum(x, 1), seppo::mean(x, 1), seppo::var(x, 1), seppo::amax(x, 1), seppo::sum(x, {-2}),
                          seppo::mean(x, {1}), seppo::var(x, {1})})
    BOOST_CHECK_EQUAL(y.shape().str(), "[2,4]");
  for (const Tensor& y : {seppo::sum(x), seppo::mean(x), seppo::var(x)}) BOOST_CHECK_EQUAL(y.shape().str(), "[]");
}
