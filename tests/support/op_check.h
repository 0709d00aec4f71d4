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

#include "support/op.h"
#include "support/random_shapes.h"

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

constexpr bool kIsDouble = sizeof(real) == sizeof(double);

// A value rounded to `real`'s precision.
inline double rounded(double value) { return double{static_cast<real>(value)}; }

// How much larger a tolerance is in single precision than in double precision.
constexpr double kSinglePrecision = 3e6;
constexpr double within(double tolerance) { return kIsDouble ? tolerance : tolerance * kSinglePrecision; }

// Inputs and cotangents are of order 1.
void check_close(std::span<const double> actual, const std::vector<double>& expected, double tolerance,
                 const std::string& what);
void check_close(std::span<const float> actual, const std::vector<double>& expected, double tolerance,
                 const std::string& what);

// Fills the memory that a cleared tape will hand out next with NaN, so that reading it before writing is noticed.
void soil(seppo::Tape& tape);

void check_op(const std::string& name, const std::vector<Shape>& shapes, const Op& op, const Reference& reference,
              const OpCheckOptions& options = {});

}  // namespace test
