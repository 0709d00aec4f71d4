// Trainer: one training step, whole; a program's loop is batches and reports.
//
//   Trainer trainer(parameters, {.lr = 3e-3, .schedule = ScheduleKind::cosine, .warmup_steps = 20, .steps = 300});
//   Sampler sampler(data.size(), {.batch_size = 64});
//   while (trainer.steps() < 300) {
//     const StepResult now = trainer.step(sampler.next(), [&](std::span<const int> rows) {
//       return classification_loss(model(data.pick(rows)), labels_of(rows));
//     });
//   }
//
// A step cuts the batch into fixed shards (DataParallel), runs forward and backward of each on the threads, adds up
// losses and gradients, divides once by what was counted, checks that all is finite, clips, and moves the parameters
// by Adam at the schedule's learning rate. Its bytes depend neither on the number of threads nor on anything but the
// state of the trainer and the batch.
//
// That state is the parameters, Adam's two moments and the number of steps taken: dropout is keyed by seed and step,
// the learning rate is a function of the step, and the sampler can seek to the step's batch. Until the division by the
// count all quantities are sums, which several machines may add.
#pragma once

#include "../optim/adam.h"
#include "../optim/schedule.h"
#include "data_parallel.h"

#include <cstdint>
#include <span>

namespace seppo::inline SEPPO_ABI {

struct TrainerConfig {
  double lr = 1e-3, min_lr = 0;
  ScheduleKind schedule = ScheduleKind::constant;
  int warmup_steps = 0;
  std::int64_t steps = 0;  // of the whole training, which cosine and linear schedules need; not a field
  AdamConfig adam = {};
  double clip_norm = 1;
  std::uint64_t seed = 0;  // of dropout

  void fields(ConfigVisitor& v);
  // min_lr <= lr; noam needs warm-up; cosine and linear need steps.
  void validate() const;
};

// The learning rate of each step. Noam's curve is scaled so that its peak is lr.
Schedule make_schedule(const TrainerConfig& config);

// Loss and accuracy are means over what the loss function counted; the norm is that of the mean's gradient, before
// clipping.
struct StepResult {
  std::int64_t step = 0;  // from 1
  double loss = 0, accuracy = 0, gradient_norm = 0, lr = 0;
};

class Trainer {
 public:
  // All parameters must have been made. Throws ArgumentError for a config out of range.
  explicit Trainer(Parameters& parameters, const TrainerConfig& config = {});

  // One step on the examples `rows`. loss(some of rows) returns sums over these (ShardLoss); it is called once for each
  // shard, from several threads at once, each with a tape of its own. The caller's tape is not touched.
  // Throws NumericError if the loss or its gradient is not finite, ArgumentError if nothing was counted, and what
  // `loss` throws. Parameters, moments and the number of steps are then as before, and the gradients zero.
  StepResult step(std::span<const int> rows, FunctionRef<ShardLoss(std::span<const int> rows)> loss);

  std::int64_t steps() const { return adam_.steps(); }  // taken
  const TrainerConfig& config() const { return config_; }

 private:
  Parameters* parameters_;
  TrainerConfig config_;
  Schedule schedule_;
  Adam adam_;
  DataParallel data_parallel_;
};

}  // namespace seppo::inline SEPPO_ABI
