// Optimisers over a whole model: Adam and AdamW, and stochastic gradient descent. Each is one pass over the flat block,
// which also scales the gradients, as clipping and means require, and zeroes them.
//
// Parameter groups are chosen by name:
//
//   Adam adam(parameters, {.weight_decay = 0.01}, {{.prefix = "a.", .lr = 0.1}, {.prefix = "b.", .weight_decay = 0}});
//
// The state of an optimiser can be read, saved and set.
#pragma once

#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/memory.h"
#include "../config.h"
#include "../parameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// Options of all parameters whose names begin with `prefix`; where several groups match, the last one applies.
struct ParameterGroup {
  std::string prefix;
  double lr = 1;                                      // factor of the step's learning rate
  std::optional<double> weight_decay = std::nullopt;  // replaces the optimiser's; applies to vectors too
};
using ParameterGroups = std::vector<ParameterGroup>;

// A run of the flat blocks whose parameters share their options.
struct TrainedRun {
  std::size_t begin, end;
  double lr, weight_decay;
};

// What an optimiser updates: everything but buffers and frozen parameters.
class TrainedRuns {
 public:
  // Throws ArgumentError for a group that matches no parameter, or whose numbers are negative or not finite.
  TrainedRuns(const Parameters& parameters, double weight_decay, const ParameterGroups& groups);

  // Calls f, on all threads, for pieces that together are everything that is trained now. Throws StateError if
  // parameters were added.
  void for_each(FunctionRef<void(const TrainedRun& piece)> f);

 private:
  const Parameters* parameters_;
  double weight_decay_;
  ParameterGroups groups_;
  std::size_t size_;
  std::vector<TrainedRun> runs_;
};

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

 private:
  Parameters* parameters_;
  AdamConfig config_;
  TrainedRuns runs_;
  std::int64_t steps_ = 0;
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
  // Throws ArgumentError unless momentum is in [0, 1), decay is not negative and groups are in range.
  explicit Sgd(Parameters& parameters, const SgdConfig& config = {}, const ParameterGroups& groups = {});

  // Moves the parameters by their gradients times `gradient_scale`, then zeroes the gradients.
  void step(double lr, double gradient_scale = 1);

  // v, laid out as the parameters' values: save it, and set it to resume.
  std::span<real> velocity() const { return {velocity_.as<real>(), velocity_.size() / sizeof(real)}; }

 private:
  Parameters* parameters_;
  SgdConfig config_;
  TrainedRuns runs_;
  Memory velocity_;
};

// An exponential moving average of the trained values, often better than the last ones (Polyak and Juditsky 1992;
// Tarvainen and Valpola 2017). Its bias towards the start is corrected as for Adam's moments (Kingma and Ba 2015, 3):
// after t updates it is sum_i decay^(t - i) p_i / sum_i decay^(t - i), so at first p_1. Unfrozen later, it starts at 0.
class Ema {
 public:
  // Throws ArgumentError unless decay is in [0, 1).
  explicit Ema(Parameters& parameters, double decay = 0.999);

  void update();  // after each step
  // Exchanges averages and parameters, to evaluate or save; a second call undoes it. Without updates it does nothing.
  void swap();

  std::int64_t updates() const { return updates_; }
  void set_updates(std::int64_t updates) { updates_ = updates; }
  // Laid out as the parameters' values.
  std::span<real> averages() const { return {averages_.as<real>(), averages_.size() / sizeof(real)}; }

 private:
  Parameters* parameters_;
  TrainedRuns runs_;
  double decay_;
  std::int64_t updates_ = 0;
  Memory averages_;
};

// sqrt(sum of squares) of all gradients; accumulated in double, so that it cannot overflow.
double gradient_norm(const Parameters& parameters);

// The factor that brings gradients of this norm down to max_norm; 1 if they are within, or if
// max_norm is 0: no clipping (Pascanu, Mikolov and Bengio 2013). Nothing is added to the norm, as PyTorch adds 1e-6.
inline double clip_factor(double norm, double max_norm) {
  return max_norm > 0 && norm > max_norm ? max_norm / norm : 1;
}

// ---- learning rates: of a step, which counts from 1

enum class ScheduleKind { cosine, linear, noam, constant };

inline std::span<const char* const> enum_names(ScheduleKind) {
  static constexpr const char* kNames[] = {"cosine", "linear", "noam", "const"};
  return kNames;
}

// Linear warm-up to lr in warmup_steps; then a cosine or linear decay to min_lr at the last of `steps`, or no decay. So
// with one step and no warm-up, that step has min_lr.
// Noam's rises likewise, then falls as 1 / sqrt(step) (Vaswani et al. 2017, 5.3: lr = 1 / sqrt(d_model warmup_steps)).
struct Schedule {
  ScheduleKind kind = ScheduleKind::constant;
  double lr = 1e-3, min_lr = 0;
  std::int64_t warmup_steps = 0, steps = 0;

  // Throws ArgumentError for noam without warm-up.
  double operator()(std::int64_t step) const {
    const double s = static_cast<double>(step), w = static_cast<double>(warmup_steps);
    check<ArgumentError>(kind != ScheduleKind::noam || w > 0, "schedule: noam needs warm-up");
    if (kind == ScheduleKind::noam)
      return lr * std::sqrt(w) * std::min(1 / std::sqrt(std::max(s, 1.0)), std::max(s, 1.0) / (w * std::sqrt(w)));
    const double rise = w > 0 ? std::min(1.0, s / w) : 1.0;
    if (kind == ScheduleKind::constant) return lr * rise;
    const double fall_steps = static_cast<double>(steps) - w;  // 0 if warm-up takes them all
    const double way = fall_steps > 0 ? std::clamp((s - w) / fall_steps, 0.0, 1.0) : 0.0;
    const double left = kind == ScheduleKind::linear ? 1 - way : 0.5 * (1 + std::cos(std::numbers::pi * way));
    return rise * (min_lr + (lr - min_lr) * left);
  }
};

}  // namespace SEPPO_ABI
}  // namespace seppo
