// SGD: one pass over the flat block, by the threads.
#include "sgd.h"

#include "../../autograd/core/parallel.h"

#include <algorithm>

namespace seppo::inline SEPPO_ABI {

Sgd::Sgd(Parameters& parameters, const SgdConfig& config, const ParameterGroups& groups)
    : parameters_(&parameters),
      config_(config),
      runs_(parameters, config.weight_decay, groups),
      velocity_(parameters.gradients().size_bytes()) {
  check<ArgumentError>(config.momentum >= 0 && config.momentum < 1, "sgd: momentum ", config.momentum,
                       " is not in [0, 1)");
  check<ArgumentError>(config.weight_decay >= 0, "sgd: weight_decay ", config.weight_decay, " is negative");
  check<ArgumentError>(!config.nesterov || config.momentum > 0, "sgd: nesterov needs momentum");
}

void Sgd::step(double lr, double gradient_scale) {
  const std::vector<TrainedRun>& runs = runs_.update();
  real *const values = parameters_->values().data(), *const gradients = parameters_->gradients().data();
  real* const velocity = velocity_.as<real>();
  const auto scale = static_cast<real>(gradient_scale), momentum = static_cast<real>(config_.momentum);
  constexpr std::size_t kGrain = std::size_t{1} << 14;
  parallel_for(0, velocity_.size() / sizeof(real), kGrain, [&](std::size_t begin, std::size_t end) {
    for (const TrainedRun& run : runs) {
      const auto rate = static_cast<real>(lr * run.lr), decay = static_cast<real>(run.weight_decay);
      for (std::size_t i = std::max(begin, run.begin); i < std::min(end, run.end); ++i) {
        const real g = scale * gradients[i] + decay * values[i];
        velocity[i] = momentum * velocity[i] + g;
        values[i] -= rate * (config_.nesterov ? g + momentum * velocity[i] : velocity[i]);
        gradients[i] = 0;
      }
    }
  });
}

}  // namespace seppo::inline SEPPO_ABI
