// Elementwise ops beside their rows in the table: options, kinks, limits, dropout.
// needs: precision: double single; simd: avx2 plain
#include "support/op_check.h"
#include "support/reference.h"

#include <limits>
#include <numbers>

using namespace test;
namespace ref = test::reference;

namespace {

const std::vector<std::vector<Shape>> kUnaryShapes = {{{}},        {{1}},       {{0}},          {{7}}, {{3, 4}},
                                                      {{2, 0, 3}}, {{2, 3, 5}}, {{2, 1, 3, 9}}, {{33}}};

template <class Op, class F>
void check_unary(const std::string& name, const Op& op, const F& f, OpCheckOptions options = {}) {
  for (const auto& shapes : kUnaryShapes)
    check_op(
        name, shapes, [&](Inputs x) { return op(x[0]); }, [&](const auto& x) { return ref::map(x[0], f); }, options);
  seppo::RandomStream random(17, seppo::Purpose::test);
  for (int i = 0; i < 20; ++i)
    check_op(
        name, {random_shape(random, 4)}, [&](Inputs x) { return op(x[0]); },
        [&](const auto& x) { return ref::map(x[0], f); }, options);
}

constexpr OpCheckOptions kPositive{.low = 0.5, .high = 2};

}  // namespace

BOOST_AUTO_TEST_CASE(log1p_and_expm1_of_tiny_numbers) {
  seppo::tape().clear();
  for (const real tiny : reals(std::vector{1e-20, -1e-18})) {
    const Tensor x = seppo::tensor({1}, {tiny});
    BOOST_CHECK_EQUAL(seppo::log1p(x).item(), tiny);
    BOOST_CHECK_EQUAL(seppo::expm1(x).item(), tiny);
  }
}
BOOST_AUTO_TEST_CASE(steps_round_as_documented) {
  const auto check = [](Tensor (*op)(const Tensor&), double (*f)(double)) {
    seppo::tape().clear();
    const real infinity = std::numeric_limits<real>::infinity();
    const std::vector<real> values{
        real{-2.5}, real{-1.5}, real{-0.0}, 0, real{0.5}, real{1.5}, 4, static_cast<real>(1e30), infinity};
    const Tensor y = op(seppo::tensor({9}, values));
    for (std::size_t i = 0; i < values.size(); ++i) BOOST_CHECK_EQUAL(double{y.values()[i]}, f(double{values[i]}));
    BOOST_CHECK(std::isnan(op(seppo::full({}, std::numeric_limits<real>::quiet_NaN())).item()));
  };
  check(seppo::floor, std::floor);
  check(seppo::trunc, std::trunc);
  check(seppo::round, std::nearbyint);
}
BOOST_AUTO_TEST_CASE(elu_far_from_zero) {
  seppo::tape().clear();
  const Tensor x = seppo::variable({3}, {1000, 0, -1000});
  seppo::backward(seppo::sum(seppo::elu(x, real{0.5})));
  BOOST_CHECK(x.grad()[0] == 1 && x.grad()[1] == real{0.5} && x.grad()[2] == 0);
}
BOOST_AUTO_TEST_CASE(op_with_a_number) {
  check_unary(
      "numbers", [](const Tensor& x) { return (1 - x) * 2.5 + 3 / x - (x + 4) / 2; },
      [](auto x) { return (1.0 - x) * 2.5 + 3.0 / x - (x + 4.0) / 2.0; }, kPositive);
}
BOOST_AUTO_TEST_CASE(comparisons) {
  using seppo::Operand;
  const auto check_comparison = [](Tensor (*op)(const Operand&, const Operand&), bool less, bool equal, bool more) {
    seppo::tape().clear();
    const Tensor x = seppo::variable({3}, {1, 2, 3}), y = op(x, 2);
    const std::vector<real> expected{real(less), real(equal), real(more)};
    BOOST_CHECK(std::equal(expected.begin(), expected.end(), y.values().begin()));
    BOOST_CHECK(!y.requires_grad());
  };
  check_comparison(seppo::gt, false, false, true);
  check_comparison(seppo::ge, false, true, true);
  check_comparison(seppo::lt, true, false, false);
  check_comparison(seppo::le, true, true, false);
  check_comparison(seppo::eq, false, true, false);
  check_comparison(seppo::ne, true, false, true);
}
BOOST_AUTO_TEST_CASE(kinks_have_the_documented_gradient) {
  seppo::tape().clear();
  const Tensor x = seppo::variable({3}, {real{-0.0}, 0, std::numeric_limits<real>::min()});
  seppo::tape().backward(seppo::relu(x), std::vector<real>{3, 5, 7});
  BOOST_CHECK(x.grad()[0] == 0 && x.grad()[1] == 0 && x.grad()[2] == 7);
}

