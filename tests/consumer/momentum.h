// An optimiser of one's own, which needs only what is installed: the example of nn/optim/optimiser.h.
#pragma once

#include <seppo/nn/optim/optimiser.h>

#include <cstddef>
#include <span>
#include <vector>

namespace consumer {
inline namespace SEPPO_ABI {

using namespace seppo;

class Momentum {
 public:
  explicit Momentum(Parameters& parameters, const ParameterGroups& groups = {})
      : parameters_(&parameters), runs_(parameters, 0, groups), velocity_(parameters.values().size()) {}

  void step(double lr, double gradient_scale = 1) {
    const std::span<real> values = parameters_->edit(), gradients = parameters_->gradients();
    const auto scale = static_cast<real>(gradient_scale);
    runs_.for_each([&](const TrainedRun& run) {  // on all threads
      const auto rate = static_cast<real>(lr * run.lr);
      for (std::size_t i = run.begin; i < run.end; ++i) {
        velocity_[i] = real(0.9) * velocity_[i] + scale * gradients[i];
        values[i] -= rate * velocity_[i];
        gradients[i] = 0;
      }
    });
  }

  std::vector<OptimizerBlock> state() { return {{"optimiser.velocity", velocity_}}; }

 private:
  Parameters* parameters_;
  TrainedRuns runs_;
  std::vector<real> velocity_;
};

}  // namespace SEPPO_ABI
}  // namespace consumer
