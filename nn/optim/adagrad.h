// Adagrad: steps that become smaller for each parameter by itself, as its gradients add up.
//
//   Adagrad adagrad(parameters);
//   Trainer trainer(parameters, adagrad, {.lr = 0.1});
#pragma once

#include "../../autograd/core/memory.h"
#include "optimiser.h"

#include <span>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct AdagradConfig {
  double eps = 1e-10;
  double initial = 0;       // where the sums of squares begin
  double weight_decay = 0;  // added to the gradient as weight_decay * p; of matrices
};

// g = gradient_scale gradient + weight_decay p;  s += g^2;  p -= lr g / (sqrt(s) + eps)  (Duchi, Hazan and Singer
// 2011; as PyTorch's Adagrad). For sparse features: a row of an embedding that is seldom used still takes long steps.
class Adagrad {
 public:
  // Throws ArgumentError unless eps is positive, initial and decay are not negative, all are finite, and groups are in
  // range.
  explicit Adagrad(Parameters& parameters, const AdagradConfig& config = {}, const ParameterGroups& groups = {});

  // Moves the parameters by their gradients times `gradient_scale`, then zeroes the gradients. Finite ones beyond the
  // root of the largest number, 1.8e19 in single precision, count as that, and no sum becomes infinite.
  void step(double lr, double gradient_scale = 1);

  // s, laid out as the parameters' values.
  std::span<real> squares() const { return {squares_.as<real>(), squares_.size() / sizeof(real)}; }
  std::vector<OptimizerBlock> state() const { return {{"optimiser.squares", squares()}}; }

 private:
  Parameters* parameters_;
  AdagradConfig config_;
  TrainedRuns runs_;
  Memory squares_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
