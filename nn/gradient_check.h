// What differences tell of gradients: whether they are right (gradient_check), and what their own derivatives are
// (hessian_vector_product, differentiate_gradient).
//
// gradient_check compares a gradient with finite differences along random directions, in a way that sees small
// mistakes: of an op or of a whole model, in double precision (link seppo::f64).
//
// Along a direction u, the central difference D(h) = (f(x + h u) - f(x - h u)) / 2h differs from the
// true slope by c h^2. So if the gradient g is right, |D(h) - g u| falls a hundredfold for each ten
// times smaller h, until rounding stops it; if it is wrong, the difference stays.
// The check passes when the best difference is below `tolerance` relative to the slope's scale |g| |u|, and either the
// fall was seen or the differences are at rounding level throughout; at kinks, as of ReLU, the fall may be slower.
//
//   const auto report = gradient_check(parameters, [&] { return model.loss(batch); });
//   if (!report.passed) std::cerr << report.text;   // names the wrong parameter and an element of it
//
// Parameters are checked one by one, for of one wrong element among n a direction sees about one part in n; what is
// seen, and what gives false alarms, is in docs/check-your-gradients.md. In single precision (seppo::seppo) rounding
// hides everything below 1e-3: it throws StateError there.
//
// Second derivatives are differences of gradients, for any model: central ones with ever smaller steps, extrapolated to
// a step of zero (Richardson 1911), of which the best is taken by the estimate of its error (Ridders 1982). Each takes
// 8 to 20 gradients; docs/second-derivatives.md measures 1e-13 in double precision, 1e-5 in single.
#pragma once

#include "parameters.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace seppo::inline SEPPO_ABI {

struct GradientCheckOptions {
  int directions = 4;
  double first_step = 1e-2;  // h; then each ten times smaller
  int steps = 8;
  double tolerance = 1e-7;
  std::uint64_t seed = 0;
};

struct GradientCheckReport {
  bool passed = false;
  double error = 0;  // the worst direction's best difference, relative to |g| |u|, or to 1e-5 |f| if larger
  double order = 0;  // of the fall, in the worst direction: 2 when seen, 0 if at rounding level at once
  std::string text;  // one line for each parameter and direction; for a wrong one one more, which names an element
};

// Checks the gradient of each trained parameter, along one direction each unless told otherwise. `loss` computes a
// one-element tensor on the current tape, the same one each time (fix tape().random.step, or use dropout 0). Buffers,
// such as running statistics, are set back before each call. Values, gradients and tape().random are afterwards as they
// were; the tape is cleared.
GradientCheckReport gradient_check(Parameters& parameters, const std::function<Tensor()>& loss,
                                   const GradientCheckOptions& options = {.directions = 1});

// For an op, each of whose inputs is checked as a parameter is: draws inputs of the given shapes from N(0, 1) and a
// random cotangent.
using CheckedOp = std::function<Tensor(std::span<const Tensor> inputs)>;
GradientCheckReport gradient_check(std::initializer_list<Shape> shapes, const CheckedOp& op,
                                   const GradientCheckOptions& options = {});
// The same at these inputs, which are copied: where N(0, 1) will not do, as for log.
GradientCheckReport gradient_check_at(List<Tensor> inputs, const CheckedOp& op,
                                      const GradientCheckOptions& options = {});

struct SecondDerivative {
  std::vector<real> value;  // laid out as the parameters' gradients
  double error = 0;         // estimated, relative to |value|: rounding and the kinks of a ReLU make it larger
};

// The derivative, at h = 0, of the gradient of loss(h) with respect to the trained parameters; h starts at first_step.
// `loss` computes a one-element tensor on the current tape, such as a critic's output at x + h u: then this is the
// gradient of the critic's slope along u, of which gradient penalties are made. What it does to the values is undone
// before the next call; what is left behind, and what `loss` may depend on, is as of gradient_check.
// Throws NumericError if no step gives a finite result.
SecondDerivative differentiate_gradient(Parameters& parameters, const std::function<Tensor(double h)>& loss,
                                        double first_step = 0.125);

// H v: the second derivatives of the loss with respect to the trained parameters, times v, which is laid out as the
// parameters' values; elements of others count as 0. Throws ShapeError for another size, and as above.
SecondDerivative hessian_vector_product(Parameters& parameters, const std::function<Tensor()>& loss,
                                        std::span<const real> v);

}  // namespace seppo::inline SEPPO_ABI
