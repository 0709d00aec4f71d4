// Conveniences of the ops: braced lists, element access, +=, six axes, the axes of a scalar.
// needs: precision: double; full: single; simd: avx2 plain
#include "support/op_check.h"
#include "support/reference.h"

#include <numeric>

using namespace test;
namespace ref = test::reference;

namespace {

bool same(std::span<const seppo::real> a, std::span<const seppo::real> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

BOOST_AUTO_TEST_CASE(lists_may_be_braced) {
  seppo::tape().clear();
  seppo::RandomStream random(1, seppo::Purpose::test);
  const Tensor x = seppo::randn({2, 3}, random), y = seppo::randn({4, 3}, random);
  const std::vector<int> two{1, 0}, many{2, 0, 1, 1};
  BOOST_CHECK(same(seppo::index_select(x, 0, {1, 0}).values(), seppo::index_select(x, 0, two).values()));
  BOOST_CHECK(same(seppo::cross_entropy(x, {1, 0}).values(), seppo::cross_entropy(x, two).values()));
  BOOST_CHECK(same(seppo::nll_loss(x, {1, 0}).values(), seppo::nll_loss(x, two).values()));
  BOOST_CHECK(same(seppo::embedding(x, {1, 0}, {.positions = y, .position_ids = {2, 0}}).values(),
                   seppo::embedding(x, two, {.positions = y, .position_ids = std::span(many).first(2)}).values()));
  BOOST_CHECK(same(seppo::one_hot({1, 0}, 3).values(), seppo::one_hot(two, 3).values()));
  BOOST_CHECK(same(seppo::gather(x, 1, {{2, 2}, {2, 0, 1, 1}}).values(), seppo::gather(x, 1, {{2, 2}, many}).values()));
  const std::vector<int> offsets{0, 1, 2}, lengths{1, 1};
  BOOST_CHECK(
      same(seppo::attention(x, x, x, 1, {0, 1, 2}, {0, 1, 2}, {.mask = seppo::Mask::valid_lengths({1, 1})}).values(),
           seppo::attention(x, x, x, 1, offsets, offsets, {.mask = seppo::Mask::valid_lengths(lengths)}).values()));
}

// Lists are copied: backward may run after they are gone.
BOOST_AUTO_TEST_CASE(lists_need_not_outlive_the_call) {
  const auto gradient = [](bool overwrites) {
    seppo::tape().clear();
    const Tensor x = seppo::variable({3, 2}, {1, 2, 3, 4, 5, 6});
    std::vector<int> ids{2, 0}, targets{1, 0}, offsets{0, 1, 2}, pairs{0, 1, 1, 0};
    std::vector<int> whole{0, 2}, lengths{2}, positions{1, 0};
    std::vector<std::uint8_t> allowed{1, 1};
    std::vector<real> slopes{1};
    const Tensor a = seppo::embedding(x, ids, {.positions = x, .position_ids = ids});
    const Tensor b = seppo::gather(seppo::index_select(a, 0, targets), 1, {{2, 2}, pairs});
    const Tensor c = seppo::scatter_add(b, 0, {{2, 2}, pairs}, a);
    const Tensor d = seppo::attention(c, a, b, 1, offsets, offsets, {.mask = seppo::Mask::allowed(allowed)});
    const Tensor e = seppo::rotary(seppo::scale(c, real{0.015625}), 1, seppo::tensor({2, 2}, {0, 1, 1, 0}), positions);
    const Tensor f =
        seppo::attention(e, e, d, 1, whole, whole,
                         {.mask = seppo::Mask::valid_lengths(lengths), .slopes = slopes, .positions = positions});
    const Tensor loss = seppo::cross_entropy(f, targets) + seppo::nll_loss(d * d, targets);
    if (overwrites)
      for (std::vector<int>* list : {&ids, &targets, &offsets, &pairs, &whole, &lengths, &positions})
        std::fill(list->begin(), list->end(), 1 << 20);
    if (overwrites) std::fill(allowed.begin(), allowed.end(), std::uint8_t{0}), slopes[0] = 9;
    seppo::backward(loss);
    return std::vector<double>(x.grad().begin(), x.grad().end());
  };
  BOOST_CHECK(gradient(true) == gradient(false));
}

BOOST_AUTO_TEST_CASE(elements) {
  seppo::tape().clear();
  const Tensor x = seppo::arange(24), y = seppo::reshape(x, {2, 3, 4});
  for (int i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      for (int k = 0; k < 4; ++k) {
        BOOST_CHECK_EQUAL(y.at(i, j, k), 12 * i + 4 * static_cast<int>(j) + k);
        BOOST_CHECK_EQUAL(y.at(i - 2, j, k - 4), y.at(i, j, k));
      }
  BOOST_CHECK_EQUAL(x.at(7), 7);
  BOOST_CHECK_EQUAL(seppo::sum(x).at(), 276);
}

BOOST_AUTO_TEST_CASE(compound_assignment_makes_a_new_tensor) {
  seppo::tape().clear();
  const Tensor x = seppo::variable({2}, {3, 5});
  Tensor y = x;
  y += x;         // 2 x
  y *= y;         // 4 x^2
  y -= 2;         // 4 x^2 - 2
  (y /= x) += 1;  // 4 x - 2 / x + 1
  BOOST_CHECK(same(x.values(), std::vector<seppo::real>{3, 5}));
  BOOST_CHECK_CLOSE(double{y.at(0)}, 12 - 2.0 / 3 + 1, within(1e-12));
  BOOST_CHECK_CLOSE(double{y.at(1)}, 20 - 2.0 / 5 + 1, within(1e-12));
  seppo::backward(seppo::sum(y));
  BOOST_CHECK_CLOSE(double{x.grad()[0]}, 4 + 2.0 / 9, within(1e-12));
  BOOST_CHECK_CLOSE(double{x.grad()[1]}, 4 + 2.0 / 25, within(1e-12));
}

// ---- six axes ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(six_axes) {
  static_assert(sizeof(seppo::Node) == 128 && sizeof(Shape) == 32);
  const Shape six{2, 3, 1, 2, 3, 2};
  seppo::RandomStream random(2, seppo::Purpose::test);
  for (int repeat = 0; repeat < 12; ++repeat) {
    std::vector<int> axes{0, 1, 2, 3, 4, 5};
    for (std::uint32_t i = 6; i-- > 1;) std::swap(axes[i], axes[random.below(i + 1)]);
    check_op(
        "permute", {six}, [&](Inputs x) { return seppo::permute(x[0], axes); },
        [&](const auto& x) { return ref::permute(x[0], axes); });
    const Shape operand = random_operand(random, six);
    check_op(
        "mul", {six, operand}, [](Inputs x) { return x[0] * x[1]; },
        [](const auto& x) { return ref::zip(x[0], x[1], [](auto a, auto b) { return a * b; }); });
  }
  const auto total = [](const auto& row) {
    auto sum = row[0] * 0.0;
    for (const auto& e : row) sum += e;
    return sum;
  };
  check_op(
      "sum", {six},
      [](Inputs x) {
        return seppo::sum(x[0], {0, 3, 4, -1});
      },
      [&](const auto& x) {
        return ref::reduce(x[0], {0, 3, 4, 5}, false, total);
      });
  check_op(
      "sum", {six},
      [](Inputs x) {
        return seppo::sum(x[0], {0, 1, 2, 3, 4, 5}, true);
      },
      [&](const auto& x) {
        return ref::reduce(x[0], {0, 1, 2, 3, 4, 5}, true, total);
      });
  check_op(
      "flip", {six},
      [](Inputs x) {
        return seppo::flip(x[0], {1, 5});
      },
      [&](const auto& x) {
        return ref::pick(x[0], sizes_of(six), [](std::vector<int> at) {
          at[1] = 2 - at[1];
          at[5] = 1 - at[5];
          return at;
        });
      });
  // Cut into patches and reassembled: [batch, 4, 6, c] -> [batch, 2, 3, 2, 2, c] and back.
  check_op(
      "patches", {{2, 4, 6, 3}},
      [](Inputs x) {
        const Tensor patches = seppo::permute(seppo::reshape(x[0], {2, 2, 2, 3, 2, 3}), {0, 1, 3, 2, 4, 5});
        return seppo::reshape(seppo::permute(patches, {0, 1, 3, 2, 4, 5}), {2, 4, 6, 3}) * x[0];
      },
      [](const auto& x) { return ref::map(x[0], [](auto v) { return v * v; }); });
}

// ---- axes 0 and -1 of a scalar -------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_scalar_has_one_element_along_axis_0) {
  const auto same_value = [](const auto& x) { return x[0]; };
  for (const int axis : {0, -1}) {
    for (const auto& op : {seppo::cumsum, seppo::squeeze})
      check_op(
          "of a scalar", {{}}, [=](Inputs x) { return op(x[0], axis); }, same_value);
    check_op(
        "max", {{}}, [=](Inputs x) { return seppo::max(x[0], axis).values; }, same_value);
    check_op(
        "min", {{}}, [=](Inputs x) { return seppo::min(x[0], axis, true).values; }, same_value);
    check_op(
        "transpose", {{}}, [=](Inputs x) { return seppo::transpose(x[0], axis, 0); }, same_value);
    check_op(
        "index_select", {{}}, [=](Inputs x) { return seppo::index_select(x[0], axis, {0}); }, same_value);
    check_op(
        "gather", {{}},
        [=](Inputs x) {
          return seppo::gather(x[0], axis, {{}, {0}});
        },
        same_value);
    check_op(
        "scatter_add", {{}, {}},
        [=](Inputs x) {
          return seppo::scatter_add(x[0], axis, {{}, {0}}, x[1]);
        },
        [](const auto& x) { return ref::zip(x[0], x[1], [](auto a, auto b) { return a + b; }); });
    check_op(
        "softmax", {{}}, [=](Inputs x) { return seppo::softmax(x[0], axis); },
        [](const auto& x) { return ref::map(x[0], [](auto v) { return v / v; }); });
    check_op(
        "log_softmax", {{}}, [=](Inputs x) { return seppo::log_softmax(x[0], axis); },
        [](const auto& x) { return ref::map(x[0], [](auto v) { return v - v; }); });
    BOOST_CHECK_EQUAL(seppo::argmax(seppo::ones({}), axis).front(), 0);
  }
}
