// Sgd: its formula, in a loop.
#include "sgd.h"

#include <cmath>

namespace seppo {
inline namespace SEPPO_ABI {

Sgd::Sgd(Parameters& parameters, const SgdConfig& config, const ParameterGroups& groups)
    : parameters_(&parameters),
      config_(config),
      runs_(parameters, config.weight_decay, groups),
      velocity_(parameters.gradients().size_bytes()) {
  check<ArgumentError>(config.momentum >= 0 && config.momentum < 1, "sgd: momentum ", config.momentum,
                       " is not in [0, 1)");
  check<ArgumentError>(config.weight_decay >= 0 && std::isfinite(config.weight_decay), "sgd: weight_decay ",
                       config.weight_decay, " is negative or not finite");
  check<ArgumentError>(!config.nesterov || config.momentum > 0, "sgd: nesterov needs momentum");
}

void Sgd::step(double lr, double gradient_scale) {
  real* const values = parameters_->edit().data();
  real* const gradients = parameters_->gradients().data();
  real* const velocity = velocity_.as<real>();
  const auto scale = static_cast<real>(gradient_scale);
  const auto momentum = static_cast<real>(config_.momentum);
  runs_.for_each([&](const TrainedRun& run) {
    const auto rate = static_cast<real>(lr * run.lr);
    const auto decay = static_cast<real>(run.weight_decay);
    for (std::size_t i = run.begin; i < run.end; ++i) {
      const real g = scale * gradients[i] + decay * values[i];
      velocity[i] = momentum * velocity[i] + g;
      values[i] -= rate * (config_.nesterov ? g + momentum * velocity[i] : velocity[i]);
      gradients[i] = 0;
    }
  });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
