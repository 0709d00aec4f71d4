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
// what was counted, checks that everything is finite, clips, and applies Adam, or an optimiser of your choice, with the
// schedule's learning rate. Its bytes depend on nothing but the state of the trainer and the batch.
//
// That state is the parameters, the optimiser's, averages if any, and the number of steps taken: dropout is keyed by
// seed and step, the learning rate is a function of the step, or saved, and the sampler can seek to the step's batch.
// So training resumes as if it had never stopped:
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
// Another of the library's optimisers, by name; one of your own (nn/optim/optimiser.h), or with settings that the
// config does not have; and another schedule:
//
//   Trainer trainer(parameters, {.lr = 0.1, .optimizer = OptimizerKind::sgd});
//   Sgd sgd(parameters, {.momentum = 0.9, .nesterov = true});
//   Trainer trainer(parameters, sgd);
//   trainer.set_schedule([](std::int64_t step) { return 0.1 * std::pow(0.5, step / 1000); });
//
// Each of several models that learn from each other, such as generator and critic, has Parameters and a Trainer of its
// own: while one learns, the others are frozen. What learns together, such as actor and critic, can also be scopes of
// one Parameters, with a learning rate for each (nn/optim/parameter_groups.h).
//
// Under mpirun, the ranks (ranks.h) share the shards of each step. The program stays as it is: every rank passes the
// same examples, and has the same parameters after each step.
#pragma once

#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/list.h"
#include "../../autograd/core/matmul_precision.h"
#include "../io/checkpoint.h"
#include "../optim/any_optimiser.h"
#include "../optim/ema.h"
#include "../optim/library_optimiser.h"
#include "../optim/parameter_groups.h"
#include "../optim/schedule.h"
#include "data_parallel.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
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
  OptimizerKind optimizer = OptimizerKind::adam;
  double momentum = 0.9;  // of sgd
  AdamConfig adam = {};   // its weight decay is that of every kind
  double clip_norm = 1;
  int accumulate = 1;  // gradient accumulation: rounds per step, in the memory of one; see DataParallel
  int shards = 0;      // in each round; 0: by the sizes of model and batch
  // One call of the loss sees the whole batch, which is then one shard: threads share the work within its ops only, and
  // of several ranks one works. Needs accumulate = 1, and shards = 0 or 1. Not a field: it belongs to the loss.
  bool whole_batch = false;
  double ema_decay = 0;  // of the averages kept beside the parameters; 0: none. Not a field
  OnNan on_nan = OnNan::stop;
  // Of each step's products; unless given, what holds where the config is made.
  MatmulPrecision matmul_precision = seppo::matmul_precision();
  std::uint64_t seed = 0;  // of dropout

  void fields(ConfigVisitor& v);
  // min_lr <= lr; noam needs warm-up; cosine and linear need steps; a whole batch is one shard in one round.
  void validate() const;
};

inline Schedule make_schedule(const TrainerConfig& c) {
  c.validate();
  return {c.schedule, c.lr, c.min_lr, c.warmup_steps, c.steps};
}

// One of several losses of a step, each a mean over examples of its own.
struct Objective {
  std::span<const int> examples;
  FunctionRef<ShardLoss(std::span<const int> some)> loss;
  double weight = 1;  // a factor of the mean
};

// Loss and accuracy are means over what the loss function counted; the gradient norm is that before clipping.
struct StepResult {
  std::int64_t step = 0;  // from 1
  double loss = 0, accuracy = 0, gradient_norm = 0, lr = 0;
  bool is_skipped = false;          // loss or gradient was not finite, and nothing was updated
  std::vector<double> losses = {};  // the mean of each objective, if there are several
};

class Trainer {
 public:
  // With the config's optimiser. All parameters must have been made. Throws ArgumentError for a config or a group out
  // of range.
  explicit Trainer(Parameters& parameters, const TrainerConfig& config = {}, const ParameterGroups& groups = {});
  // With an optimiser of these parameters, which must outlive the trainer; that of the config is not used. Throws
  // ArgumentError for a config out of range, and for an optimiser that has taken steps, or whose state has another
  // layout than the parameters, or a prefix that begins with neither "optimiser." nor "adam.".
  Trainer(Parameters& parameters, AnyOptimiser optimiser, const TrainerConfig& config = {});

