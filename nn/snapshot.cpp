// The state of a computation, kept and restored.
#include "snapshot.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {

Snapshot::Snapshot(Parameters& parameters, const char* when)
    : parameters_(parameters), random_(tape().random), fixed_(parameters, when) {
  tape().clear();  // throws during backward, before there is anything to restore
  values_.assign(parameters.values().begin(), parameters.values().end());
  gradients_.assign(parameters.gradients().begin(), parameters.gradients().end());
}

Snapshot::~Snapshot() {
  restore();
  std::ranges::copy(gradients_, parameters_.gradients().begin());
}

std::span<real> Snapshot::restore() {
  tape().clear();
  tape().random = random_;
  parameters_.zero_gradients();
  const std::span<real> values = parameters_.edit();
  std::ranges::copy(values_, values.begin());
  return values;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
