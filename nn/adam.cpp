#include <seppo/nn/adam.h>

#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/parallel.h>

#include <algorithm>
#include <cmath>

namespace seppo::inline SEPPO_ABI {

Adam::Adam(Parameters& parameters, const AdamOptions& options)
    : parameters_(&parameters), options_(options), m_(parameters.values().size()), v_(parameters.values().size()) {
  for (const double beta : {options.beta1, options.beta2})
    check<ArgumentError>(beta >= 0 && beta < 1, "adam: beta ", beta, " is not in [0, 1)");
  check<ArgumentError>(options.epsilon >= 0 && options.weight_decay >= 0, "adam: epsilon ", options.epsilon,
                       " and weight_decay ", options.weight_decay, " must not be negative");
}

void Adam::step(double lr, double gradient_scale) {
  check<StateError>(parameters_->values().size() == m_.size(),
                    "adam: parameters were added after the optimiser was made");
  ++steps_;
  const double t = static_cast<double>(steps_);
  kernels::AdamStep step{.lr = lr,
                         .beta1 = options_.beta1,
                         .beta2 = options_.beta2,
                         .epsilon = options_.epsilon,
                         .weight_decay = 0,
                         .decoupled = options_.decoupled,
                         .correction1 = 1 - std::pow(options_.beta1, t),
                         .correction2 = 1 - std::pow(options_.beta2, t),
                         .gradient_scale = gradient_scale};
  const std::span<real> values = parameters_->values(), gradients = parameters_->gradients();
  // Runs of neighbours with the same decay, each in pieces that threads can share.
  const auto& entries = parameters_->entries();
  for (auto first = entries.begin(); first != entries.end();) {
    const auto last = std::find_if(first, entries.end(), [&](const auto& e) { return e.decay != first->decay; });
    const std::size_t end = last == entries.end() ? values.size() : last->offset;
    step.weight_decay = first->decay ? options_.weight_decay : 0;
    constexpr std::size_t kGrain = std::size_t{1} << 16;
    parallel_for(first->offset, end, kGrain, [&](std::size_t i, std::size_t j) {
      kernels::adam(values.data() + i, gradients.data() + i, m_.data() + i, v_.data() + i, j - i, step);
    });
    first = last;
  }
}

double gradient_norm(const Parameters& parameters) {
  return std::sqrt(kernels::squared_norm(parameters.gradients().data(), parameters.gradients().size()));
}

}  // namespace seppo::inline SEPPO_ABI
