// The public gradient check must accept correct gradients and detect slightly wrong ones.
// needs: precision: double
#include <seppo/autograd/ops.h>
#include <seppo/nn/gradient_check.h>
#include <seppo/nn/modules/batch_norm.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using namespace seppo;
using Inputs = std::span<const Tensor>;

namespace {

// tanh whose gradient has a relative error of `fault` in one element only.
Tensor faulty_tanh(const Tensor& x, double fault) {
  Tensor y = tape().create(x.shape());
  for (std::size_t i = 0; i < x.numel(); ++i) y.data()[i] = std::tanh(x.data()[i]);
  record("op", y, {x}, [=] {
    for (std::size_t i = 0; i < x.numel(); ++i)
      grad_of(x)[i] += grad_of(y)[i] * (1 - y.data()[i] * y.data()[i]) * (i == 2 ? 1 + fault : 1);
  });
  return y;
}

}  // namespace

BOOST_AUTO_TEST_CASE(right_gradients_pass_with_second_order_error) {
  const std::vector<int> targets{1, 0, 3};
  const std::vector<std::pair<std::vector<Shape>, std::function<Tensor(Inputs)>>> cases = {
      {{{3, 4}}, [](Inputs x) { return seppo::tanh(x[0]); }},
      {{{3, 4}}, [](Inputs x) { return gelu(x[0]); }},
      {{{2, 3, 4}, {3, 1}}, [](Inputs x) { return x[0] * seppo::tanh(x[1]); }},
      {{{3, 7}, {7}, {7}}, [](Inputs x) { return layer_norm(x[0], x[1], x[2]); }},
      {{{2, 5, 8}, {2, 6, 8}, {2, 6, 8}}, [](Inputs x) { return attention(x[0], x[1], x[2], 2, {Mask::causal()}); }},
      {{{3, 4}}, [&](Inputs x) { return cross_entropy(x[0], targets, {.label_smoothing = 0.1}); }},
  };
  for (const auto& [shapes, op] : cases) {
    const auto report = shapes.size() == 1   ? gradient_check({shapes[0]}, op)
                        : shapes.size() == 2 ? gradient_check({shapes[0], shapes[1]}, op)
                                             : gradient_check({shapes[0], shapes[1], shapes[2]}, op);
    BOOST_CHECK_MESSAGE(report.passed, report.text);
    BOOST_CHECK_LT(report.error, 1e-9);
    BOOST_CHECK_GT(report.order, 1.9);
  }
}

