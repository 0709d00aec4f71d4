// Parameter groups: the flat block is cut into pieces for the threads, and also at the ends of runs.
#include "parameter_groups.h"

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

void TrainedRuns::for_each(FunctionRef<void(const TrainedRun&)> f) {
  check<StateError>(parameters_->values().size() == size_, "optimiser: parameters were added after it was made");
  runs_.clear();
  bool goes_on = false;  // the previous parameter belongs to the last run
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
  constexpr std::size_t kGrain = std::size_t{1} << 14;
  parallel_for(0, size_, kGrain, [&](std::size_t begin, std::size_t end) {
    for (TrainedRun run : runs_) {
      run.begin = std::max(begin, run.begin), run.end = std::min(end, run.end);
      if (run.begin < run.end) f(run);
    }
  });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
