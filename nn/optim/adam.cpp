// Adam: cuts the flat block into pieces for the threads and these at the ends of runs, for the kernel.
#include "adam.h"

#include "../../autograd/core/parallel.h"
#include "../../autograd/kernels/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace seppo::inline SEPPO_ABI {

Adam::Adam(Parameters& parameters, const AdamConfig& config, const ParameterGroups& groups)
    : parameters_(&parameters),
      config_(check_config("adam", config)),
      runs_(parameters, config.weight_decay, groups),
      size_(parameters.gradients().size()),
      m_(size_ * sizeof(real)),
      v_(size_ * sizeof(real)) {}

void Adam::step(double lr, double gradient_scale) {
  const std::vector<TrainedRun>& runs = runs_.update();
  ++steps_;
  const double t = static_cast<double>(steps_);
  const kernels::AdamStep step{.lr = lr,
                               .beta1 = config_.betas[0],
                               .beta2 = config_.betas[1],
                               .eps = config_.eps,
                               .weight_decay = 0,
                               .decoupled = config_.decoupled,
                               .correction1 = 1 - std::pow(config_.betas[0], t),
                               .correction2 = 1 - std::pow(config_.betas[1], t),
                               .gradient_scale = gradient_scale};
  const std::span<real> values = parameters_->values(), gradients = parameters_->gradients();
  constexpr std::size_t kGrain = std::size_t{1} << 14;
  parallel_for(0, values.size(), kGrain, [&](std::size_t begin, std::size_t end) {
    kernels::AdamStep own = step;
    for (const TrainedRun& run : runs) {
      const std::size_t first = std::max(begin, run.begin), last = std::min(end, run.end);
      if (first >= last) continue;
      own.lr = lr * run.lr;
      own.weight_decay = run.weight_decay;
      kernels::adam(values.data() + first, gradients.data() + first, m_.as<real>() + first, v_.as<real>() + first,
                    last - first, own);
    }
  });
}

// In blocks whose sums are added in order, so that the result does not depend on the number of threads.
double gradient_norm(const Parameters& parameters) {
  std::array<double, 64> squares{};
  const std::span<const real> g = parameters.gradients();
  const std::size_t block = std::max(std::size_t{1} << 20, (g.size() + squares.size() - 1) / squares.size());
  parallel_for(0, g.size(), block, [&](std::size_t begin, std::size_t end) {
    squares[begin / block] = kernels::squared_norm(g.data() + begin, end - begin);
  });
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
}

}  // namespace seppo::inline SEPPO_ABI
