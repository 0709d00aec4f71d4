// gradient_check compares the gradient of an op or of a whole model with finite differences along random directions,
// and detects small mistakes, in double precision (link seppo::f64).
//
// Along a direction u, the central difference D(h) = (f(x + h u) - f(x - h u)) / 2h differs from the
// true slope by c h^2. So if the gradient g is right, |D(h) - g u| falls a hundredfold each time h is
// divided by ten, until rounding dominates; if it is wrong, the difference stays.
// The check passes when the best difference is below `tolerance` relative to the slope's scale |g| |u|, and either the
// fall was seen or the differences are at rounding level throughout; at kinks, as of ReLU, the fall may be slower.
//
//   const auto report = gradient_check(parameters, [&] { return model.loss(batch); });
//   if (!report.passed) std::cerr << report.text;   // names the wrong parameter and one of its wrong elements
//
// Parameters are checked one by one, because one wrong element among n changes the slope along a random direction by
// about one part in n only. docs/check-your-gradients.md shows what is detected, and what gives false alarms. In single
// precision (seppo::seppo) rounding hides everything below 1e-3: it throws StateError there.
#pragma once

#include "parameters.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct GradientCheckOptions {
  int directions = 4;
  double first_step = 1e-2;  // the largest h; the next is ten times smaller, and so on
  int steps = 8;
  double tolerance = 1e-7;
  std::uint64_t seed = 0;
};

struct GradientCheckReport {
  bool passed = false;
  double error = 0;  // the worst direction's best difference, relative to |g| |u|, or to 1e-5 max(|f|, 1)
  double order = 0;  // of the fall, in the worst direction: 2 when seen, 0 if at rounding level at once
  std::string text;  // a line for each parameter and direction; if it is wrong, another one that names an element
};

// Checks the gradient of each trained parameter, along one direction unless told otherwise. `loss` computes a
// one-element tensor on the current tape, with the same value each time (fix tape().random.step, or use dropout 0).
// Buffers, such as running statistics, are restored before each call. Values, gradients and tape().random are restored
// at the end; the tape is cleared.
GradientCheckReport gradient_check(Parameters& parameters, const std::function<Tensor()>& loss,
                                   const GradientCheckOptions& options = {.directions = 1});

// Checks an op, whose inputs take the place of parameters: they, and a cotangent, are drawn from N(0, 1).
using CheckedOp = std::function<Tensor(std::span<const Tensor> inputs)>;
GradientCheckReport gradient_check(std::initializer_list<Shape> shapes, const CheckedOp& op,
                                   const GradientCheckOptions& options = {});
// The same at the given inputs, which are copied: for ops such as log, for which N(0, 1) will not do.
GradientCheckReport gradient_check_at(List<Tensor> inputs, const CheckedOp& op,
                                      const GradientCheckOptions& options = {});

}  // namespace SEPPO_ABI
}  // namespace seppo
