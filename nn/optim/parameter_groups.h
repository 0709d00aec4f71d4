// Parameter groups: options of an optimiser for parameters chosen by name, and the runs of the flat block that they
// make.
//
//   Adam adam(parameters, {.weight_decay = 0.01}, {{.prefix = "a.", .lr = 0.1}, {.prefix = "b.", .weight_decay = 0}});
#pragma once

#include "../../autograd/core/function_ref.h"
#include "../parameters.h"

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

// A run of the flat blocks whose parameters share their options.
struct TrainedRun {
  std::size_t begin, end;
  double lr, weight_decay;
};

// What an optimiser updates: everything but buffers and frozen parameters.
class TrainedRuns {
 public:
  // Throws ArgumentError for a group that matches no parameter, or whose numbers are negative or not finite.
  TrainedRuns(const Parameters& parameters, double weight_decay, const ParameterGroups& groups);

  // Calls f, on all threads, for pieces that together are everything that is trained now. Throws StateError if
  // parameters were added.
  void for_each(FunctionRef<void(const TrainedRun& piece)> f);

 private:
  const Parameters* parameters_;
  double weight_decay_;
  ParameterGroups groups_;
  std::size_t size_;
  std::vector<TrainedRun> runs_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
