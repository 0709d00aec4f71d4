// Ema: its formula, in a loop.
#include "ema.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

Ema::Ema(Parameters& parameters, double decay)
    : parameters_(&parameters),
      runs_(parameters, 0, {}),
      decay_(decay),
      averages_(parameters.gradients().size_bytes()) {
  check<ArgumentError>(decay >= 0 && decay < 1, "ema: decay ", decay, " is not in [0, 1)");
}

void Ema::update() {
  const auto rate = static_cast<real>((1 - decay_) / (1 - std::pow(decay_, static_cast<double>(updates_ + 1))));
  const real* const values = parameters_->values().data();
  real* const averages = averages_.as<real>();
  runs_.for_each([&](const TrainedRun& run) {
    for (std::size_t i = run.begin; i < run.end; ++i) averages[i] += rate * (values[i] - averages[i]);
  });
  ++updates_;
}

void Ema::swap() {
  real* const values = parameters_->edit().data();
  real* const averages = averages_.as<real>();
  runs_.for_each([&](const TrainedRun& run) {
    if (updates_ > 0) std::swap_ranges(values + run.begin, values + run.end, averages + run.begin);
  });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
