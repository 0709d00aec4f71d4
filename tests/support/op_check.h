// check_op: checks everything that must hold for an op, on random inputs, in the precision of the library it links to.
//
// - values agree with the naive reference, computed in double precision, to 1e-12 or, in single precision, to a few
//   units in the last place of the largest value;
// - for every non-empty subset of inputs that require gradients and a random cotangent, gradients agree
//   with the complex step of the reference to 1e-12 max(|g|, 1e-3 max |g|), or as above;
// - backward is bit-for-bit repeatable, accumulates, is linear in the cotangent, gives exact zeros
//   for a zero cotangent, and leaves the inputs unchanged;
// - if two inputs are the same tensor, it gets the sum of their gradients;
// - the public gradient_check passes, in double precision: the error of finite differences falls at the right rate;
// - nothing is recorded in eval mode.
#pragma once

#include "nd.h"

#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/gradient_check.h>
#include <seppo/nn/parameters.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace test {

using seppo::real;
using seppo::Shape;
using seppo::Tensor;
constexpr bool kIsDouble = sizeof(real) == sizeof(double);
using Inputs = std::span<const Tensor>;

template <class T>
using Arrays = std::vector<Nd<T>>;

// Values converted to `real`, and a value rounded to `real`'s precision.
template <class Numbers>
std::vector<real> reals(const Numbers& values) {
  std::vector<real> result;
  for (const auto v : values) result.push_back(static_cast<real>(v));
  return result;
}
inline double rounded(double value) { return double{static_cast<real>(value)}; }

inline std::vector<int> sizes_of(const Shape& shape) { return {shape.sizes().begin(), shape.sizes().end()}; }

// How much larger a tolerance is in single precision than in double precision.
constexpr double kSinglePrecision = 3e6;
constexpr double within(double tolerance) { return kIsDouble ? tolerance : tolerance * kSinglePrecision; }

struct OpCheckOptions {
  double low = 0, high = 0;  // inputs uniform in [low, high]; N(0, 1) when equal
  std::uint64_t seed = 1;
  double tolerance = 1e-12;    // in double precision; within(tolerance) in single precision
  bool by_differences = true;  // false for inputs near kinks
  bool in_eval_mode = true;    // also check the values in eval mode
  bool aliased = true;         // also pass one tensor as two inputs of equal shape
};

// How many times check_op was called.
inline int case_count = 0;
struct ReportCases {
  ~ReportCases() { std::cout << "cases: " << case_count << "\n"; }
};
BOOST_TEST_GLOBAL_FIXTURE(ReportCases);

// A random shape of at most `rank` axes; now and then an axis has no elements.
inline Shape random_shape(seppo::RandomStream& random, int rank) {
  std::vector<int> sizes(random.below(static_cast<std::uint32_t>(rank + 1)));
  for (int& size : sizes) size = random.below(16) == 0 ? 0 : static_cast<int>(1 + random.below(4));
  return Shape(std::span<const int>(sizes));
}
// A shape that broadcasts to the given one: some axes are 1, some in front are missing.
inline Shape random_operand(seppo::RandomStream& random, const Shape& shape) {
  std::vector<int> sizes(shape.sizes().begin(), shape.sizes().end());
  for (int& size : sizes)
    if (random.below(3) == 0) size = 1;
  sizes.erase(sizes.begin(), sizes.begin() + random.below(static_cast<std::uint32_t>(sizes.size() + 1)) / 2);
  return Shape(std::span<const int>(sizes));
}

template <class Numbers>
void check_close(const Numbers& actual, const std::vector<double>& expected, double tolerance,
                 const std::string& what) {
  BOOST_REQUIRE_MESSAGE(actual.size() == expected.size(),
                        what << ": sizes " << actual.size() << " and " << expected.size());
  double largest = 0;
  for (const double e : expected) largest = std::max(largest, std::abs(e));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    // Inputs and cotangents are of order 1: where terms cancel to zero, rounding leaves errors of 1e-14. In single
    // precision, terms of order 1 leave an error of their own magnitude in every sum.
    const double scale = kIsDouble ? std::max({std::abs(expected[i]), 1e-3 * largest, 1e-2})
                                   : std::max({std::abs(expected[i]), 0.1 * largest, 0.3});
    const double error = std::abs(static_cast<double>(actual[i]) - expected[i]);
    BOOST_CHECK_MESSAGE(error <= within(tolerance) * scale,
                        what << "[" << i << "]: " << actual[i] << ", expected " << expected[i]);
  }
}

