// TrainingConfig: its fields, and what sampler and trainer have in common.
#include "training_config.h"

#include "../../autograd/core/check.h"

#include <cstdint>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

// The sampler's batch is that of all rounds of a step, and has the same limit.
void check_step(const char* name, int batch, int accumulate) {
  constexpr std::int64_t kMost = 1'000'000;
  const std::int64_t all = std::int64_t{batch} * accumulate;
  check<ArgumentError>(all <= kMost, name, " ", batch, " times accumulate ", accumulate, " is more than ", kMost);
}

}  // namespace

void TrainingConfig::fields(ConfigVisitor& v) {
  v("epochs", epochs, {1, 1e6}, "passes over the training data, or parts of one: see --epoch-steps");
  v("max_steps", max_steps, {0, 2e9}, "stop after this many steps, on the schedule of all epochs; 0 for never");
  sampler.fields(v);
  trainer.fields(v);
  v("eval_interval", eval_interval, {1, 1e6}, "epochs between evaluations, after each of which a checkpoint is saved");
  v("best", best, "the measure whose best model is kept; `last` keeps the last");
  v("average", average, {1, 1000}, "at the end, also try the average of the models of the last N evaluations");
}

void TrainingConfig::validate() const {
  sampler.validate();
  TrainerConfig complete = trainer;
  complete.steps = 1;
  complete.validate();
  check_step("batch_size", sampler.batch_size, trainer.accumulate);
  check_step("batch_tokens", sampler.batch_tokens, trainer.accumulate);
}

SamplerConfig TrainingConfig::complete_sampler() const {
  SamplerConfig config = sampler;
  config.seed = trainer.seed;
  config.batch_size *= trainer.accumulate;
  config.batch_tokens *= trainer.accumulate;
  return config;
}

TrainerConfig TrainingConfig::complete_trainer(std::int64_t steps) const {
  TrainerConfig config = trainer;
  config.steps = steps;
  return config;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
