// Rows of elementwise ops. Formulas hold for every number: at kinks they have the documented slope, and NaN propagates.
#include "support/ops/rows.h"
#include "support/random_shapes.h"
#include "support/reference.h"

#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace test {

namespace {

namespace ref = test::reference;

constexpr OpCheckOptions kPositive{.low = 0.5, .high = 2};

const std::vector<Shape>& shapes_of_one() {
  static const std::vector<Shape> shapes = [] {
    std::vector<Shape> all{{}, {1}, {0}, {7}, {3, 4}, {2, 0, 3}, {2, 3, 5}, {2, 1, 3, 9}, {33}};
    seppo::RandomStream random(17, seppo::Purpose::test);
    for (int i = 0; i < 20; ++i) all.push_back(random_shape(random, 4));
    return all;
  }();
  return shapes;
}

const std::vector<Shape> kShapesOfTwo{{},     {1},       {5},    {3, 4}, {3, 1},      {2, 3, 4},
                                      {0, 3}, {1, 3, 1}, {2, 0}, {17},   {2, 1, 3, 1}};

const Shape kWide{70, 1000};

// An op on each element: f is its formula.
template <class F>
OpRow unary(const std::string& name, const std::function<Tensor(const Tensor&)>& op, const F& f,
            const std::string& torch, const OpCheckOptions& options = {}) {
  const OpCase call{.op = [op](Inputs x) { return op(x[0]); },
                    .reference = [f](const auto& x) { return ref::map(x[0], f); },
                    .torch = torch,
                    .options = options};
  return {.name = name,
          .draw =
              [call](Draw& d) {
                d.input(shapes_of_one());
                return call;
              },
          .large = {kWide}};
}

// An op on each pair of elements, with broadcasting.
template <class F>
OpRow binary(const std::string& name, const std::function<Tensor(const Tensor&, const Tensor&)>& op, const F& f,
             const std::string& torch, const OpCheckOptions& options = {}) {
  const OpCase call{.op = [op](Inputs x) { return op(x[0], x[1]); },
                    .reference = [f](const auto& x) { return ref::zip(x[0], x[1], f); },
                    .torch = torch,
                    .options = options};
  return {.name = name,
          .draw =
              [call](Draw& d) {
                const Shape a = d.input(kShapesOfTwo), b = d.operand(a);
                OpCase c = call;
                c.fits = broadcast(a, b);
                return c;
              },
          .large = {kWide, {1000}}};
}

// Their formulas are promised for all inputs that are finite, or for all.
OpRow if_finite(OpRow row) {
  row.range = Range::finite;
  return row;
}
OpRow everywhere(OpRow row) {
  row.range = Range::all;
  return row;
}

// f(x) with the slope there, where a formula would lose digits or is not differentiable.
inline double with_slope(double, double value, double) { return value; }
inline Complex with_slope(const Complex& x, double value, double slope) { return {value, slope * x.imag()}; }

double sigmoid_of(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

template <class T>
T elu_of(const T& x, double alpha) {
  const double at = real_part(x);
  return at > 0 ? x : with_slope(x, alpha * std::expm1(at), alpha * std::exp(at));
}

std::vector<OpRow> activations() {
  return {
      everywhere(unary(
          "relu", seppo::relu, [](auto x) { return real_part(x) <= 0 ? decltype(x)(0) : x; }, "torch.relu(x[0])")),
      if_finite(unary(
          "gelu", seppo::gelu, [](auto x) { return 0.5 * x * (1.0 + ref::erf(x / std::sqrt(2.0))); }, "F.gelu(x[0])")),
      if_finite(unary(
          "gelu_tanh", seppo::gelu_tanh,
          [](auto x) {
            const auto inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
            return 0.5 * x * (1.0 + std::tanh(inner));
          },
          "F.gelu(x[0], approximate='tanh')")),
      if_finite(unary(
          "silu", seppo::silu, [](auto x) { return x / (1.0 + std::exp(-x)); }, "F.silu(x[0])")),
      everywhere(unary(
          "elu", [](const Tensor& x) { return seppo::elu(x); }, [](auto x) { return elu_of(x, 1); }, "F.elu(x[0])")),
      everywhere(unary(
          "elu with alpha", [](const Tensor& x) { return seppo::elu(x, static_cast<real>(0.3)); },
          [](auto x) { return elu_of(x, 0.3); }, "F.elu(x[0], 0.3)")),
      everywhere(unary(
          "sigmoid", seppo::sigmoid,
          [](auto x) {
            const double y = sigmoid_of(real_part(x));
            return with_slope(x, y, y * sigmoid_of(-real_part(x)));
          },
          "torch.sigmoid(x[0])")),
      if_finite(unary(
          "softplus", seppo::softplus,
          [](auto x) { return real_part(x) > 0 ? x + std::log(1.0 + std::exp(-x)) : std::log(1.0 + std::exp(x)); },
          "F.softplus(x[0])")),
      everywhere(unary(
          "tanh", [](const Tensor& x) { return seppo::tanh(x); }, [](auto x) { return std::tanh(x); },
          "torch.tanh(x[0])")),
  };
}

std::vector<OpRow> functions() {
  return {
      everywhere(unary(
          "exp", [](const Tensor& x) { return seppo::exp(x); }, [](auto x) { return std::exp(x); }, "torch.exp(x[0])")),
      everywhere(unary(
          "expm1", [](const Tensor& x) { return seppo::expm1(x); },
          [](auto x) { return with_slope(x, std::expm1(real_part(x)), std::exp(real_part(x))); }, "torch.expm1(x[0])")),
      everywhere(unary(
          "log", [](const Tensor& x) { return seppo::log(x); }, [](auto x) { return std::log(x); }, "torch.log(x[0])",
          kPositive)),
      everywhere(unary(
          "log1p", [](const Tensor& x) { return seppo::log1p(x); },
          [](auto x) { return with_slope(x, std::log1p(real_part(x)), 1 / (1 + real_part(x))); }, "torch.log1p(x[0])",
          kPositive)),
      everywhere(unary(
          "sqrt", [](const Tensor& x) { return seppo::sqrt(x); },
          [](auto x) { return with_slope(x, std::sqrt(real_part(x)), 0.5 / std::sqrt(real_part(x))); },
          "torch.sqrt(x[0])", kPositive)),
      everywhere(unary(
          "rsqrt", seppo::rsqrt, [](auto x) { return 1.0 / std::sqrt(x); }, "torch.rsqrt(x[0])", kPositive)),
      everywhere(unary(
          "erf", [](const Tensor& x) { return seppo::erf(x); }, [](auto x) { return ref::erf(x); }, "torch.erf(x[0])")),
      unary(
          "sin", [](const Tensor& x) { return seppo::sin(x); }, [](auto x) { return std::sin(x); }, "torch.sin(x[0])"),
      unary(
          "cos", [](const Tensor& x) { return seppo::cos(x); }, [](auto x) { return std::cos(x); }, "torch.cos(x[0])"),
      everywhere(unary(
          "neg", seppo::neg, [](auto x) { return -x; }, "-x[0]")),
      everywhere(unary(
          "abs", [](const Tensor& x) { return seppo::abs(x); },
          [](auto x) {
            const double at = real_part(x);
            return with_slope(x, std::abs(at), at > 0 ? 1 : at < 0 ? -1 : 0);
          },
          "torch.abs(x[0])")),
      everywhere(unary(
          "square", seppo::square, [](auto x) { return x * x; }, "torch.square(x[0])")),
  };
}

// Steps: their slope is 0.
std::vector<OpRow> steps() {
  const auto step = [](const std::string& name, Tensor (*op)(const Tensor&), double (*f)(double)) {
    return everywhere(unary(
        name, [op](const Tensor& x) { return op(seppo::scale(x, 3)); },
        [f](auto x) { return decltype(x)(f(3 * real_part(x))); }, "torch." + name + "(3 * x[0])",
        {.by_differences = false}));
  };
  return {
      step("floor", seppo::floor, std::floor),
      step("trunc", seppo::trunc, std::trunc),
      step("round", seppo::round, std::nearbyint),
      everywhere(unary("detach", seppo::detach, [](auto x) { return decltype(x)(real_part(x)); }, "x[0].detach()",
                       {.constants = 1})),
      {.name = "dropout of everything",
       .draw =
           [](Draw& d) {
             d.input(shapes_of_one());
             const double p = d.number({1});
             return OpCase{.op = [=](Inputs x) { return seppo::dropout(x[0], p); },
                           .reference = [](const auto& x) { return ref::map(x[0], [](auto e) { return 0.0 * e; }); },
                           .fits = p >= 0 && p <= 1,
                           .torch = "0 * x[0]",
                           .options = {.in_eval_mode = false}};
           },
       .large = {kWide},
       .range = Range::finite},
  };
}

// Formulas with a number beside the tensor.
std::vector<OpRow> with_numbers() {
  return {
      {.name = "scale",
       .draw =
           [](Draw& d) {
             d.input(shapes_of_one());
             const double factor = d.number({-1.5, 0, 3});
             return OpCase{
                 .op = [=](Inputs x) { return seppo::scale(x[0], static_cast<real>(factor)); },
                 .reference = [=](const auto& x) { return ref::map(x[0], [=](auto e) { return factor * e; }); },
                 .torch = text(factor) + " * x[0]"};
           },
       .large = {kWide},
       .range = Range::all},
      {.name = "clamp",
       .draw =
           [](Draw& d) {
             d.input(shapes_of_one());
             const double low = d.number({-0.5, 1}), high = d.number({0.75, -0.5});
             const auto clamped = [=](auto x) {
               const double at = real_part(x);
               if (std::isnan(at)) return x;
               return with_slope(x, std::min(std::max(at, low), high), at >= low && at <= high ? 1 : 0);
             };
             return OpCase{
                 .op = [=](Inputs x) { return seppo::clamp(x[0], static_cast<real>(low), static_cast<real>(high)); },
                 .reference = [=](const auto& x) { return ref::map(x[0], clamped); },
                 .fits = !std::isnan(low) && !std::isnan(high),
                 .torch = "torch.clamp(x[0], " + text(low) + ", " + text(high) + ")"};
           },
       .large = {kWide},
       .range = Range::all},
      {.name = "pow of a number",
       .draw =
           [](Draw& d) {
             d.input(shapes_of_one());
             const double exponent = d.number({0, 1, 2, 3, -1.5, 0.5, -2});
             const auto power = [=](auto x) {
               const double at = real_part(x);
               return with_slope(x, std::pow(at, exponent), exponent == 0 ? 0 : exponent * std::pow(at, exponent - 1));
             };
             return OpCase{.op = [=](Inputs x) { return seppo::pow(x[0], static_cast<real>(exponent)); },
                           .reference = [=](const auto& x) { return ref::map(x[0], power); },
                           .torch = "x[0] ** " + text(exponent),
                           .options = kPositive};
           },
       .large = {kWide},
       .range = Range::all},
  };
}

// The larger of two numbers, for sign 1, or the smaller, for -1; halfway between where they are equal.
template <class T>
T extreme(const T& a, const T& b, double sign) {
  const double x = real_part(a), y = real_part(b);
  if (std::isnan(x) || std::isnan(y)) return T(std::numeric_limits<double>::quiet_NaN());
  if (x == y) return (a + b) / 2.0;
  return sign * x > sign * y ? a : b;
}

std::vector<OpRow> pairs() {
  return {
      everywhere(binary(
          "add", [](const Tensor& a, const Tensor& b) { return a + b; }, [](auto a, auto b) { return a + b; },
          "x[0] + x[1]")),
      everywhere(binary(
          "sub", [](const Tensor& a, const Tensor& b) { return a - b; }, [](auto a, auto b) { return a - b; },
          "x[0] - x[1]")),
      everywhere(binary(
          "mul", [](const Tensor& a, const Tensor& b) { return a * b; }, [](auto a, auto b) { return a * b; },
          "x[0] * x[1]")),
      everywhere(binary(
          "div", [](const Tensor& a, const Tensor& b) { return a / b; }, [](auto a, auto b) { return a / b; },
          "x[0] / x[1]", kPositive)),
      binary(
          "pow", [](const Tensor& a, const Tensor& b) { return seppo::pow(a, b); },
          [](auto a, auto b) { return std::exp(b * std::log(a)); }, "x[0] ** x[1]", kPositive),
      everywhere(binary(
          "maximum", [](const Tensor& a, const Tensor& b) { return seppo::maximum(a, b); },
          [](auto a, auto b) { return extreme(a, b, 1); }, "torch.maximum(x[0], x[1])")),
      everywhere(binary(
          "minimum", [](const Tensor& a, const Tensor& b) { return seppo::minimum(a, b); },
          [](auto a, auto b) { return extreme(a, b, -1); }, "torch.minimum(x[0], x[1])")),
  };
}

std::vector<OpRow> comparisons() {
  using Compare = Tensor(const seppo::Operand&, const seppo::Operand&);
  const auto comparison = [](const std::string& name, Compare* op, bool (*holds)(double, double)) {
    return everywhere(binary(
        name, [op](const Tensor& a, const Tensor& b) { return op(a, b); },
        [holds](auto a, auto b) { return decltype(a)(holds(real_part(a), real_part(b)) ? 1 : 0); },
        "torch." + name + "(x[0], x[1]).double()", {.by_differences = false, .constants = 2}));
  };
  return {
      comparison("gt", seppo::gt, [](double a, double b) { return a > b; }),
      comparison("ge", seppo::ge, [](double a, double b) { return a >= b; }),
      comparison("lt", seppo::lt, [](double a, double b) { return a < b; }),
      comparison("le", seppo::le, [](double a, double b) { return a <= b; }),
      comparison("eq", seppo::eq, [](double a, double b) { return a == b; }),
      comparison("ne", seppo::ne, [](double a, double b) { return a != b; }),
  };
}

// a where the condition is at least 0, else b: all three broadcast to the shape of the result.
template <class T>
Nd<T> chosen(const Nd<T>& a, const Nd<T>& b, const Nd<T>& condition) {
  const auto first = [](const T& x, const T&) { return x; };
  const Nd<T> frame = ref::zip(ref::zip(a, b, first), condition, first);
  const Nd<T> left = ref::zip(a, frame, first), right = ref::zip(b, frame, first),
              c = ref::zip(condition, frame, first);
  Nd<T> y = left;
  for (std::size_t i = 0; i < y.v.size(); ++i)
    if (!(real_part(c.v[i]) >= 0)) y.v[i] = right.v[i];
  return y;
}

std::vector<OpRow> choices() {
  return {
      {.name = "where",
       .draw =
           [](Draw& d) {
             const Shape a = d.input(kShapesOfTwo), b = d.operand(a);
             const Shape condition = d.input_like(d.one_of<Shape>({a, {a.cols()}, {}}));
             return OpCase{.op = [](Inputs x) { return seppo::where(seppo::ge(x[2], 0.0), x[0], x[1]); },
                           .reference = [](const auto& x) { return chosen(x[0], x[1], x[2]); },
                           .fits = broadcast(a, b) && broadcast(a, condition) && broadcast(b, condition),
                           .torch = "torch.where(x[2] >= 0, x[0], x[1])",
                           .options = {.constants = 1}};
           },
       .large = {kWide, {1000}, {70, 1}},
       .range = Range::all},
      {.name = "masked_fill",
       .draw =
           [](Draw& d) {
             const Shape x = d.input(kShapesOfTwo), mask = d.operand(x);
             bool fits = mask.rank() <= x.rank();
             for (int i = 1; fits && i <= mask.rank(); ++i) fits = mask[-i] == x[-i] || mask[-i] == 1;
             return OpCase{.op = [](Inputs in) { return seppo::masked_fill(in[0], seppo::ge(in[1], 0.0), -7); },
                           .reference =
                               [](const auto& in) {
                                 const auto fill = [](const auto& e, const auto& m) {
                                   return real_part(m) >= 0 ? std::decay_t<decltype(e)>(-7) : e;
                                 };
                                 return ref::zip(in[0], in[1], fill);
                               },
                           .fits = fits,
                           .torch = "x[0].masked_fill(x[1] >= 0, -7)",
                           .options = {.constants = 1}};
           },
       .large = {kWide, {1000}},
       .range = Range::all},
  };
}

}  // namespace

std::vector<OpRow> elementwise_rows() {
  return joined({activations(), functions(), steps(), with_numbers(), pairs(), comparisons(), choices()});
}

}  // namespace test
