// Trainer: where a step's sums become means, and these a move of the parameters.
#include "trainer.h"

#include <cmath>

namespace seppo::inline SEPPO_ABI {
namespace {

TrainerConfig checked(const TrainerConfig& config) {
  check_config("trainer", config);
  return config;
}

}  // namespace

void TrainerConfig::fields(ConfigVisitor& v) {
  v("lr", lr, {1e-12, 100}, "peak learning rate");
  v("min_lr", min_lr, {0, 100}, "learning rate at the end of a cosine or linear schedule");
  v("warmup_steps", warmup_steps, {0, 1e9}, "steps of linear warm-up to the peak");
  v("schedule", schedule, "course of the learning rate after warm-up; noam falls as 1 / sqrt(step)");
  adam.fields(v);
  v("clip_norm", clip_norm, {0, 1e9}, "gradient clipping norm; 0 turns it off");
  v("seed", seed, "random seed for initialisation, shuffling, dropout and generated data");
}

void TrainerConfig::validate() const {
  const char* name = enum_names(schedule)[static_cast<std::size_t>(schedule)];
  const bool is_falling = schedule == ScheduleKind::cosine || schedule == ScheduleKind::linear;
  check<ArgumentError>(min_lr <= lr, "trainer: min_lr ", min_lr, " is above lr ", lr);
  check<ArgumentError>(schedule != ScheduleKind::noam || warmup_steps > 0,
                       "trainer: the noam schedule needs warmup_steps of at least 1");
  check<ArgumentError>(!is_falling || steps > 0, "trainer: the ", name, " schedule needs steps, of the whole training");
}

Schedule make_schedule(const TrainerConfig& c) {
  c.validate();
  switch (c.schedule) {
    case ScheduleKind::cosine:
      return cosine_schedule(c.lr, c.warmup_steps, c.steps, c.min_lr);
    case ScheduleKind::linear:
      return linear_schedule(c.lr, c.warmup_steps, c.steps, c.min_lr);
    case ScheduleKind::noam:
      return noam_schedule(1, c.warmup_steps, c.lr * std::sqrt(c.warmup_steps));
    case ScheduleKind::constant:
      break;
  }
  return constant_schedule(c.lr, c.warmup_steps);
}

Trainer::Trainer(Parameters& parameters, const TrainerConfig& config)
    : parameters_(&parameters),
      config_(checked(config)),
      schedule_(make_schedule(config)),
      adam_(parameters, config.adam),
      data_parallel_(parameters) {}

StepResult Trainer::step(std::span<const int> rows, FunctionRef<ShardLoss(std::span<const int> rows)> loss) {
  const std::int64_t step = steps() + 1;
  const StepLoss sums = data_parallel_.backward(
      rows.size(), config_.seed, static_cast<std::uint32_t>(step),
      [&](std::size_t first, std::size_t last) { return loss(rows.subspan(first, last - first)); });
  const double mean = sums.loss / sums.count, norm = gradient_norm(*parameters_) / sums.count;
  if (!(sums.count > 0) || !std::isfinite(mean) || !std::isfinite(norm)) {
    parameters_->zero_gradients();
    check<ArgumentError>(sums.count > 0, "trainer: step ", step, ": the loss counted ", sums.count, " for ",
                         rows.size(), " rows; its count must be positive");
    fail<NumericError>("trainer: step ", step, ": loss ", mean, " or gradient norm ", norm,
                       " is not finite; try a lower lr than ", schedule_(step));
  }
  const double lr = schedule_(step);
  adam_.step(lr, clip_factor(norm, config_.clip_norm) / sums.count);
  return {step, mean, sums.correct / sums.count, norm, lr};
}

}  // namespace seppo::inline SEPPO_ABI
