#include "adam.h"

#include "../../autograd/kernels/kernels.h"
#include "../../autograd/core/parallel.h"

#include <algorithm>
#include <cmath>

namespace seppo::inline SEPPO_ABI {

Adam::Adam(Parameters& parameters, const AdamOptions& options)
    : parameters_(&parameters),
      options_(options),
      size_(parameters.values().size()),
      m_(size_ * sizeof(real)),
      v_(size_ * sizeof(real)) {
  for (const double beta : {options.beta1, options.beta2})
    check<ArgumentError>(beta >= 0 && beta < 1, "adam: beta ", beta, " is not in [0, 1)");
  check<ArgumentError>(options.eps >= 0 && options.weight_decay >= 0, "adam: eps ", options.eps,
                       " and weight_decay ", options.weight_decay, " must not be negative");
  for (const auto& entry : parameters.entries())
    if (runs_.empty() || runs_.back().decay != entry.decay) {
      if (!runs_.empty()) runs_.back().end = entry.offset;
      runs_.push_back({entry.offset, size_, entry.decay});
    }
}

void Adam::step(double lr, double gradient_scale) {
  check<StateError>(parameters_->values().size() == size_, "adam: parameters were added after the optimiser was made");
  ++steps_;
  const double t = static_cast<double>(steps_);
  const kernels::AdamStep step{.lr = lr,
                               .beta1 = options_.beta1,
                               .beta2 = options_.beta2,
                               .eps = options_.eps,
                               .weight_decay = 0,
                               .decoupled = options_.decoupled,
                               .correction1 = 1 - std::pow(options_.beta1, t),
                               .correction2 = 1 - std::pow(options_.beta2, t),
                               .gradient_scale = gradient_scale};
  const std::span<real> values = parameters_->values(), gradients = parameters_->gradients();
  constexpr std::size_t kGrain = std::size_t{1} << 14;
  parallel_for(0, values.size(), kGrain, [&](std::size_t begin, std::size_t end) {
    kernels::AdamStep own = step;
    for (const Run& run : runs_) {
      const std::size_t first = std::max(begin, run.begin), last = std::min(end, run.end);
      if (first >= last) continue;
      own.weight_decay = run.decay ? options_.weight_decay : 0;
      kernels::adam(values.data() + first, gradients.data() + first, m_.as<real>() + first, v_.as<real>() + first,
                    last - first, own);
    }
  });
}

double gradient_norm(const Parameters& parameters) {
  return std::sqrt(kernels::squared_norm(parameters.gradients().data(), parameters.gradients().size()));
}

}  // namespace seppo::inline SEPPO_ABI
