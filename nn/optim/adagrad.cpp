// Adagrad: its formula, in a loop.
#include "adagrad.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

void check_range(const char* name, double value) {
  check<ArgumentError>(value >= 0 && std::isfinite(value), "adagrad: ", name, " ", value, " is negative or not finite");
}

}  // namespace

Adagrad::Adagrad(Parameters& parameters, const AdagradConfig& config, const ParameterGroups& groups)
    : parameters_(&parameters),
      config_(config),
      runs_(parameters, config.weight_decay, groups),
      squares_(parameters.gradients().size_bytes()) {
  check_range("eps", config.eps);
  check_range("initial", config.initial);
  check_range("weight_decay", config.weight_decay);
  check<ArgumentError>(static_cast<real>(config.eps) > 0, "adagrad: eps ", config.eps, " is 0");
  std::ranges::fill(squares(), static_cast<real>(config.initial));
}

void Adagrad::step(double lr, double gradient_scale) {
  constexpr real kMost = std::numeric_limits<real>::max();
  static const real kLargest = std::sqrt(kMost);
  real* const values = parameters_->edit().data();
  real* const gradients = parameters_->gradients().data();
  real* const sums = squares().data();
  const auto scale = static_cast<real>(gradient_scale);
  const auto eps = static_cast<real>(config_.eps);
  runs_.for_each([&](const TrainedRun& run) {
    const auto rate = static_cast<real>(lr * run.lr);
    const auto decay = static_cast<real>(run.weight_decay);
    for (std::size_t i = run.begin; i < run.end; ++i) {
      const real g = std::clamp(scale * gradients[i] + decay * values[i], -kLargest, kLargest);
      sums[i] = std::min(sums[i] + g * g, kMost);
      values[i] -= rate * g / (std::sqrt(sums[i]) + eps);
      gradients[i] = 0;
    }
  });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
