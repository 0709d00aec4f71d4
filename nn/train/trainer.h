// Trainer: one training step, whole; a program's loop is batches and reports. Losses and metrics to train by.
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
// That state is the parameters, Adam's two moments, averages if any, and the number of steps taken: dropout is keyed by
// seed and step, the learning rate is a function of the step, and the sampler can seek to the step's batch. So a
// training goes on as if it had never stopped:
//
//   trainer.load("checkpoint.safetensors");   // which trainer.save("checkpoint.safetensors") wrote
//   sampler.seek(trainer.steps());
//
// Until the division by the count all quantities are sums, which several machines may add.
#pragma once

#include "../../autograd/core/utility.h"
#include "../io/checkpoint.h"
#include "../optim/optimisers.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace seppo::inline SEPPO_ABI {

// What the loss function returns for a shard.
struct ShardLoss {
  Tensor loss;         // the sum, one element
  double count = 0;    // of what is summed
  double correct = 0;  // any statistic to be added up, such as correct predictions
};

// The same for a whole batch: sums, and their means over what was counted.
struct StepLoss {
  double loss = 0, count = 0, correct = 0;

  double mean() const { return loss / count; }
  double accuracy() const { return correct / count; }
  StepLoss& operator+=(const StepLoss& other) {
    loss += other.loss, count += other.count, correct += other.correct;
    return *this;
  }
};

// One training step's gradient, computed by many threads with the same bytes for any number of them.
//
// The batch is cut by sample index into a fixed number of shards. Each shard is run by one thread on
// a tape and gradient block of its own, then the blocks are added in a fixed binary tree. Losses and
// gradients are sums over what they count (tokens, say); the caller divides once, by the total.
class DataParallel {
 public:
  // More shards keep more threads busy; each costs a block of gradients and makes products smaller. By default (0)
  // there are five for up to 250,000 parameters, the last two half as large as the others, to even out threads of
  // unequal speed; four for up to a million; else two. A small batch may leave some without a sample.
  // With more than one round, a batch is cut into `rounds` times as many shards, of which `shards` are computed at a
  // time: for large batches in the memory for small ones. Since the tree is over all shards, R rounds of S shards give
  // the same bytes as one of R S.
  explicit DataParallel(Parameters& parameters, std::size_t shards = 0, std::size_t rounds = 1);

  // How many samples each shard has; the last may have none.
  std::vector<std::size_t> shard_sizes(std::size_t samples) const;

  // Calls loss(first, last) for the samples of each shard, runs backward on what it returns, and adds the gradients to
  // parameters.gradients(). `seed` and `step` key the dropout masks. Gradients are zero after a throw.
  // With `finds_anomaly` it does so in this thread, with FindAnomaly (autograd/tools/observers.h) looking on, which
  // throws NumericError for the first value that is not finite.
  StepLoss backward(std::size_t samples, std::uint64_t seed, std::uint32_t step,
                    FunctionRef<ShardLoss(std::size_t first, std::size_t last)> loss, bool finds_anomaly = false);

 private:
  std::size_t cut(std::size_t samples, std::size_t shard) const;
  real* take_block();
  void add_gradients(std::size_t first, std::size_t last);

  Parameters* parameters_;
  std::vector<std::size_t> cuts_;             // of the batch, as fractions of the last one
  std::size_t at_once_;                       // shards
  std::vector<Memory> gradients_;             // blocks besides the parameters' own, which the first shard uses
  std::vector<real*> free_, blocks_;          // those that no shard uses; that of each shard
  std::vector<StepLoss> losses_;              // of each shard
  std::vector<std::unique_ptr<Tape>> tapes_;  // one for each thread
};

// What becomes of a step whose loss or gradient is not finite.
enum class OnNan {
  stop,  // step() throws
  skip   // the step is left out; one hundred in a row end the training all the same
};
inline std::span<const char* const> enum_names(OnNan) {
  static constexpr const char* kNames[] = {"stop", "skip"};
  return kNames;
}