BOOST_AUTO_TEST_CASE(linear_functions_pass_at_rounding_level) {
  const auto report = gradient_check({{3, 4}, {5, 4}}, [](Inputs x) {
    return linear(x[0], tensor({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));
  });
  BOOST_CHECK_MESSAGE(report.passed, report.text);
}

// A large constant in the loss adds rounding errors to the differences, so that the fall ends early.
BOOST_AUTO_TEST_CASE(right_gradients_pass_beside_large_constants) {
  for (double constant = 1e2; constant < 1e13; constant *= 10) {
    const auto report = gradient_check({{3}}, [&](Inputs x) { return x[0] * x[0] * x[0] + constant; });
    BOOST_CHECK_MESSAGE(report.passed, constant << "\n" << report.text);
  }
}

// The results of each row have a constant sum, so that a cotangent of ones would see no gradient to be missing.
BOOST_AUTO_TEST_CASE(missing_gradients_of_constant_sums_fail) {
  const std::vector<std::uint8_t> allowed{1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1};
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> ops{
      {"softmax", [](const Tensor& x) { return softmax(x); }},
      {"masked softmax", [&](const Tensor& x) { return softmax(x, Mask::allowed(allowed)); }},
      {"softmax of groups",
       [](const Tensor& x) {
         return index_softmax(x, 1, {0, 0, 0, 0});
       }},
      {"deviation from the mean", [](const Tensor& x) { return x - mean(x, 1, true); }},
      {"layer_norm", [](const Tensor& x) { return layer_norm(x, ones({4})); }},
      {"sine and cosine", [](const Tensor& x) {
         return concat({square(sin(x)), square(cos(x))}, 1);
       }}};
  for (const auto& [name, op] : ops) {
    const auto check = [&op = op](bool is_missing) {
      return gradient_check({{3, 4}}, [&](Inputs x) {
        return concat({is_missing ? detach(op(x[0])) : op(x[0]), x[0]}, 1);
      });
    };
    BOOST_CHECK_MESSAGE(check(false).passed, name << ": " << check(false).text);
    BOOST_CHECK_MESSAGE(!check(true).passed, name << ": " << check(true).text);
  }
}

// The error is below the tolerance, but differences that do not fall at all are not due to rounding.
BOOST_AUTO_TEST_CASE(wrong_gradients_of_linear_functions_fail_below_the_tolerance) {
  const auto doubled = [](const Tensor& x, double fault) {
    Tensor y = tape().create(x.shape());
    for (std::size_t i = 0; i < x.numel(); ++i) y.data()[i] = 2 * x.data()[i];
    record("op", y, {x}, [=] {
      for (std::size_t i = 0; i < x.numel(); ++i) grad_of(x)[i] += grad_of(y)[i] * 2 * (1 + fault);
    });
    return y;
  };
  BOOST_CHECK(gradient_check({{3}}, [&](Inputs x) { return doubled(x[0], 0); }).passed);
  const auto report = gradient_check({{3}}, [&](Inputs x) { return doubled(x[0], 3e-8); });
  BOOST_CHECK_MESSAGE(!report.passed && report.error < 1e-7, report.text);
}

// The derivative of x + c sign(x) |x|^p at 0 is 1; central differences deviate by c h^(p - 1). This either falls fast
// enough to pass as a kink, or so slowly that even below the tolerance it is no evidence of a correct gradient.
BOOST_AUTO_TEST_CASE(differences_have_to_fall) {
  const auto with_kink = [](const Tensor& x, double c, double power) {
    Tensor y = tape().create(x.shape());
    for (std::size_t i = 0; i < x.numel(); ++i) {
      const double v = x.data()[i];
      y.data()[i] = v + std::copysign(c * std::pow(std::abs(v), power), v);
    }
    record("op", y, {x}, [=] {
      for (std::size_t i = 0; i < x.numel(); ++i) grad_of(x)[i] += grad_of(y)[i];
    });
    return y;
  };
  for (const auto& [c, power, passes] : {std::tuple{1e-1, 2.0, true}, {1e-6, 1.5, true}, {1e-6, 1.2, false}}) {
    const auto report =
        gradient_check_at({zeros({3})}, [&, c = c, power = power](Inputs x) { return with_kink(x[0], c, power); });
    BOOST_CHECK_MESSAGE(report.passed == passes && report.error < 1e-7, power << ": " << report.text);
  }
}

// Provided that the fault itself is above rounding level.
BOOST_AUTO_TEST_CASE(wrong_gradients_fail_beside_large_constants) {
  for (const auto& [constant, fault] : {std::pair{1e2, 1e-5}, {1e4, 1e-5}, {1e6, 1e-3}, {1e8, 1e-1}}) {
    const auto report = gradient_check(
        {{4}}, [fault = fault, constant = constant](Inputs x) { return faulty_tanh(x[0], fault) + constant; });
    BOOST_CHECK_MESSAGE(!report.passed, constant << "\n" << report.text);
  }
}

BOOST_AUTO_TEST_CASE(vanishing_gradients) {
  const auto report = gradient_check({{5}}, [](Inputs x) { return seppo::exp(x[0]) / seppo::exp(x[0]); });
  BOOST_CHECK_MESSAGE(report.passed, report.text);
  // A gradient that vanishes on the tape but not in truth, and vice versa.
  BOOST_CHECK(
      !gradient_check({{1}}, [](Inputs x) { return scale(x[0], 0) + tensor({1}, {1e-3 * x[0].data()[0]}); }).passed);
  BOOST_CHECK(
      !gradient_check({{1}}, [](Inputs x) { return scale(x[0], 1e-3) - tensor({1}, {1e-3 * x[0].data()[0]}); }).passed);
}

BOOST_AUTO_TEST_CASE(wrong_gradients_fail_down_to_a_millionth) {
  BOOST_CHECK(gradient_check({{3, 4}}, [](Inputs x) { return faulty_tanh(x[0], 0); }).passed);
  for (const double fault : {2.0, 1e-1, 1e-3, 1e-5})
    BOOST_CHECK_MESSAGE(!gradient_check({{3, 4}}, [=](Inputs x) { return faulty_tanh(x[0], fault); }).passed,
                        "fault " << fault);
  // A value that changes with x but is not on the tape: the gradient misses a term.
  BOOST_CHECK(!gradient_check({{3}}, [](Inputs x) { return x[0] + tensor({1}, {x[0].data()[0]}); }).passed);
  // No gradient at all.
  BOOST_CHECK(!gradient_check({{3}}, [](Inputs x) {
                 return scale(x[0], 0) + tensor({3}, {x[0].data()[0], 0, 0});
               }).passed);
}

// Of one step alone, the error is h^2 / 6 of the third derivative.
BOOST_AUTO_TEST_CASE(the_first_step_and_the_tolerance_are_as_asked) {
  const auto check = [](const GradientCheckOptions& options) {
    return gradient_check(
        {{3, 4}}, [](Inputs x) { return seppo::exp(x[0]); }, options);
  };
  const double error = check({.directions = 1, .steps = 1}).error;
  for (const double factor : {0.5, 3.0, 10.0})
    BOOST_CHECK_CLOSE(check({.directions = 1, .first_step = 1e-2 * factor, .steps = 1}).error, error * factor * factor,
                      2);
  const GradientCheckReport usual = check({});
  BOOST_CHECK(usual.passed);
  BOOST_CHECK(check({.tolerance = 2 * usual.error}).passed);
  BOOST_CHECK(!check({.tolerance = usual.error / 2}).passed);
}

BOOST_AUTO_TEST_CASE(values_are_restored) {
  Parameters parameters(1);
  const Tensor x = parameters.root().parameter("x", {3}, init_normal(1));
  const std::vector<real> before(x.values().begin(), x.values().end());
  std::ranges::copy(std::vector<real>{1, 2, 3}, parameters.gradients().begin());
  tape().random.step = 7;
  BOOST_CHECK(gradient_check(parameters, [&] { return sum(seppo::exp(x)); }).passed);
  BOOST_CHECK(std::ranges::equal(x.values(), before));
  BOOST_CHECK(std::ranges::equal(parameters.gradients().first(3), std::vector<real>{1, 2, 3}));
  BOOST_CHECK_EQUAL(tape().random.step, 7);
}

// Different inputs get different values.
BOOST_AUTO_TEST_CASE(inputs_are_drawn_apart) {
  const auto report = gradient_check({{3}, {2, 3}, {3}}, [](Inputs x) {
    BOOST_CHECK_NE(x[0].values()[0], x[1].values()[0]);
    BOOST_CHECK_NE(x[1].values()[5], x[2].values()[2]);
    BOOST_CHECK(x[1].shape() == (Shape{2, 3}));
    return x[0] * x[1] + x[2];
  });
  BOOST_CHECK_MESSAGE(report.passed, report.text);
}

// The report names a wrong element, its gradient, and the correct value.
BOOST_AUTO_TEST_CASE(what_is_wrong_is_told) {
  const auto report = gradient_check({{5}}, [](Inputs x) { return faulty_tanh(x[0], 0.25); });
  const std::string title = "input 0, element 2: gradient ", middle = ", differences give ";
  const std::size_t begin = report.text.find(title), end = report.text.find(middle);
  BOOST_REQUIRE_MESSAGE(!report.passed && begin != std::string::npos && end != std::string::npos, report.text);
  const double told = std::stod(report.text.substr(begin + title.size())),
               right = std::stod(report.text.substr(end + middle.size()));
  BOOST_CHECK_CLOSE(told / right, 1.25, 1e-3);
}

// Directions are drawn independently of the input values.
BOOST_AUTO_TEST_CASE(directions_are_drawn_apart_from_inputs) {
  std::vector<std::vector<real>> seen;
  gradient_check({{5}},
                 [&](Inputs x) {
                   seen.emplace_back(x[0].values().begin(), x[0].values().end());
                   return x[0] * x[0];
                 },
                 {.directions = 1});
  BOOST_REQUIRE_GT(seen.size(), 2u);
  for (std::size_t i = 0; i < 5; ++i) {
    const double step = (seen[1][i] - seen[0][i]) / 1e-2;
    BOOST_CHECK_GT(std::abs(step), 1e-3);
    BOOST_CHECK_GT(std::abs(step - seen[0][i]), 1e-6);
  }
}

// log of values from N(0, 1) can be NaN: the report says so, and the caller can supply other inputs.
BOOST_AUTO_TEST_CASE(inputs_of_ones_own) {
  const auto op = [](Inputs x) { return seppo::log(x[0]) * x[1]; };
  const auto drawn = gradient_check({{3}, {3}}, op);
  BOOST_CHECK(!drawn.passed);
  BOOST_CHECK_NE(drawn.text.find("not finite: try other values"), std::string::npos);
  const auto given = gradient_check_at({tensor({3}, {0.5, 1, 2}), tensor({3}, {1, -1, 3})}, op);
  BOOST_CHECK_MESSAGE(given.passed, given.text);
  BOOST_CHECK(!gradient_check_at({tensor({3}, {1e-3, 1, 2})}, [](Inputs x) { return faulty_tanh(x[0], 1e-4); }).passed);
  Parameters parameters(1);
  const Tensor mine = parameters.root().parameter("mine", {3}, init_ones());
  BOOST_CHECK(gradient_check_at({mine}, [](Inputs x) { return seppo::exp(x[0]); }).passed);
  BOOST_CHECK(std::ranges::all_of(mine.grad(), [](real g) { return g == 0; }));  // only a copy receives them
}

namespace {

// sum(tanh(x W)), whose gradient with respect to W has a relative error of `fault` in one element.
Tensor faulty_product(const Tensor& x, const Tensor& w, std::size_t element, double fault) {
  Tensor y = matmul(x, w), wrong = tape().create({});
  *wrong.data() = 0;
  record("op", wrong, {w}, [=] {
    // As in matmul, dW = x^T dy, where dy is the gradient of the sum of tanh below.
    const std::size_t row = element / w.cols(), column = element % w.cols();
    double slope = 0;
    for (std::size_t i = 0; i < x.rows(); ++i) {
      const double t = std::tanh(y.data()[i * y.cols() + column]);
      slope += x.data()[i * x.cols() + row] * (1 - t * t);
    }
    grad_of(w)[element] += fault * slope;
  });
  return sum(seppo::tanh(y)) + wrong;
}

}  // namespace

// Buffers and frozen parameters are not checked, and everything is restored at the end.
BOOST_AUTO_TEST_CASE(buffers_and_frozen_parameters) {
  Parameters parameters(1);
  const Scope s = parameters.root();
  const Tensor w = s.parameter("w", {3, 4}, init_normal(1)), frozen = s.parameter("frozen", {4}, init_normal(1));
  const BatchNorm norm(s / "norm", 4, {.use_running_statistics = true});
  const BatchNorm moving(s / "moving", 4);
  parameters.freeze("frozen");
  std::ranges::fill(parameters.gradients(), 5);
  const std::vector<real> before(parameters.values().begin(), parameters.values().end());
  const auto report = gradient_check(parameters, [&] {
    const Tensor x = tensor({2, 3}, {1, -2, 3, 0.5, 1, -1});
    return sum(seppo::tanh(moving(norm(matmul(x, w)) * frozen)));
  });
  BOOST_CHECK_MESSAGE(report.passed, report.text);
  BOOST_CHECK_EQUAL(report.text.find("frozen"), std::string::npos);
  BOOST_CHECK_EQUAL(report.text.find("running"), std::string::npos);
  BOOST_CHECK_NE(report.text.find("norm.weight"), std::string::npos);
  BOOST_CHECK(std::ranges::equal(parameters.values(), before));
  BOOST_CHECK(std::ranges::all_of(parameters.gradients(), [](real g) { return g == 5; }));
}

// The wrong parameter and element are named, however large the model around them.
BOOST_AUTO_TEST_CASE(a_wrong_element_is_named) {
  for (const int size : {4, 32, 128}) {
    Parameters parameters(1);
    const Tensor other = parameters.root().parameter("other", {512, 256}, init_normal(0.05));
    const Tensor w = parameters.root().parameter("w", {size, size}, init_normal(0.3));
    RandomStream random(2, Purpose::test);
    std::vector<real> values(3 * static_cast<std::size_t>(size));
    for (real& v : values) v = random.normal();
    const auto element = static_cast<std::size_t>(size) + 1;
    const auto check = [&](double fault) {
      return gradient_check(parameters, [&] {
        return faulty_product(tensor({3, size}, values), w, element, fault) + scale(sum(square(other)), 1e-3);
      });
    };
    const auto right = check(0), wrong = check(1e-3);
    BOOST_CHECK_MESSAGE(right.passed, right.text);
    BOOST_CHECK_MESSAGE(!wrong.passed, wrong.text);
    BOOST_CHECK_NE(wrong.text.find("ok    other, "), std::string::npos);
    BOOST_CHECK_MESSAGE(wrong.text.find("w, element " + std::to_string(element) + ":") != std::string::npos,
                        wrong.text);
  }
}

// What checks nothing must not pass.
BOOST_AUTO_TEST_CASE(a_check_of_nothing_is_refused) {
  const auto check = [](const GradientCheckOptions& options) {
    return gradient_check(
        {Shape{3}}, [](Inputs x) { return faulty_tanh(x[0], 1); }, options);
  };
  BOOST_CHECK(!check({.directions = 1}).passed);
  for (const int none : {0, -1}) {
    BOOST_CHECK_THROW(check({.directions = none}), ArgumentError);
    BOOST_CHECK_THROW(check({.steps = none}), ArgumentError);
  }
}

// Near its end, only the smaller steps stay within the domain; they are enough to tell right from wrong.
BOOST_AUTO_TEST_CASE(large_steps_may_leave_the_domain) {
  const auto at = [] { return tensor({3}, {0.005, 2, 3}); };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto right = gradient_check_at({at()}, [](Inputs x) { return log(x[0]); }, {.seed = seed});
    BOOST_CHECK_MESSAGE(right.passed, right.text);
    const auto wrong =
        gradient_check_at({at()}, [](Inputs x) { return log(x[0]) + 1e-3 * detach(x[0]); }, {.seed = seed});
    BOOST_CHECK(!wrong.passed && std::isfinite(wrong.error) && wrong.error > 0);
  }
  const auto nowhere = gradient_check_at(
      {at()}, [first = true](Inputs x) mutable { return std::exchange(first, false) ? x[0] : log(x[0] - 9); }, {});
  BOOST_CHECK(!nowhere.passed && !(nowhere.error < 1));
}
