// check_op: the laws of ops, one function each.
#include "support/op_check.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/nn/gradient_check.h>
#include <seppo/nn/parameters.h>

#include <iostream>

namespace test {

namespace {

using Numbers = std::vector<double>;

// How many times check_op was called.
int case_count = 0;
struct ReportCases {
  ~ReportCases() { std::cout << "cases: " << case_count << "\n"; }
};
BOOST_TEST_GLOBAL_FIXTURE(ReportCases);

template <class T>
void check_all_close(std::span<const T> actual, const Numbers& expected, double tolerance, const std::string& what) {
  BOOST_REQUIRE_MESSAGE(actual.size() == expected.size(),
                        what << ": sizes " << actual.size() << " and " << expected.size());
  double largest = 0;
  for (const double e : expected) largest = std::max(largest, std::abs(e));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (static_cast<double>(actual[i]) == expected[i]) continue;  // infinities
    // Where terms cancel to zero, rounding leaves errors of 1e-14. In single precision, terms of order 1 leave an error
    // of their own magnitude in every sum.
    const double scale = kIsDouble ? std::max({std::abs(expected[i]), 1e-3 * largest, 1e-2})
                                   : std::max({std::abs(expected[i]), 0.1 * largest, 0.3});
    const double error = std::abs(static_cast<double>(actual[i]) - expected[i]);
    BOOST_CHECK_MESSAGE(error <= within(tolerance) * scale,
                        what << "[" << i << "]: " << actual[i] << ", expected " << expected[i]);
  }
}

Numbers multiplied(const Numbers& values, double factor) {
  Numbers result;
  for (const double v : values) result.push_back(v * factor);
  return result;
}

class OpCheck {
 public:
  OpCheck(const std::string& name, const std::vector<Shape>& shapes, const Op& op, const Reference& reference,
          const OpCheckOptions& options)
      : title_(name), shapes_(shapes), op_(op), reference_(reference), options_(options) {
    draw_inputs();
    expected_ = reference_(x_);
    for (std::size_t i = 0; i < expected_.v.size(); ++i) cotangent_.push_back(rounded(random_.normal()));
    for (std::size_t i = 0; i < shapes_.size(); ++i) gradients_.push_back(gradient_of(i, i));
  }

  std::size_t variables() const { return shapes_.size() - options_.constants; }
  void check_by_differences() const;
  void check_subset(std::uint32_t subset) const;
  void check_aliased(std::size_t i, std::size_t j);
  void check_eval_mode() const;

 private:
  void draw_inputs();
  double draw();
  Numbers gradient_of(std::size_t input, std::size_t same);
  std::vector<Numbers> run(std::uint32_t subset, const std::vector<Numbers>& cotangents) const;

  std::string title_;
  const std::vector<Shape>& shapes_;
  const Op& op_;
  const Reference& reference_;
  const OpCheckOptions& options_;
  seppo::RandomStream random_{options_.seed, seppo::Purpose::test};
  Arrays<double> x_;   // the inputs
  Arrays<Complex> z_;  // the same, for complex steps
  Nd<double> expected_;
  Numbers cotangent_;
  std::vector<Numbers> gradients_;  // of each input
};

double OpCheck::draw() {
  if (options_.low == options_.high) return random_.normal();
  return options_.low + (options_.high - options_.low) * random_.uniform();
}

void OpCheck::draw_inputs() {
  for (const Shape& shape : shapes_) {
    title_ += " " + shape.str();
    x_.emplace_back(sizes_of(shape));
    for (double& v : x_.back().v) v = rounded(draw());
    z_.emplace_back(sizes_of(shape));
    std::ranges::copy(x_.back().v, z_.back().v.begin());
  }
}

// Gradients by complex step: d/dx_i of cotangent . f(x) = Im(cotangent . f(x + i h e_i)) / h. Input `same` is moved
// along with `input`, for two inputs that are one tensor; pass `input` itself if there is no such pair.
Numbers OpCheck::gradient_of(std::size_t input, std::size_t same) {
  Numbers gradient;
  for (std::size_t element = 0; element < z_[input].v.size(); ++element) {
    const Complex kept = z_[input].v[element];
    z_[input].v[element] += Complex(0, 1e-30);
    z_[same].v[element] = z_[input].v[element];
    const Nd<Complex> y = reference_(z_);
    double g = 0;
    for (std::size_t j = 0; j < y.v.size(); ++j) g += cotangent_[j] * y.v[j].imag();
    gradient.push_back(g / 1e-30);
    z_[input].v[element] = kept;
    z_[same].v[element] = kept;
  }
  return gradient;
}

// Gradients by finite differences of cotangent . op(x) at x.
void OpCheck::check_by_differences() const {
#ifdef SEPPO_FLOAT64
  seppo::Parameters parameters(0);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < x_.size(); ++i) {
    const auto init = [&](std::span<double> values, const Shape&, seppo::RandomStream&) {
      std::ranges::copy(x_[i].v, values.begin());
    };
    const seppo::Scope root = parameters.root();
    inputs.push_back(i < variables() ? root.parameter("x" + std::to_string(i), shapes_[i], init)
                                     : root.constant(shapes_[i], init));
  }
  if (variables() == 0) return;
  const auto report = seppo::gradient_check(parameters, [&] {
    const Tensor y = op_(Inputs(inputs));
    return seppo::sum(seppo::mul(y, seppo::tensor(y.shape(), cotangent_)));
  });
  BOOST_CHECK_MESSAGE(report.passed, title_ << "\n" << report.text);
#endif
}

