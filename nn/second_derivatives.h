// Second derivatives: central differences of gradients, for any model, with ever smaller steps, extrapolated to a step
// of zero (Richardson 1911); the result with the smallest estimated error is returned (Ridders 1982). Each takes 8 to
// 20 gradients; docs/second-derivatives.md measures errors of 1e-13 in double precision and 1e-5 in single.
//
//   const SecondDerivative product = hessian_vector_product(parameters, [&] { return model.loss(batch); }, v);
//   const double curvature = std::inner_product(v.begin(), v.end(), product.value.begin(), 0.0);  // v H v
#pragma once

#include "parameters.h"

#include <functional>
#include <span>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct SecondDerivative {
  std::vector<real> value;  // laid out as the parameters' gradients
  double error = 0;         // estimated, relative to |value|; rounding and kinks, such as ReLU's, increase it
};

// The derivative, at h = 0, of the gradient of loss(h) with respect to the trained parameters; h starts at first_step.
// `loss` computes a one-element tensor on the current tape, such as a critic's output at x + h u; the result is then
// the gradient of the critic's slope along u, from which gradient penalties are built. Changes that `loss` makes to the
// values are undone before the next call; what is restored, and what `loss` may depend on, is as in gradient_check.
// Throws NumericError if no step gives a finite result.
SecondDerivative differentiate_gradient(Parameters& parameters, const std::function<Tensor(double h)>& loss,
                                        double first_step = 0.125);

// H v: the Hessian of the loss with respect to the trained parameters, times v. v has the layout of the parameters'
// values; its elements for other values count as 0. Throws ShapeError for another size, and as above.
SecondDerivative hessian_vector_product(Parameters& parameters, const std::function<Tensor()>& loss,
                                        std::span<const real> v);

}  // namespace SEPPO_ABI
}  // namespace seppo
