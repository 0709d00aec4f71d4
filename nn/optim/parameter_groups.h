// Parameter groups: options of an optimiser for parameters chosen by name.
//
//   Adam adam(parameters, {.weight_decay = 0.01}, {{.prefix = "a.", .lr = 0.1}, {.prefix = "b.", .weight_decay = 0}});
#pragma once

#include "../../autograd/core/real.h"

#include <optional>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// Options of all parameters whose names begin with `prefix`; where several groups match, the last one applies.
struct ParameterGroup {
  std::string prefix;
  double lr = 1;                                      // factor of the step's learning rate
  std::optional<double> weight_decay = std::nullopt;  // replaces the optimiser's; applies to vectors too
};
using ParameterGroups = std::vector<ParameterGroup>;

}  // namespace SEPPO_ABI
}  // namespace seppo