// Ties split the gradient; abs has slope 0 at 0; clamp has slope 1 at its limits; sqrt is infinitely steep at 0.
BOOST_AUTO_TEST_CASE(other_kinks_have_the_documented_gradient) {
  const auto slopes = [](std::vector<real> values, const auto& op) {
    seppo::tape().clear();
    const Tensor x = seppo::variable({static_cast<int>(values.size())}, values);
    seppo::tape().backward(op(x), std::vector<real>(values.size(), 3));
    return std::vector<real>(x.grad().begin(), x.grad().end());
  };
  using Values = std::vector<real>;
  const real infinity = std::numeric_limits<real>::infinity();
  BOOST_CHECK((slopes({1, 2, 3}, [](const Tensor& x) { return seppo::maximum(x, 2); }) == Values{0, real{1.5}, 3}));
  BOOST_CHECK((slopes({1, 2, 3}, [](const Tensor& x) { return seppo::minimum(2, x); }) == Values{3, real{1.5}, 0}));
  BOOST_CHECK((slopes({-2, 0, 2}, [](const Tensor& x) { return seppo::abs(x); }) == Values{-3, 0, 3}));
  BOOST_CHECK((slopes({0, 1, 2, 3}, [](const Tensor& x) { return seppo::clamp(x, 1, 2); }) == Values{0, 3, 3, 0}));
  BOOST_CHECK((slopes({5, 1}, [](const Tensor& x) { return seppo::clamp(x, 3, 2); }) == Values{0, 0}));
  BOOST_CHECK((slopes({0, 4}, [](const Tensor& x) { return seppo::sqrt(x); }) == Values{infinity, real{0.75}}));
  BOOST_CHECK((slopes({0, 2}, [](const Tensor& x) { return seppo::pow(x, 0); }) == Values{0, 0}));
  BOOST_CHECK((slopes({0, 2}, [](const Tensor& x) {
                 return seppo::pow(x, seppo::tensor({2}, {0, 1}));
               }) == Values{0, 3}));
  // where: no NaN from the side that is not chosen, unless its own slope is infinite
  BOOST_CHECK(
      std::isnan(slopes({0}, [](const Tensor& x) { return seppo::where(seppo::gt(x, 0), seppo::sqrt(x), 0); })[0]));
  BOOST_CHECK((slopes({-1, 4}, [](const Tensor& x) {
                 return seppo::where(seppo::gt(x, 0), seppo::sqrt(seppo::where(seppo::gt(x, 0), x, 1)), 0);
               }) == Values{0, real{0.75}}));
}

BOOST_AUTO_TEST_CASE(a_value_used_many_times_adds_up) {
  check_op(
      "reuse", {{3, 4}}, [](Inputs x) { return x[0] * seppo::tanh(x[0]) + seppo::exp(x[0]) * x[0]; },
      [](const auto& x) { return ref::map(x[0], [](auto e) { return e * std::tanh(e) + std::exp(e) * e; }); });
}

// Dropout with a fixed context is a linear map: its mask must be the same forward and backward.
BOOST_AUTO_TEST_CASE(dropout_backward_uses_the_forward_mask) {
  seppo::Tape& t = seppo::tape();
  for (const double p : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    t.clear();
    t.random = {7, 3, 11, 0};
    const std::vector<real> ones(1000, 1);
    const Tensor x = seppo::variable({1000}, ones);
    const Tensor y = seppo::dropout(x, p);
    std::vector<real> cotangent;
    seppo::RandomStream random(1, seppo::Purpose::test);
    for (int i = 0; i < 1000; ++i) cotangent.push_back(static_cast<real>(random.normal()));
    t.backward(y, cotangent);
    for (std::size_t i = 0; i < 1000; ++i) {
      BOOST_CHECK(y.values()[i] == 0 || std::abs(double{y.values()[i]} - 1 / (1 - p)) < within(1e-12));
      BOOST_CHECK_SMALL(double{x.grad()[i] - cotangent[i] * y.values()[i]}, within(1e-12));
    }
    if (p == 1) BOOST_CHECK(std::all_of(y.values().begin(), y.values().end(), [](real v) { return v == 0; }));
  }
  t.clear();
}

BOOST_AUTO_TEST_CASE(dropout_of_a_linear_layer_is_right_on_average) {
  seppo::Tape& t = seppo::tape();
  const std::vector<double> x{1, -2, 3, 0.5}, w{0.3, 0.7, -0.2, 1.1};
  double exact = 0, total = 0, squares = 0;
  for (std::size_t i = 0; i < 4; ++i) exact += x[i] * w[i];
  constexpr int kMasks = 10'000;
  for (int step = 0; step < kMasks; ++step) {
    t.clear();
    t.random = {3, static_cast<std::uint32_t>(step), 0, 0};
    const double y{seppo::sum(seppo::dropout(seppo::tensor({4}, reals(x)), 0.3) * seppo::tensor({4}, reals(w))).item()};
    total += y;
    squares += y * y;
  }
  const double mean = total / kMasks, deviation = std::sqrt(squares / kMasks - mean * mean);
  BOOST_CHECK_LT(std::abs(mean - exact), 5 * deviation / std::sqrt(kMasks));
  t.clear();
}

// erf rounds to 1 from 3.92 on, as the kernel for single precision promises, and never exceeds 1.
BOOST_AUTO_TEST_CASE(erf_is_at_most_one) {
  std::vector<real> values;
  for (int i = 0; i < 3000; ++i) values.push_back(static_cast<real>(3 + i * 0.001));
  const Tensor x = seppo::tensor({3000}, values), y = seppo::erf(x), mirrored = seppo::erf(-x);
  for (std::size_t i = 0; i < values.size(); ++i) {
    BOOST_CHECK_LE(y.values()[i], real{1});
    BOOST_CHECK_EQUAL(mirrored.values()[i], -y.values()[i]);
    if (!kIsDouble && values[i] >= static_cast<real>(3.92)) BOOST_CHECK_EQUAL(y.values()[i], real{1});
  }
}
