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

#include "support/nd.h"

#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
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

// A random shape of at most `rank` axes; now and then an axis has no elements.
Shape random_shape(seppo::RandomStream& random, int rank);
// A shape that broadcasts to the given one: some axes are 1, some in front are missing.
Shape random_operand(seppo::RandomStream& random, const Shape& shape);

// Inputs and cotangents are of order 1.
void check_close(std::span<const double> actual, const std::vector<double>& expected, double tolerance,
                 const std::string& what);
void check_close(std::span<const float> actual, const std::vector<double>& expected, double tolerance,
                 const std::string& what);

using Op = std::function<Tensor(Inputs)>;

// Fills the memory that a cleared tape will hand out next with NaN, so that reading it before writing is noticed.
void soil(seppo::Tape& tape);

// A reference for both scalar types: wraps a generic function from Arrays<T> to Nd<T>.
struct Reference {
  template <class F>
  Reference(const F& f) : real(f), complex(f) {}
  Nd<double> operator()(const Arrays<double>& x) const { return real(x); }
  Nd<Complex> operator()(const Arrays<Complex>& x) const { return complex(x); }

  std::function<Nd<double>(const Arrays<double>&)> real;
  std::function<Nd<Complex>(const Arrays<Complex>&)> complex;
};

void check_op(const std::string& name, const std::vector<Shape>& shapes, const Op& op, const Reference& reference,
              const OpCheckOptions& options = {});

}  // namespace test
