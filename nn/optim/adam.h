// Adam and AdamW: one pass over the flat block, which also scales the gradients, as clipping and means require, and
// zeroes them. Their state can be read, saved and set.
#pragma once

#include "../../autograd/core/memory.h"
#include "../config.h"
#include "optimiser.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct AdamConfig {
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;        // at least 1.1e-19 in single precision: the squares of smaller gradients are 0
  double weight_decay = 0;  // of parameters with decay, by default the matrices
  bool decoupled = true;    // AdamW; false adds weight_decay * p to the gradient instead

  void fields(ConfigVisitor& v) {
    v("adam_betas", betas, {0, 0.999999999}, "decay rates of Adam's two moments");
    v("adam_eps", eps, {1e-30, 1}, "Adam's epsilon, added to the root of the second moment");
    v("weight_decay", weight_decay, {0, 100}, "weight decay of matrices");
    v("decoupled_decay", decoupled, "AdamW: decay the weights themselves, not through the gradient");
  }
};

class Adam {
 public:
  // Throws ArgumentError for a config or a group out of range.
  explicit Adam(Parameters& parameters, const AdamConfig& config = {}, const ParameterGroups& groups = {});

  // Moves the parameters by their gradients times `gradient_scale`, then zeroes the gradients. Finite ones
  // beyond half the root of the largest number, 9.2e18 in single precision, count as that: no moment becomes infinite.
  void step(double lr, double gradient_scale = 1);

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  const AdamConfig& config() const { return config_; }
  // Laid out as the parameters' values.
  std::span<real> first_moments() const { return {m_.as<real>(), m_.size() / sizeof(real)}; }
  std::span<real> second_moments() const { return {v_.as<real>(), v_.size() / sizeof(real)}; }
  std::vector<OptimizerBlock> state() const { return {{"adam.m", first_moments()}, {"adam.v", second_moments()}}; }

 private:
  Parameters* parameters_;
  AdamConfig config_;
  TrainedRuns runs_;
  std::int64_t steps_ = 0;
  Memory m_, v_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
