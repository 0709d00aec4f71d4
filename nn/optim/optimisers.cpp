// Optimisers: the flat block is cut into pieces for the threads, and also at the ends of runs.
#include "optimisers.h"

#include "../../autograd/core/parallel.h"
#include "../../autograd/kernels/kernels.h"

#include <numeric>
#include <utility>

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

Adam::Adam(Parameters& parameters, const AdamConfig& config, const ParameterGroups& groups)
    : parameters_(&parameters),
      config_(check_config("adam", config)),
      runs_(parameters, config.weight_decay, groups),
      m_(parameters.gradients().size_bytes()),
      v_(parameters.gradients().size_bytes()) {}

void Adam::step(double lr, double gradient_scale) {
  const double t = static_cast<double>(steps_ + 1);
  const kernels::AdamStep step{.lr = lr,
                               .beta1 = config_.betas[0],
                               .beta2 = config_.betas[1],
                               .eps = config_.eps,
                               .weight_decay = 0,
                               .decoupled = config_.decoupled,
                               .correction1 = 1 - std::pow(config_.betas[0], t),
                               .correction2 = 1 - std::pow(config_.betas[1], t),
                               .gradient_scale = gradient_scale};
  real *const values = parameters_->values().data(), *const gradients = parameters_->gradients().data();
  runs_.for_each([&](const TrainedRun& run) {
    kernels::AdamStep own = step;
    own.lr = lr * run.lr;
    own.weight_decay = run.weight_decay;
    kernels::adam(values + run.begin, gradients + run.begin, m_.as<real>() + run.begin, v_.as<real>() + run.begin,
                  run.end - run.begin, own);
  });
  ++steps_;
}

Sgd::Sgd(Parameters& parameters, const SgdConfig& config, const ParameterGroups& groups)
    : parameters_(&parameters),
      config_(config),
      runs_(parameters, config.weight_decay, groups),
      velocity_(parameters.gradients().size_bytes()) {
  check<ArgumentError>(config.momentum >= 0 && config.momentum < 1, "sgd: momentum ", config.momentum,
                       " is not in [0, 1)");
  check<ArgumentError>(config.weight_decay >= 0 && std::isfinite(config.weight_decay), "sgd: weight_decay ",
                       config.weight_decay, " is negative or not finite");
  check<ArgumentError>(!config.nesterov || config.momentum > 0, "sgd: nesterov needs momentum");
}

void Sgd::step(double lr, double gradient_scale) {
  real *const values = parameters_->values().data(), *const gradients = parameters_->gradients().data();
  real* const velocity = velocity_.as<real>();
  const auto scale = static_cast<real>(gradient_scale), momentum = static_cast<real>(config_.momentum);
  runs_.for_each([&](const TrainedRun& run) {
    const auto rate = static_cast<real>(lr * run.lr), decay = static_cast<real>(run.weight_decay);
    for (std::size_t i = run.begin; i < run.end; ++i) {
      const real g = scale * gradients[i] + decay * values[i];
      velocity[i] = momentum * velocity[i] + g;
      values[i] -= rate * (config_.nesterov ? g + momentum * velocity[i] : velocity[i]);
      gradients[i] = 0;
    }
  });
}

Ema::Ema(Parameters& parameters, double decay)
    : parameters_(&parameters),
      runs_(parameters, 0, {}),
      decay_(decay),
      averages_(parameters.gradients().size_bytes()) {
  check<ArgumentError>(decay >= 0 && decay < 1, "ema: decay ", decay, " is not in [0, 1)");
}

void Ema::update() {
  const auto rate = static_cast<real>((1 - decay_) / (1 - std::pow(decay_, static_cast<double>(updates_ + 1))));
  const real* const values = std::as_const(*parameters_).values().data();
  real* const averages = averages_.as<real>();
  runs_.for_each([&](const TrainedRun& run) {
    for (std::size_t i = run.begin; i < run.end; ++i) averages[i] += rate * (values[i] - averages[i]);
  });
  ++updates_;
}

void Ema::swap() {
  real *const values = parameters_->values().data(), *const averages = averages_.as<real>();
  runs_.for_each([&](const TrainedRun& run) {
    if (updates_ > 0) std::swap_ranges(values + run.begin, values + run.end, averages + run.begin);
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

}  // namespace SEPPO_ABI
}  // namespace seppo
