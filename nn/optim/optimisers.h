// Optimisers over a whole model: Adam and AdamW, and stochastic gradient descent. Each is one pass over the flat block,
// which also applies a factor to the gradients, as clipping and means want, and zeroes them.
//
// Groups of parameters that are treated differently are chosen by name:
//
//   Adam adam(parameters, {.weight_decay = 0.01}, {{.prefix = "embedding.", .lr = 0.1}, {.prefix = "head.",
//   .weight_decay = 0}});
//
// What an optimiser keeps from step to step can be read, saved and set.
#pragma once

#include "../../autograd/core/utility.h"
#include "../config.h"
#include "../parameters.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace seppo::inline SEPPO_ABI {

// Of all parameters whose names begin with `prefix`; where several fit, the last holds.
struct ParameterGroup {
  std::string prefix;
  double lr = 1;                                      // times the learning rate of the step
  std::optional<double> weight_decay = std::nullopt;  // instead of the optimiser's; of vectors too
};
using ParameterGroups = std::vector<ParameterGroup>;

// A stretch of the flat blocks whose parameters are trained alike.
struct TrainedRun {
  std::size_t begin, end;
  double lr, weight_decay;
};

// What an optimiser moves: all but buffers and frozen parameters.
class TrainedRuns {
 public:
  // Throws ArgumentError for a group of no parameter, or whose numbers are negative or not finite.
  TrainedRuns(const Parameters& parameters, double weight_decay, const ParameterGroups& groups);

  // Calls f from the threads for pieces that make up all that is trained now. Throws StateError if parameters were
  // added.
  void for_each(FunctionRef<void(const TrainedRun& piece)> f);

 private:
  void update();

  const Parameters* parameters_;
  double weight_decay_;
  ParameterGroups groups_;
  std::size_t size_;
  std::vector<TrainedRun> runs_;
};

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

// Stochastic gradient descent with momentum (Polyak 1964; Nesterov 1983; as PyTorch's SGD).
struct SgdConfig {
  double momentum = 0;
  bool nesterov = false;    // looks ahead along the velocity; needs momentum
  double weight_decay = 0;  // added to the gradient as weight_decay * p; of matrices
};

// g = gradient_scale gradient + weight_decay p;  v = momentum v + g;  p -= lr v, or lr (g + momentum v) with nesterov.
class Sgd {
 public:
  // Throws ArgumentError unless momentum is in [0, 1) and decay and groups are in range.
  explicit Sgd(Parameters& parameters, const SgdConfig& config = {}, const ParameterGroups& groups = {});

  // Moves the parameters by their gradients times `gradient_scale`, then zeroes the gradients.
  void step(double lr, double gradient_scale = 1);

  // v, laid out as the parameters' values: to be saved, and set by who goes on.
  std::span<real> velocity() const { return {velocity_.as<real>(), velocity_.size() / sizeof(real)}; }

 private:
  Parameters* parameters_;
  SgdConfig config_;
  TrainedRuns runs_;
  Memory velocity_;
};

// sqrt(sum of squares) of all gradients; accumulated in double, so that it cannot overflow.
double gradient_norm(const Parameters& parameters);

// The factor that brings gradients of this norm down to max_norm; 1 if they are within, or if
// max_norm is 0: no clipping (Pascanu, Mikolov and Bengio 2013).
inline double clip_factor(double norm, double max_norm) {
  return max_norm > 0 && norm > max_norm ? max_norm / norm : 1;
}

}  // namespace seppo::inline SEPPO_ABI
