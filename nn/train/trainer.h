// Trainer: a complete training step, so that a program's loop only draws batches and reports.
//
//   Trainer trainer(parameters, {.lr = 3e-3, .schedule = ScheduleKind::cosine, .warmup_steps = 20, .steps = 300});
//   Sampler sampler(data.size(), {.batch_size = 64});
//   while (trainer.steps() < 300) {
//     const StepResult now = trainer.step(sampler.next(), [&](std::span<const int> some) {
//       return classification_loss(model(data.pick(some)), labels_of(some));
//     });
//   }
//
// A step runs forward and backward of the batch's shards on all threads and ranks (data_parallel.h), divides once by
// what was counted, checks that everything is finite, clips, and applies Adam with the schedule's learning rate. Its
// bytes depend on nothing but the state of the trainer and the batch.
//
// That state is the parameters, Adam's two moments, averages if any, and the number of steps taken: dropout is keyed by
// seed and step, the learning rate is a function of the step, and the sampler can seek to the step's batch. So
// training resumes as if it had never stopped:
//
//   trainer.load("checkpoint.safetensors");   // which trainer.save("checkpoint.safetensors") wrote
//   sampler.seek(trainer.steps());
//
// The loss function sees a part of the batch, a shard, so it must be a sum over examples. A loss that compares the
// batch's examples with each other (InfoNCE, in-batch negatives, batch statistics of one's own) would compare only
// those of a shard: it needs whole_batch, and a mean is made a sum by mean_loss() (data_parallel.h):
//
//   Trainer trainer(parameters, {.whole_batch = true});
//   trainer.step(sampler.next(), [&](std::span<const int> all) {  // called once
//     return mean_loss(info_nce(images(all), texts(all)), all.size());
//   });
//
// Under mpirun, the ranks (ranks.h) share the shards of each step. The program stays as it is: every rank passes the
// same examples, and has the same parameters after each step.
#pragma once

#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/list.h"
#include "../io/checkpoint.h"
#include "../optim/adam.h"
#include "../optim/ema.h"
#include "../optim/parameter_groups.h"
#include "../optim/schedule.h"
#include "data_parallel.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// What to do about a step whose loss or gradient is not finite.
enum class OnNan {
  stop,  // step() throws
  skip   // the step is skipped; one hundred in a row end the training nevertheless
};
inline std::span<const char* const> enum_names(OnNan) {
  static constexpr const char* kNames[] = {"stop", "skip"};
  return kNames;
}

struct TrainerConfig {
  double lr = 1e-3, min_lr = 0;
  ScheduleKind schedule = ScheduleKind::constant;
  int warmup_steps = 0;
  std::int64_t steps = 0;  // in the whole training, needed by cosine and linear schedules; not a field
  AdamConfig adam = {};
  double clip_norm = 1;
  int accumulate = 1;  // gradient accumulation: rounds per step, in the memory of one; see DataParallel
  int shards = 0;      // in each round; 0: by the sizes of model and batch
  // One call of the loss sees the whole batch, which is then one shard: threads share the work within its ops only, and
  // of several ranks one works. Needs accumulate = 1, and shards = 0 or 1. Not a field: it belongs to the loss.
  bool whole_batch = false;
  double ema_decay = 0;  // of the averages kept beside the parameters; 0: none. Not a field
  OnNan on_nan = OnNan::stop;
  std::uint64_t seed = 0;  // of dropout

  void fields(ConfigVisitor& v);
  // min_lr <= lr; noam needs warm-up; cosine and linear need steps; a whole batch is one shard in one round.
  void validate() const;
};

inline Schedule make_schedule(const TrainerConfig& c) {
  c.validate();
  return {c.schedule, c.lr, c.min_lr, c.warmup_steps, c.steps};
}

// Loss and accuracy are means over what the loss function counted; the gradient norm is that before clipping.
struct StepResult {
  std::int64_t step = 0;  // from 1
  double loss = 0, accuracy = 0, gradient_norm = 0, lr = 0;
  bool is_skipped = false;  // loss or gradient was not finite, and nothing was updated
};

class Trainer {
 public:
  // All parameters must have been made. Throws ArgumentError for a config or a group out of range.
  explicit Trainer(Parameters& parameters, const TrainerConfig& config = {}, const ParameterGroups& groups = {});

  // One step on these examples. loss(some of them) returns sums over these (ShardLoss); it is called once for each
  // shard, concurrently from several threads, each with its own tape; with whole_batch once, with all examples. The
  // caller's tape is not touched.
  // Throws StateError if `loss` calls backward, adds parameters, or would bring gradients to other Parameters than
  // those being trained, such as a teacher's: freeze these (Parameters::freeze), or compute with them within NoGrad.
  // Throws NumericError if the loss or its gradient is not finite, naming the parameter, or the op and module, where it
  // arose; ArgumentError if nothing was counted, or a count is negative or not finite; and whatever `loss` throws.
  // Parameters, buffers, moments and steps() are then unchanged, and the gradients zero.
  StepResult step(std::span<const int> examples, FunctionRef<ShardLoss(std::span<const int> some)> loss);

  std::int64_t steps() const { return steps_; }  // taken, or skipped
  // The averages kept if config().ema_decay > 0, updated by each step that is not skipped: to evaluate or save with
  // them, call swap() before and after. Throws StateError if there are none.
  Ema& averages();
  const TrainerConfig& config() const { return config_; }

  // Saves everything that later steps depend on, except the config and what is frozen: parameters, moments, averages,
  // steps; and `metadata`. Throws as save_checkpoint does (nn/io/checkpoint.h).
  void save(const std::filesystem::path& file, std::map<std::string, std::string> metadata = {}) const;
  // Continues as the trainer that saved the file, which must have had the same config and frozen parameters. Throws
  // FileError, or FormatError listing what does not fit. Averages must be in the file if and only if this trainer
  // keeps them. Nothing has changed then.
  void load(const SafeTensorsFile& file);
  void load(const std::filesystem::path& file) { load(SafeTensorsFile(file)); }

 private:
  using Examples = std::span<const int>;
  StepLoss backward(Examples examples, FunctionRef<ShardLoss(Examples)> loss, bool finds_anomaly = false);
  void update(const StepResult& step, double count);
  bool may_skip(const StepLoss& sums);
  [[noreturn]] void refuse_step(Examples examples, const StepLoss& sums, double norm,
                                FunctionRef<ShardLoss(Examples)> loss);
  std::string place_of_anomaly(Examples examples, FunctionRef<ShardLoss(Examples)> loss);
  std::vector<OptimizerBlock> state() const;
  void check_start() const;
  void check_ranks() const;

  Parameters* parameters_;
  TrainerConfig config_;
  std::int64_t steps_ = 0;
  int skipped_in_a_row_ = 0;
  Schedule schedule_;
  Adam adam_;
  std::optional<Ema> averages_;
  DataParallel data_parallel_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