// One forward pass, then backward for each cotangent in turn; returns the gradients of the inputs in the subset.
std::vector<Numbers> OpCheck::run(std::uint32_t subset, const std::vector<Numbers>& cotangents) const {
  const std::string what = title_ + " subset " + std::to_string(subset);
  const auto is_in_subset = [&](std::size_t i) { return (subset >> i & 1) != 0; };
  seppo::Tape& tape = seppo::tape();
  tape.clear();
  soil(tape);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    const std::vector<real> values = reals(x_[i].v);
    inputs.push_back(is_in_subset(i) ? seppo::variable(shapes_[i], values) : seppo::tensor(shapes_[i], values));
  }
  const Tensor y = op_(Inputs(inputs));
  BOOST_CHECK_MESSAGE(sizes_of(y.shape()) == expected_.shape, what << ": shape " << y.shape().str());
  check_close(y.values(), expected_.v, options_.tolerance, what + " value");
  BOOST_CHECK_MESSAGE(y.requires_grad() == (subset != 0), what << ": requires_grad");
  std::vector<Numbers> gradients;
  if (subset == 0) return gradients;
  for (const Numbers& c : cotangents) tape.backward(y, reals(c));
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    BOOST_CHECK_MESSAGE(std::equal(x_[i].v.begin(), x_[i].v.end(), inputs[i].values().begin()),
                        what << ": input " << i << " changed");
    if (!is_in_subset(i)) continue;
    const auto g = inputs[i].grad();
    gradients.emplace_back(g.begin(), g.end());
  }
  return gradients;
}

// The value, and the gradients of the inputs that require them: bit i of the subset stands for input i.
void OpCheck::check_subset(std::uint32_t subset) const {
  const std::string what = title_ + " subset " + std::to_string(subset);
  const std::vector<Numbers> once = run(subset, {cotangent_});
  if (subset == 0) return;
  std::size_t k = 0;
  for (std::size_t i = 0; i < shapes_.size(); ++i)
    if (subset >> i & 1)
      check_close(once[k++], gradients_[i], options_.tolerance, what + " gradient " + std::to_string(i));
  BOOST_CHECK_MESSAGE(run(subset, {cotangent_}) == once, what << ": backward is not repeatable");
  const auto twice = run(subset, {cotangent_, cotangent_});
  const auto none = run(subset, {Numbers(cotangent_.size(), 0.0)});
  const auto times = run(subset, {multiplied(cotangent_, -2.5)});
  for (std::size_t i = 0; i < once.size(); ++i) {
    check_close(times[i], multiplied(once[i], -2.5), 4e-12, what + " linearity");
    check_close(twice[i], multiplied(once[i], 2), 1e-12, what + " accumulation");
    for (const double g : none[i]) BOOST_CHECK_MESSAGE(g == 0, what << ": zero cotangent");
  }
}

// Inputs i and j are one tensor.
void OpCheck::check_aliased(std::size_t i, std::size_t j) {
  const std::string what = title_ + " with inputs " + std::to_string(i) + " and " + std::to_string(j) + " the same";
  Arrays<double> same = x_;
  same[j] = same[i];
  const std::vector<Complex> kept = std::exchange(z_[j].v, z_[i].v);
  seppo::Tape& tape = seppo::tape();
  tape.clear();
  soil(tape);
  std::vector<Tensor> inputs;
  for (std::size_t k = 0; k < shapes_.size(); ++k)
    inputs.push_back(k == j ? inputs[i] : seppo::variable(shapes_[k], reals(same[k].v)));
  const Tensor y = op_(Inputs(inputs));
  check_close(y.values(), reference_(same).v, options_.tolerance, what + " value");
  tape.backward(y, reals(cotangent_));
  for (std::size_t k = 0; k < variables(); ++k)
    if (k != j)
      check_close(inputs[k].grad(), gradient_of(k, k == i ? j : k), 2 * options_.tolerance, what + " gradient");
  z_[j].v = kept;
}

void OpCheck::check_eval_mode() const {
  seppo::tape().clear();
  const seppo::UseMode eval(seppo::Mode::eval);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < shapes_.size(); ++i) inputs.push_back(seppo::variable(shapes_[i], reals(x_[i].v)));
  const Tensor y = op_(Inputs(inputs));
  check_close(y.values(), expected_.v, options_.tolerance, title_ + " value in eval mode");
  BOOST_CHECK_MESSAGE(!y.requires_grad(), title_ << ": recorded in eval mode");
}

}  // namespace

void check_close(std::span<const double> actual, const Numbers& expected, double tolerance, const std::string& what) {
  check_all_close(actual, expected, tolerance, what);
}

void check_close(std::span<const float> actual, const Numbers& expected, double tolerance, const std::string& what) {
  check_all_close(actual, expected, tolerance, what);
}

void soil(seppo::Tape& tape) {
  const seppo::TapeMark mark;
  const Tensor dirt = tape.create({1 << 14});
  std::fill_n(dirt.data(), dirt.numel(), std::numeric_limits<real>::quiet_NaN());
}

void check_op(const std::string& name, const std::vector<Shape>& shapes, const Op& op, const Reference& reference,
              const OpCheckOptions& options) {
  ++case_count;
  OpCheck check(name, shapes, op, reference, options);
  if (options.by_differences) check.check_by_differences();
  const std::size_t variables = check.variables();
  for (std::uint32_t subset = 0; subset < (1u << variables); ++subset) check.check_subset(subset);
  for (std::size_t i = 0; options.aliased && i < variables; ++i)
    for (std::size_t j = i + 1; j < variables; ++j)
      if (shapes[i] == shapes[j]) check.check_aliased(i, j);
  seppo::tape().clear();
  if (options.in_eval_mode) check.check_eval_mode();
  seppo::tape().clear();
}

}  // namespace test
