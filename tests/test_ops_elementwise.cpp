#define BOOST_TEST_MODULE ops_elementwise
#include "support/op_check.h"
#include "support/reference.h"

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
}

const std::vector<std::vector<Shape>> kBinaryShapes = {{{}, {}},
                                                       {{1}, {}},
                                                       {{5}, {5}},
                                                       {{3, 4}, {3, 4}},
                                                       {{3, 4}, {4}},
                                                       {{4}, {3, 4}},
                                                       {{3, 4}, {1}},
                                                       {{3, 1}, {1, 4}},
                                                       {{3, 1}, {3, 4}},
                                                       {{2, 3, 4}, {3, 4}},
                                                       {{2, 3, 4}, {2, 1, 4}},
                                                       {{2, 3, 4}, {2, 3, 1}},
                                                       {{1, 3, 1}, {2, 1, 4}},
                                                       {{2, 1, 3, 1}, {1, 4, 1, 5}},
                                                       {{2, 3, 4, 5}, {}},
                                                       {{0, 3}, {3}},
                                                       {{0, 3}, {1, 3}},
                                                       {{2, 0}, {2, 1}},
                                                       {{17}, {2, 17}}};

template <class Op, class F>
void check_binary(const std::string& name, const Op& op, const F& f, OpCheckOptions options = {}) {
  for (const auto& shapes : kBinaryShapes)
    check_op(
        name, shapes, [&](Inputs x) { return op(x[0], x[1]); }, [&](const auto& x) { return ref::zip(x[0], x[1], f); },
        options);
  // the same tensor on both sides
  for (const auto& shapes : kUnaryShapes)
    check_op(
        name + " aliased", shapes, [&](Inputs x) { return op(x[0], x[0]); },
        [&](const auto& x) { return ref::zip(x[0], x[0], f); }, options);
}

constexpr OpCheckOptions kPositive{.low = 0.5, .high = 2};

}  // namespace

BOOST_AUTO_TEST_CASE(op_relu) {
  check_unary("relu", seppo::relu, [](auto x) { return real_part(x) > 0 ? x : decltype(x)(0); });
}
BOOST_AUTO_TEST_CASE(op_gelu) {
  check_unary("gelu", seppo::gelu, [](auto x) { return 0.5 * x * (1.0 + ref::erf(x / std::sqrt(2.0))); });
}
BOOST_AUTO_TEST_CASE(op_tanh) {
  check_unary(
      "tanh", [](const Tensor& x) { return seppo::tanh(x); }, [](auto x) { return std::tanh(x); });
}
BOOST_AUTO_TEST_CASE(op_sigmoid) {
  check_unary("sigmoid", seppo::sigmoid, [](auto x) { return 1.0 / (1.0 + std::exp(-x)); });
}
BOOST_AUTO_TEST_CASE(op_exp) {
  check_unary(
      "exp", [](const Tensor& x) { return seppo::exp(x); }, [](auto x) { return std::exp(x); });
}
BOOST_AUTO_TEST_CASE(op_log) {
  check_unary(
      "log", [](const Tensor& x) { return seppo::log(x); }, [](auto x) { return std::log(x); }, kPositive);
}
BOOST_AUTO_TEST_CASE(op_scale) {
  check_unary(
      "scale", [](const Tensor& x) { return seppo::scale(x, -1.7); }, [](auto x) { return -1.7 * x; });
}
BOOST_AUTO_TEST_CASE(op_add) {
  check_binary("add", seppo::add, [](auto a, auto b) { return a + b; });
}
BOOST_AUTO_TEST_CASE(op_sub) {
  check_binary("sub", seppo::sub, [](auto a, auto b) { return a - b; });
}
BOOST_AUTO_TEST_CASE(op_mul) {
  check_binary("mul", seppo::mul, [](auto a, auto b) { return a * b; });
}
BOOST_AUTO_TEST_CASE(op_div) {
  check_binary(
      "div", seppo::div, [](auto a, auto b) { return a / b; }, kPositive);
}

BOOST_AUTO_TEST_CASE(kinks_have_the_documented_gradient) {
  seppo::tape().clear();
  const Tensor x = seppo::variable({3}, std::vector<double>{-0.0, 0.0, 1e-300});
  seppo::tape().backward(seppo::relu(x), std::vector<double>{3, 5, 7});
  BOOST_CHECK(x.gradient()[0] == 0 && x.gradient()[1] == 0 && x.gradient()[2] == 7);
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
    const std::vector<double> ones(1000, 1.0);
    const Tensor x = seppo::variable({1000}, ones);
    const Tensor y = seppo::dropout(x, p);
    std::vector<double> cotangent;
    seppo::RandomStream random(1, seppo::Purpose::test);
    for (int i = 0; i < 1000; ++i) cotangent.push_back(random.normal());
    t.backward(y, cotangent);
    for (std::size_t i = 0; i < 1000; ++i) {
      BOOST_CHECK(y.values()[i] == 0 || std::abs(y.values()[i] - 1 / (1 - p)) < 1e-12);
      BOOST_CHECK_SMALL(x.gradient()[i] - cotangent[i] * y.values()[i], 1e-12);
    }
    if (p == 1) BOOST_CHECK(std::all_of(y.values().begin(), y.values().end(), [](double v) { return v == 0; }));
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
    const double y = seppo::sum(seppo::dropout(seppo::tensor({4}, x), 0.3) * seppo::tensor({4}, w)).item();
    total += y;
    squares += y * y;
  }
  const double mean = total / kMasks, deviation = std::sqrt(squares / kMasks - mean * mean);
  BOOST_CHECK_LT(std::abs(mean - exact), 5 * deviation / std::sqrt(kMasks));
  t.clear();
}
