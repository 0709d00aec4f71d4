// Clipping of gradients by the norm of all of them.
#pragma once

#include "../parameters.h"

namespace seppo {
inline namespace SEPPO_ABI {

// sqrt(sum of squares) of all gradients; accumulated in double, so that it cannot overflow.
double gradient_norm(const Parameters& parameters);

// The factor that brings gradients of this norm down to max_norm; 1 if they are within, or if
// max_norm is 0: no clipping (Pascanu, Mikolov and Bengio 2013). Nothing is added to the norm, as PyTorch adds 1e-6.
inline double clip_factor(double norm, double max_norm) {
  return max_norm > 0 && norm > max_norm ? max_norm / norm : 1;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
