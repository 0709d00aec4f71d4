// Adam: the kernel does the work.
#include "adam.h"

#include "../../autograd/kernels/kernels.h"

#include <cmath>

namespace seppo {
inline namespace SEPPO_ABI {

Adam::Adam(Parameters& parameters, const AdamConfig& config, const ParameterGroups& groups)
    : parameters_(&parameters),
      config_(check_config("adam", config)),
      runs_(parameters, config.weight_decay, groups),
      m_(parameters.gradients().size_bytes()),
      v_(parameters.gradients().size_bytes()) {}

void Adam::step(double lr, double gradient_scale) {
  const double t = static_cast<double>(steps_ + 1);
  const kernels::AdamStep step{.lr = lr,
                               .beta1 = config_.betas[0],
                               .beta2 = config_.betas[1],
                               .eps = config_.eps,
                               .weight_decay = 0,
                               .decoupled = config_.decoupled,
                               .correction1 = 1 - std::pow(config_.betas[0], t),
                               .correction2 = 1 - std::pow(config_.betas[1], t),
                               .gradient_scale = gradient_scale};
  real* const values = parameters_->edit().data();
  real* const gradients = parameters_->gradients().data();
  runs_.for_each([&](const TrainedRun& run) {
    kernels::AdamStep own = step;
    own.lr = lr * run.lr;
    own.weight_decay = run.weight_decay;
    kernels::adam(values + run.begin, gradients + run.begin, m_.as<real>() + run.begin, v_.as<real>() + run.begin,
                  run.end - run.begin, own);
  });
  ++steps_;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