struct TrainerConfig {
  double lr = 1e-3, min_lr = 0;
  ScheduleKind schedule = ScheduleKind::constant;
  int warmup_steps = 0;
  std::int64_t steps = 0;  // of the whole training, which cosine and linear schedules need; not a field
  AdamConfig adam = {};
  double clip_norm = 1;
  int accumulate = 1;    // a step's examples are computed in so many rounds, in the memory of one; see DataParallel
  int shards = 0;        // of each round; 0: by the size of the model
  double ema_decay = 0;  // of the averages beside the parameters; 0: none. Not a field
  OnNan on_nan = OnNan::stop;
  std::uint64_t seed = 0;  // of dropout

  void fields(ConfigVisitor& v);
  // min_lr <= lr; noam needs warm-up; cosine and linear need steps.
  void validate() const;
};

inline Schedule make_schedule(const TrainerConfig& c) {
  c.validate();
  return {c.schedule, c.lr, c.min_lr, c.warmup_steps, c.steps};
}

// Loss and accuracy are means over what the loss function counted; the norm is that of the mean's gradient, before
// clipping.
struct StepResult {
  std::int64_t step = 0;  // from 1
  double loss = 0, accuracy = 0, gradient_norm = 0, lr = 0;
  bool is_skipped = false;  // loss or gradient was not finite, and nothing moved
};

class Trainer {
 public:
  // All parameters must have been made. Throws ArgumentError for a config or a group out of range.
  explicit Trainer(Parameters& parameters, const TrainerConfig& config = {}, const ParameterGroups& groups = {});

  // One step on the examples `rows`. loss(some of rows) returns sums over these (ShardLoss); it is called once for each
  // shard, from several threads at once, each with a tape of its own. The caller's tape is not touched.
  // Throws NumericError if the loss or its gradient is not finite, naming the parameter, or the op and the module, that
  // it comes from; ArgumentError if nothing was counted, and what `loss` throws. Parameters, moments and the number of
  // steps are then as before, and the gradients zero.
  StepResult step(std::span<const int> rows, FunctionRef<ShardLoss(std::span<const int> rows)> loss);

  std::int64_t steps() const { return steps_; }  // taken, or skipped
  // The averages of config().ema_decay, updated in each step that is not skipped: to evaluate or save with them, swap()
  // before and after. Throws StateError if there are none.
  Ema& averages();
  const TrainerConfig& config() const { return config_; }

  // Saves all that the coming steps depend on, beside the config: parameters, moments, averages, steps. `metadata`
  // comes on top. Throws as save_checkpoint does (nn/io/checkpoint.h).
  void save(const std::filesystem::path& file, std::map<std::string, std::string> metadata = {}) const;
  // From now on as the trainer that saved the file, if the config is the same. Throws FileError, or FormatError listing
  // what does not fit; nothing has changed then.
  void load(const SafeTensorsFile& file);
  void load(const std::filesystem::path& file) { load(SafeTensorsFile(file)); }

 private:
  using Rows = std::span<const int>;
  StepLoss backward(Rows rows, FunctionRef<ShardLoss(Rows)> loss, bool finds_anomaly = false);
  void refuse_step(Rows rows, const StepLoss& sums, double norm, FunctionRef<ShardLoss(Rows)> loss);
  std::vector<OptimizerBlock> state() const;

  Parameters* parameters_;
  TrainerConfig config_;
  std::int64_t steps_ = 0;
  int skipped_in_a_row_ = 0;
  Schedule schedule_;
  Adam adam_;
  std::optional<Ema> averages_;
  DataParallel data_parallel_;
};

// ---- metrics of classification

// The share of rows of logits [..., classes] whose largest score is at the target, one for each row; 0 for no rows.
double accuracy(const Tensor& logits, List<int> targets);

// The sum over the rows of logits [..., classes] of their cross-entropy, how many rows there are, and how many have
// their largest score at the target: what Trainer::step() wants of a loss.
ShardLoss classification_loss(const Tensor& logits, List<int> targets, double label_smoothing = 0);

// What a training step would report, without training: runs loss(some of rows) in eval mode, on all threads, for
// `chunk` rows at a time and adds up. The same bytes for any number of threads.
StepLoss evaluate(std::span<const int> rows, FunctionRef<ShardLoss(std::span<const int> rows)> loss,
                  std::size_t chunk = 64);

}  // namespace seppo::inline SEPPO_ABI
