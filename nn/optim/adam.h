// Adam and AdamW over a whole model: one pass over the flat block, which also applies the clipping
// factor and zeroes the gradients.
#pragma once

#include "../config.h"
#include "groups.h"

#include <array>
#include <cstdint>
#include <span>

namespace seppo::inline SEPPO_ABI {

struct AdamConfig {
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;  // of the parameters whose entry says decay: by default, matrices
  bool decoupled = true;    // AdamW; false adds weight_decay * p to the gradient instead

  void fields(ConfigVisitor& v) {
    v("adam_betas", betas, {0, 0.999999999}, "decay rates of Adam's two moments");
    v("adam_eps", eps, {0, 1}, "Adam's epsilon, added to the root of the second moment");
    v("weight_decay", weight_decay, {0, 100}, "weight decay of matrices");
    v("decoupled_decay", decoupled, "AdamW: decay the weights themselves, not through the gradient");
  }
};

class Adam {
 public:
  // Throws ArgumentError for a config or a group out of range.
  explicit Adam(Parameters& parameters, const AdamConfig& config = {}, const ParameterGroups& groups = {});

  // Moves the parameters by their gradients times `gradient_scale`, then zeroes the gradients.
  void step(double lr, double gradient_scale = 1);

  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  const AdamConfig& config() const { return config_; }
  // Laid out as the parameters' values.
  std::span<real> first_moments() const { return {m_.as<real>(), size_}; }
  std::span<real> second_moments() const { return {v_.as<real>(), size_}; }

 private:
  Parameters* parameters_;
  AdamConfig config_;
  TrainedRuns runs_;
  std::int64_t steps_ = 0;
  std::size_t size_;
  Memory m_, v_;
};

// sqrt(sum of squares) of all gradients; accumulated in double, so that it cannot overflow.
double gradient_norm(const Parameters& parameters);

// The factor that brings gradients of this norm down to max_norm; 1 if they are within, or if
// max_norm is 0: no clipping (Pascanu, Mikolov and Bengio 2013).
inline double clip_factor(double norm, double max_norm) {
  return max_norm > 0 && norm > max_norm ? max_norm / norm : 1;
}

}  // namespace seppo::inline SEPPO_ABI
