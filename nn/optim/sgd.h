// Sgd: stochastic gradient descent, one pass over the flat block as Adam (adam.h).
#pragma once

#include "../../autograd/core/memory.h"
#include "optimiser.h"

#include <span>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// Stochastic gradient descent with momentum (Polyak 1964; Nesterov 1983; as PyTorch's SGD).
struct SgdConfig {
  double momentum = 0;
  bool nesterov = false;    // looks ahead along the velocity; needs momentum
  double weight_decay = 0;  // added to the gradient as weight_decay * p; of matrices
};

// g = gradient_scale gradient + weight_decay p;  v = momentum v + g;  p -= lr v, or lr (g + momentum v) with nesterov.
class Sgd {
 public:
  // Throws ArgumentError unless momentum is in [0, 1), decay is not negative and groups are in range.
  explicit Sgd(Parameters& parameters, const SgdConfig& config = {}, const ParameterGroups& groups = {});

  // Moves the parameters by their gradients times `gradient_scale`, then zeroes the gradients.
  void step(double lr, double gradient_scale = 1);

  // v, laid out as the parameters' values: save it, and set it to resume.
  std::span<real> velocity() const { return {velocity_.as<real>(), velocity_.size() / sizeof(real)}; }
  std::vector<OptimizerBlock> state() const { return {{"optimiser.velocity", velocity()}}; }

 private:
  Parameters* parameters_;
  SgdConfig config_;
  TrainedRuns runs_;
  Memory velocity_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
