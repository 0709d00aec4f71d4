// TrainedRuns: the flat block is cut into pieces for the threads, and also at the ends of runs.
#include "optimiser.h"

#include "../../autograd/core/parallel.h"

#include <algorithm>

namespace seppo {
inline namespace SEPPO_ABI {

TrainedRuns::TrainedRuns(const Parameters& parameters, double weight_decay, const ParameterGroups& groups)
    : parameters_(&parameters), weight_decay_(weight_decay), groups_(groups), size_(parameters.values().size()) {
  runs_.reserve(parameters.entries().size());  // so that a step cannot fail for lack of memory
  for (const ParameterGroup& g : groups) {
    const auto is_member = [&](const auto& entry) { return !entry.is_buffer && entry.name.starts_with(g.prefix); };
    const double decay = g.weight_decay.value_or(0);
    check<ArgumentError>(g.lr >= 0 && decay >= 0 && g.lr + decay <= 1e30, "optimiser: group '", g.prefix, "' has lr ",
                         g.lr, " and weight_decay ", decay, ", which must be finite and not negative");
    check<ArgumentError>(std::ranges::any_of(parameters.entries(), is_member),
                         "optimiser: no parameter has a name that begins with '", g.prefix, "'");
  }
}

TrainedRun TrainedRuns::run_of(const Parameters::Entry& entry) const {
  const double usual_decay = entry.decay ? weight_decay_ : 0;
  TrainedRun run{.begin = entry.offset, .end = entry.offset + entry.size(), .lr = 1, .weight_decay = usual_decay};
  for (const ParameterGroup& g : groups_) {
    if (!entry.name.starts_with(g.prefix)) continue;
    run.lr = g.lr;
    run.weight_decay = g.weight_decay.value_or(usual_decay);
  }
  return run;
}

// Anew for each step, since parameters may be frozen between them.
void TrainedRuns::find_runs() {
  runs_.clear();
  bool goes_on = false;  // the previous parameter belongs to the last run
  for (const Parameters::Entry& entry : parameters_->entries()) {
    const TrainedRun run = run_of(entry);
    const bool is_alike = goes_on && runs_.back().lr == run.lr && runs_.back().weight_decay == run.weight_decay;
    if (entry.trained && is_alike) {
      runs_.back().end = run.end;
    } else if (entry.trained) {
      runs_.push_back(run);
    }
    goes_on = entry.trained;
  }
}

void TrainedRuns::for_each(FunctionRef<void(const TrainedRun&)> f) {
  check<StateError>(parameters_->values().size() == size_, "optimiser: parameters were added after it was made");
  find_runs();
  constexpr std::size_t kGrain = std::size_t{1} << 14;
  parallel_for(0, size_, kGrain, [&](std::size_t begin, std::size_t end) {
    for (TrainedRun piece : runs_) {
      piece.begin = std::max(begin, piece.begin);
      piece.end = std::min(end, piece.end);
      if (piece.begin < piece.end) f(piece);
    }
  });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