// Checks gradients by finite differences of cotangent . op(x) at x.
using Op = std::function<Tensor(Inputs)>;

#ifdef SEPPO_FLOAT64
inline void check_by_differences(const std::string& title, const Arrays<double>& x, const std::vector<Shape>& shapes,
                                 const std::vector<double>& cotangent, const Op& op) {
  seppo::Parameters parameters(0);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < x.size(); ++i)
    inputs.push_back(parameters.root().parameter("x" + std::to_string(i), shapes[i],
                                                 [&](std::span<double> values, const Shape&, seppo::RandomStream&) {
                                                   std::copy(x[i].v.begin(), x[i].v.end(), values.begin());
                                                 }));
  const auto report = seppo::gradient_check(parameters, [&] {
    const Tensor y = op(Inputs(inputs));
    return seppo::sum(seppo::mul(y, seppo::tensor(y.shape(), cotangent)));
  });
  BOOST_CHECK_MESSAGE(report.passed, title << "\n" << report.text);
}
#else
inline void check_by_differences(const std::string&, const Arrays<double>&, const std::vector<Shape>&,
                                 const std::vector<double>&, const Op&) {}
#endif

// Fills the memory that a cleared tape will hand out next with NaN, so that reading it before writing is noticed.
inline void soil(seppo::Tape& tape) {
  const seppo::TapeMark mark;
  const Tensor dirt = tape.create({1 << 14});
  std::fill_n(dirt.data(), dirt.numel(), std::numeric_limits<real>::quiet_NaN());
}

// A reference for both scalar types: wraps a generic function from Arrays<T> to Nd<T>.
struct Reference {
  template <class F>
  Reference(const F& f) : real(f), complex(f) {}
  Nd<double> operator()(const Arrays<double>& x) const { return real(x); }
  Nd<Complex> operator()(const Arrays<Complex>& x) const { return complex(x); }

  std::function<Nd<double>(const Arrays<double>&)> real;
  std::function<Nd<Complex>(const Arrays<Complex>&)> complex;
};

