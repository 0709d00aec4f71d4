// LibraryOptimiser: from a name to an object.
#include "library_optimiser.h"

namespace seppo {
inline namespace SEPPO_ABI {

LibraryOptimiser make_optimiser(Parameters& parameters, OptimizerKind kind, const OptimizerSettings& settings,
                                const ParameterGroups& groups) {
  const double weight_decay = settings.adam.weight_decay;
  if (kind == OptimizerKind::sgd)
    return Sgd(parameters, {.momentum = settings.momentum, .weight_decay = weight_decay}, groups);
  if (kind == OptimizerKind::adagrad) return Adagrad(parameters, {.weight_decay = weight_decay}, groups);
  return Adam(parameters, settings.adam, groups);
}

AnyOptimiser any_optimiser(LibraryOptimiser& optimiser) {
  return std::visit([](auto& chosen) { return AnyOptimiser(chosen); }, optimiser);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