  // One step on these examples. loss(some of them) returns sums over these (ShardLoss); it is called once for each
  // shard, concurrently from several threads, each with its own tape; with whole_batch once, with all examples. The
  // caller's tape is not touched.
  // Throws StateError if `loss` calls backward, adds parameters, or would bring gradients to other Parameters than
  // those being trained, such as a teacher's: freeze these (Parameters::freeze), or compute with them within NoGrad;
  // and, after the first step, if the optimiser left gradients behind.
  // Throws NumericError if the loss or its gradient is not finite, naming the parameter, or the op and module, where it
  // arose; ArgumentError if nothing was counted, a count is negative or not finite, a loss of several terms is a mean,
  // or the schedule's rate is negative or not finite; and whatever `loss` throws.
  // Parameters, buffers, moments and steps() are then unchanged, and the gradients zero.
  StepResult step(std::span<const int> examples, FunctionRef<ShardLoss(std::span<const int> some)> loss);
  // One step on the weighted sum of several means, such as a supervised loss of some examples and a consistency loss of
  // others: {{labelled, supervised}, {unlabelled, consistent, 0.3}}. Their dropout masks are those of one batch of all
  // examples. A single objective of weight 1 takes the same step as above. Throws the same; ArgumentError if there are
  // no objectives or a weight is not finite.
  StepResult step(List<Objective> objectives);

  // Replaces the config's schedule by the rate of each step, counted from 1. It should depend on nothing else, so that
  // a training that is resumed, with the same schedule set, has the same rates.
  void set_schedule(std::function<double(std::int64_t step)> lr) { schedule_ = std::move(lr); }
  // The rate of the steps to come, whatever the schedule says, or without a value as the schedule says. Saved and
  // loaded with the state. Throws ArgumentError for one that is negative or not finite.
  void set_lr(std::optional<double> lr);
  double lr() const;  // of the next step

  std::int64_t steps() const { return steps_; }  // taken, or skipped
  // The averages kept if config().ema_decay > 0, updated by each step that is not skipped: to evaluate or save with
  // them, call swap() before and after. Throws StateError if there are none.
  Ema& averages();
  const TrainerConfig& config() const { return config_; }

  // The tapes that steps compute on, one for each thread, without tensors: an evaluation between steps may use their
  // memory (UseTapes in evaluate.h).
  std::span<const std::unique_ptr<Tape>> tapes() { return data_parallel_.tapes(); }

  // Saves everything that later steps depend on, except the config, the schedule and what is frozen: parameters, the
  // optimiser's state, averages, steps, a rate that was set; and `metadata`. `frozen`: as save_checkpoint takes it.
  // Throws as save_checkpoint does (nn/io/checkpoint.h).
  void save(const std::filesystem::path& file, std::map<std::string, std::string> metadata = {},
            FrozenValues frozen = FrozenValues::saved) const;
  // Continues as the trainer that saved the file, which must have had the same config, schedule, optimiser and frozen
  // parameters. Throws FileError, or FormatError listing what does not fit. Averages must be in the file if and only if
  // this trainer keeps them. Nothing has changed then.
  void load(const SafeTensorsFile& file);
  void load(const std::filesystem::path& file) { load(SafeTensorsFile(file)); }

 private:
  using Examples = std::span<const int>;
  struct Means;
  Means backward(List<Objective> objectives);
  Means add_up(List<Objective> objectives);
  StepLoss backward(const Objective& objective, std::size_t earlier_examples, bool finds_anomaly = false);
  void update(const StepResult& step, double divisor);
  bool may_skip(const Means& means);
  [[noreturn]] void refuse_step(List<Objective> objectives, const Means& means, const StepResult& step);
  std::string place_of_anomaly(List<Objective> objectives);
  std::vector<OptimizerBlock> state() const;
  void begin(const ParameterGroups& groups);
  void check_optimiser() const;
  void check_start(const ParameterGroups& groups) const;
  void check_ranks() const;

  Parameters* parameters_;
  TrainerConfig config_;
  std::int64_t steps_ = 0;
  std::int64_t moves_ = 0;  // steps that were not skipped
  int skipped_in_a_row_ = 0;
  std::function<double(std::int64_t step)> schedule_;
  std::optional<double> lr_;             // that was set
  std::optional<LibraryOptimiser> own_;  // if no other optimiser was given
  AnyOptimiser optimiser_;
  bool is_checked_ = false;  // the optimiser has been seen to zero the gradients
  std::optional<Ema> averages_;
  DataParallel data_parallel_;
  Memory sum_;  // of several objectives' gradients
};

}  // namespace SEPPO_ABI
}  // namespace seppo
