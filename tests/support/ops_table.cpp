// The rows of the table of ops.
#include "support/ops_table.h"

#include "support/random_shapes.h"
#include "support/reference.h"

#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>

#include <cmath>
#include <numbers>

namespace test {

namespace {

namespace ref = test::reference;
using Shapes = std::vector<std::vector<Shape>>;

constexpr OpCheckOptions kPositive{.low = 0.5, .high = 2};

Shapes shapes_of_one() {
  Shapes all{{{}}, {{1}}, {{0}}, {{7}}, {{3, 4}}, {{2, 0, 3}}, {{2, 3, 5}}, {{2, 1, 3, 9}}, {{33}}};
  seppo::RandomStream random(17, seppo::Purpose::test);
  for (int i = 0; i < 20; ++i) all.push_back({random_shape(random, 4)});
  return all;
}

Shapes shapes_of_two() {
  Shapes all{{{}, {}},
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
  seppo::RandomStream random(18, seppo::Purpose::test);
  for (int i = 0; i < 60; ++i) {
    const Shape shape = random_shape(random, 4);
    all.push_back({random_operand(random, shape), random_operand(random, shape)});
  }
  return all;
}

const Shape kWide{70, 1000};

// An op on each element: f is its formula.
template <class F>
OpRow unary(const std::string& name, const std::function<Tensor(const Tensor&)>& op, const F& f,
            const std::string& torch, const OpCheckOptions& options = {}) {
  return {.name = name,
          .op = [op](Inputs x) { return op(x[0]); },
          .reference = [f](const auto& x) { return ref::map(x[0], f); },
          .shapes = shapes_of_one(),
          .large = {kWide},
          .torch = torch,
          .options = options};
}

// An op on each pair of elements, with broadcasting.
template <class F>
OpRow binary(const std::string& name, const std::function<Tensor(const Tensor&, const Tensor&)>& op, const F& f,
             const std::string& torch, const OpCheckOptions& options = {}) {
  return {.name = name,
          .op = [op](Inputs x) { return op(x[0], x[1]); },
          .reference = [f](const auto& x) { return ref::zip(x[0], x[1], f); },
          .shapes = shapes_of_two(),
          .large = {kWide, {1000}},
          .torch = torch,
          .options = options};
}

std::vector<OpRow> activations() {
  return {
      unary(
          "relu", seppo::relu, [](auto x) { return real_part(x) > 0 ? x : decltype(x)(0); }, "torch.relu(x[0])"),
      unary(
          "gelu", seppo::gelu, [](auto x) { return 0.5 * x * (1.0 + ref::erf(x / std::sqrt(2.0))); }, "F.gelu(x[0])"),
      unary(
          "gelu_tanh", seppo::gelu_tanh,
          [](auto x) {
            const auto inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
            return 0.5 * x * (1.0 + std::tanh(inner));
          },
          "F.gelu(x[0], approximate='tanh')"),
      unary(
          "silu", seppo::silu, [](auto x) { return x / (1.0 + std::exp(-x)); }, "F.silu(x[0])"),
      unary(
          "elu", [](const Tensor& x) { return seppo::elu(x); },
          [](auto x) { return real_part(x) > 0 ? x : std::exp(x) - 1.0; }, "F.elu(x[0])"),
      unary(
          "elu with alpha", [](const Tensor& x) { return seppo::elu(x, static_cast<real>(0.3)); },
          [](auto x) { return real_part(x) > 0 ? x : 0.3 * (std::exp(x) - 1.0); }, "F.elu(x[0], 0.3)"),
      unary(
          "sigmoid", seppo::sigmoid, [](auto x) { return 1.0 / (1.0 + std::exp(-x)); }, "torch.sigmoid(x[0])"),
      unary(
          "softplus", seppo::softplus, [](auto x) { return std::log(1.0 + std::exp(x)); }, "F.softplus(x[0])"),
      unary(
          "tanh", [](const Tensor& x) { return seppo::tanh(x); }, [](auto x) { return std::tanh(x); },
          "torch.tanh(x[0])"),
  };
}

std::vector<OpRow> functions() {
  return {
      unary(
          "exp", [](const Tensor& x) { return seppo::exp(x); }, [](auto x) { return std::exp(x); }, "torch.exp(x[0])"),
      unary(
          "expm1", [](const Tensor& x) { return seppo::expm1(x); }, [](auto x) { return std::exp(x) - 1.0; },
          "torch.expm1(x[0])"),
      unary(
          "log", [](const Tensor& x) { return seppo::log(x); }, [](auto x) { return std::log(x); }, "torch.log(x[0])",
          kPositive),
      unary(
          "log1p", [](const Tensor& x) { return seppo::log1p(x); }, [](auto x) { return std::log(1.0 + x); },
          "torch.log1p(x[0])", kPositive),
      unary(
          "sqrt", [](const Tensor& x) { return seppo::sqrt(x); }, [](auto x) { return std::sqrt(x); },
          "torch.sqrt(x[0])", kPositive),
      unary(
          "rsqrt", seppo::rsqrt, [](auto x) { return 1.0 / std::sqrt(x); }, "torch.rsqrt(x[0])", kPositive),
      unary(
          "erf", [](const Tensor& x) { return seppo::erf(x); }, [](auto x) { return ref::erf(x); }, "torch.erf(x[0])"),
      unary(
          "sin", [](const Tensor& x) { return seppo::sin(x); }, [](auto x) { return std::sin(x); }, "torch.sin(x[0])"),
      unary(
          "cos", [](const Tensor& x) { return seppo::cos(x); }, [](auto x) { return std::cos(x); }, "torch.cos(x[0])"),
      unary(
          "neg", seppo::neg, [](auto x) { return -x; }, "-x[0]"),
      unary(
          "abs", [](const Tensor& x) { return seppo::abs(x); }, [](auto x) { return real_part(x) < 0 ? -x : x; },
          "torch.abs(x[0])"),
      unary(
          "square", seppo::square, [](auto x) { return x * x; }, "torch.square(x[0])"),
      unary(
          "scale", [](const Tensor& x) { return seppo::scale(x, static_cast<real>(-1.7)); },
          [](auto x) { return -1.7 * x; }, "-1.7 * x[0]"),
      unary(
          "clamp", [](const Tensor& x) { return seppo::clamp(x, real{-0.5}, static_cast<real>(0.7)); },
          [](auto x) {
            using T = decltype(x);
            if (real_part(x) < -0.5) return T(-0.5);
            return real_part(x) > 0.7 ? T(0.7) : x;
          },
          "torch.clamp(x[0], -0.5, 0.7)"),
      unary(
          "third power", [](const Tensor& x) { return seppo::pow(x, 3); }, [](auto x) { return x * x * x; },
          "x[0] ** 3"),
  };
}

std::vector<OpRow> pairs() {
  return {
      binary(
          "add", [](const Tensor& a, const Tensor& b) { return a + b; }, [](auto a, auto b) { return a + b; },
          "x[0] + x[1]"),
      binary(
          "sub", [](const Tensor& a, const Tensor& b) { return a - b; }, [](auto a, auto b) { return a - b; },
          "x[0] - x[1]"),
      binary(
          "mul", [](const Tensor& a, const Tensor& b) { return a * b; }, [](auto a, auto b) { return a * b; },
          "x[0] * x[1]"),
      binary(
          "div", [](const Tensor& a, const Tensor& b) { return a / b; }, [](auto a, auto b) { return a / b; },
          "x[0] / x[1]", kPositive),
      binary(
          "pow", [](const Tensor& a, const Tensor& b) { return seppo::pow(a, b); },
          [](auto a, auto b) { return std::exp(b * std::log(a)); }, "x[0] ** x[1]", kPositive),
      binary(
          "maximum", [](const Tensor& a, const Tensor& b) { return seppo::maximum(a, b); },
          [](auto a, auto b) { return real_part(a) > real_part(b) ? a : b; }, "torch.maximum(x[0], x[1])"),
      binary(
          "minimum", [](const Tensor& a, const Tensor& b) { return seppo::minimum(a, b); },
          [](auto a, auto b) { return real_part(a) < real_part(b) ? a : b; }, "torch.minimum(x[0], x[1])"),
      binary(
          "where", [](const Tensor& a, const Tensor& b) { return seppo::where(seppo::gt(a + b, 0.1), a, b); },
          [](auto a, auto b) { return real_part(a + b) > 0.1 ? a : b; }, "torch.where(x[0] + x[1] > 0.1, x[0], x[1])"),
  };
}

}  // namespace

const std::vector<OpRow>& ops_table() {
  static const std::vector<OpRow> table = [] {
    std::vector<OpRow> all = activations();
    for (const auto& more : {functions(), pairs()}) all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return table;
}

}  // namespace test
