// AnyOptimiser: a reference to an optimiser of any class, for what drives one.
#pragma once

#include "optimiser.h"

#include <concepts>
#include <cstdint>
#include <functional>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// The optimiser must outlive it, and stay where it is.
class AnyOptimiser {
 public:
  template <Optimiser T>
  requires(!std::same_as<T, AnyOptimiser>) AnyOptimiser(T& optimiser)
      : step_([&optimiser](double lr, double gradient_scale) { optimiser.step(lr, gradient_scale); }),
        state_([&optimiser] { return optimiser.state(); }) {
    if constexpr (CountsSteps<T>) {
      steps_ = [&optimiser] { return optimiser.steps(); };
      set_steps_ = [&optimiser](std::int64_t steps) { optimiser.set_steps(steps); };
    }
  }

  void step(double lr, double gradient_scale) const { step_(lr, gradient_scale); }
  std::vector<OptimizerBlock> state() const { return state_(); }

  // 0, and nothing, for an optimiser that does not count its steps.
  std::int64_t steps() const { return steps_ ? steps_() : 0; }
  void set_steps(std::int64_t steps) const {
    if (set_steps_) set_steps_(steps);
  }

 private:
  std::function<void(double lr, double gradient_scale)> step_;
  std::function<std::vector<OptimizerBlock>()> state_;
  std::function<std::int64_t()> steps_;
  std::function<void(std::int64_t steps)> set_steps_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
