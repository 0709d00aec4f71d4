// Is a gradient right? Compares it with finite differences along random directions, in a way that
// sees small mistakes: on an op or on a whole model, in double precision (link seppo::f64).
//
// Along a direction u, the central difference D(h) = (f(x + h u) - f(x - h u)) / 2h differs from the
// true slope by c h^2. So if the gradient g is right, |D(h) - g u| falls a hundredfold for each ten
// times smaller h, until rounding stops it; if it is wrong, the difference stays.
// The check passes when the best difference is below `tolerance` relative to the slope's scale
// |g| |u|, and either the fall was seen or the differences are at rounding level throughout. Where steps
// cross kinks (of ReLU, say) the fall is slower; then a thousandfold fall over all steps is required, or a
// twofold one where it starts so near rounding that no more could be seen.
//
//   const auto report = gradient_check(parameters, [&] { return model.loss(batch); });   // nn/parameters.h
//   if (!report.passed) std::cerr << report.text;   // names the wrong parameter and an element of it
//
// A wrong element among n shows as about 1/n of the whole, so parameters are checked one by one:
// docs/check-your-gradients.md has the smallest faults seen, by size. Check models before they are trained: near a
// minimum the gradient drowns in the rounding of the loss.
// In single precision (seppo::seppo) rounding hides everything below 1e-3: it throws StateError there.
#pragma once

#include "../core/tensor.h"

#include <cstddef>
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
  std::string text;  // one line for each part and direction; for a wrong part one more, which names an element
};

// Values that are checked together: a parameter, or an input of an op.
struct CheckedPart {
  std::string name;
  std::size_t offset, size;  // in the values and gradients
};

// `loss` computes a one-element tensor from `values` on the current tape, the same one each time (fix
// tape().random.step, or use dropout 0). Its gradient must arrive in `gradients`. Values outside of the parts are
// left as they are before each call, whatever the calls do to them. Values, gradients and tape().random are afterwards
// as they were; the tape is cleared.
GradientCheckReport gradient_check(std::span<real> values, std::span<real> gradients,
                                   std::span<const CheckedPart> parts, const std::function<Tensor()>& loss,
                                   const GradientCheckOptions& options = {});

// For an op: draws inputs of the given shapes from N(0, 1) and a random cotangent.
using CheckedOp = std::function<Tensor(std::span<const Tensor> inputs)>;
GradientCheckReport gradient_check(std::initializer_list<Shape> shapes, const CheckedOp& op,
                                   const GradientCheckOptions& options = {});
// The same at these inputs, which are copied: where N(0, 1) will not do, as for log.
GradientCheckReport gradient_check_at(List<Tensor> inputs, const CheckedOp& op,
                                      const GradientCheckOptions& options = {});

}  // namespace seppo::inline SEPPO_ABI
