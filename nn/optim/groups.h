// Groups of parameters that an optimiser treats differently, chosen by name:
//
//   Adam adam(parameters, {.weight_decay = 0.01}, {{.prefix = "embedding.", .lr = 0.1}, {.prefix = "head.",
//   .weight_decay = 0}});
#pragma once

#include "../parameters.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace seppo::inline SEPPO_ABI {

// Of all parameters whose names begin with `prefix`; where several fit, the last holds.
struct ParameterGroup {
  std::string prefix;
  double lr = 1;                                      // times the learning rate of the step
  std::optional<double> weight_decay = std::nullopt;  // instead of the optimiser's; of vectors too
};
using ParameterGroups = std::vector<ParameterGroup>;

// A stretch of the flat blocks whose parameters are trained alike.
struct TrainedRun {
  std::size_t begin, end;
  double lr, weight_decay;
};

// What an optimiser moves: all but buffers and frozen parameters.
class TrainedRuns {
 public:
  // Throws ArgumentError for a group of no parameter, or whose numbers are negative or not finite.
  TrainedRuns(const Parameters& parameters, double weight_decay, const ParameterGroups& groups)
      : parameters_(&parameters), weight_decay_(weight_decay), groups_(groups), size_(parameters.values().size()) {
    runs_.reserve(parameters.entries().size());  // so that a step cannot fail for lack of memory
    for (const ParameterGroup& g : groups) {
      const auto is_member = [&](const auto& entry) { return entry.name.starts_with(g.prefix); };
      const double decay = g.weight_decay.value_or(0);
      check<ArgumentError>(g.lr >= 0 && decay >= 0 && g.lr + decay <= 1e30, "optimiser: group '", g.prefix, "' has lr ",
                           g.lr, " and weight_decay ", decay, ", which must be finite and not negative");
      check<ArgumentError>(std::ranges::any_of(parameters.entries(), is_member),
                           "optimiser: no parameter has a name that begins with '", g.prefix, "'");
    }
  }

  // As they are now. Throws StateError if parameters were added since.
  const std::vector<TrainedRun>& update() {
    check<StateError>(parameters_->values().size() == size_, "optimiser: parameters were added after it was made");
    runs_.clear();
    bool goes_on = false;  // the parameter before is the end of the last run
    for (const Parameters::Entry& entry : parameters_->entries()) {
      TrainedRun run{entry.offset, entry.offset + entry.size(), 1, entry.decay ? weight_decay_ : 0};
      for (const ParameterGroup& g : groups_)
        if (entry.name.starts_with(g.prefix))
          run.lr = g.lr, run.weight_decay = g.weight_decay.value_or(entry.decay ? weight_decay_ : 0);
      if (goes_on && entry.trained && runs_.back().lr == run.lr && runs_.back().weight_decay == run.weight_decay)
        runs_.back().end = run.end;
      else if (entry.trained)
        runs_.push_back(run);
      goes_on = entry.trained;
    }
    return runs_;
  }

 private:
  const Parameters* parameters_;
  double weight_decay_;
  ParameterGroups groups_;
  std::size_t size_;
  std::vector<TrainedRun> runs_;
};

}  // namespace seppo::inline SEPPO_ABI