inline void check_op(const std::string& name, const std::vector<Shape>& shapes, const Op& op,
                     const Reference& reference, const OpCheckOptions& options = {}) {
  ++case_count;
  seppo::RandomStream random(options.seed, seppo::Purpose::test);
  const auto draw = [&] {
    return options.low == options.high ? random.normal()
                                       : options.low + (options.high - options.low) * random.uniform();
  };
  std::string title = name;
  Arrays<double> x;
  Arrays<Complex> z;
  for (const Shape& shape : shapes) {
    title += " " + shape.str();
    x.emplace_back(sizes_of(shape));
    for (double& v : x.back().v) v = rounded(draw());
    z.emplace_back(sizes_of(shape));
    std::copy(x.back().v.begin(), x.back().v.end(), z.back().v.begin());
  }

  const Nd<double> expected = reference(x);
  std::vector<double> cotangent(expected.v.size());
  for (double& c : cotangent) c = rounded(random.normal());

  // Gradients by complex step: d/dx_i of cotangent . f(x) = Im(cotangent . f(x + i h e_i)) / h. Input `same` is moved
  // along with `input`, for two inputs that are one tensor; pass `input` itself if there is no such pair.
  const auto gradient_of = [&](std::size_t input, std::size_t same) {
    std::vector<double> gradient;
    for (std::size_t element = 0; element < z[input].v.size(); ++element) {
      const Complex kept = z[input].v[element];
      z[input].v[element] += Complex(0, 1e-30);
      z[same].v[element] = z[input].v[element];
      const Nd<Complex> y = reference(z);
      double g = 0;
      for (std::size_t j = 0; j < y.v.size(); ++j) g += cotangent[j] * y.v[j].imag();
      gradient.push_back(g / 1e-30);
      z[input].v[element] = z[same].v[element] = kept;
    }
    return gradient;
  };
  std::vector<std::vector<double>> gradients;
  for (std::size_t i = 0; i < z.size(); ++i) gradients.push_back(gradient_of(i, i));

  if (options.by_differences) check_by_differences(title, x, shapes, cotangent, op);

  seppo::Tape& tape = seppo::tape();
  std::vector<double> scaled(cotangent), zero(cotangent.size(), 0.0);
  for (double& c : scaled) c *= -2.5;
  for (std::uint32_t subset = 0; subset < (1u << shapes.size()); ++subset) {
    const std::string what = title + " subset " + std::to_string(subset);
    // One forward pass, then backward for each cotangent in turn; returns the gradients of the subset.
    const auto run = [&](const std::vector<std::vector<double>>& cotangents) {
      tape.clear();
      soil(tape);
      std::vector<Tensor> inputs;
      for (std::size_t i = 0; i < shapes.size(); ++i)
        inputs.push_back(subset >> i & 1 ? seppo::variable(shapes[i], reals(x[i].v))
                                         : seppo::tensor(shapes[i], reals(x[i].v)));
      const Tensor y = op(Inputs(inputs));
      BOOST_CHECK_MESSAGE(sizes_of(y.shape()) == expected.shape, what << ": shape " << y.shape().str());
      check_close(y.values(), expected.v, options.tolerance, what + " value");
      BOOST_CHECK_MESSAGE(y.requires_grad() == (subset != 0), what << ": requires_grad");
      std::vector<std::vector<double>> result;
      if (subset == 0) return result;
      for (const auto& c : cotangents) tape.backward(y, reals(c));
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        BOOST_CHECK_MESSAGE(std::equal(x[i].v.begin(), x[i].v.end(), inputs[i].values().begin()),
                            what << ": input " << i << " changed");
        if (!(subset >> i & 1)) continue;
        const auto g = inputs[i].grad();
        result.emplace_back(g.begin(), g.end());
      }
      return result;
    };
    const auto once = run({cotangent});
    if (subset == 0) continue;
    std::size_t k = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      if (subset >> i & 1)
        check_close(once[k++], gradients[i], options.tolerance, what + " gradient " + std::to_string(i));
    BOOST_CHECK_MESSAGE(run({cotangent}) == once, what << ": backward is not repeatable");
    const auto twice = run({cotangent, cotangent}), none = run({zero}), times = run({scaled});
    for (std::size_t i = 0; i < once.size(); ++i) {
      const auto multiplied = [&](double factor) {
        std::vector<double> result(once[i]);
        for (double& g : result) g *= factor;
        return result;
      };
      check_close(times[i], multiplied(-2.5), 4e-12, what + " linearity");
      check_close(twice[i], multiplied(2), 1e-12, what + " accumulation");
      for (const double g : none[i]) BOOST_CHECK_MESSAGE(g == 0, what << ": zero cotangent");
    }
  }

  for (std::size_t i = 0; options.aliased && i < shapes.size(); ++i)
    for (std::size_t j = i + 1; j < shapes.size(); ++j) {
      if (shapes[i] != shapes[j]) continue;
      const std::string what = title + " with inputs " + std::to_string(i) + " and " + std::to_string(j) + " the same";
      Arrays<double> same = x;
      same[j] = same[i];
      const std::vector<Complex> kept = std::exchange(z[j].v, z[i].v);
      tape.clear();
      soil(tape);
      std::vector<Tensor> inputs;
      for (std::size_t k = 0; k < shapes.size(); ++k)
        inputs.push_back(k == j ? inputs[i] : seppo::variable(shapes[k], reals(same[k].v)));
      const Tensor y = op(Inputs(inputs));
      check_close(y.values(), reference(same).v, options.tolerance, what + " value");
      tape.backward(y, reals(cotangent));
      for (std::size_t k = 0; k < shapes.size(); ++k)
        if (k != j)
          check_close(inputs[k].grad(), gradient_of(k, k == i ? j : k), 2 * options.tolerance, what + " gradient");
      z[j].v = kept;
    }

  tape.clear();
  if (!options.in_eval_mode) return;
  const seppo::UseMode eval(seppo::Mode::eval);
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i) inputs.push_back(seppo::variable(shapes[i], reals(x[i].v)));
  const Tensor y = op(Inputs(inputs));
  check_close(y.values(), expected.v, options.tolerance, title + " value in eval mode");
  BOOST_CHECK_MESSAGE(!y.requires_grad(), title << ": recorded in eval mode");
  tape.clear();
}

}  // namespace test
