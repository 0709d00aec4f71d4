// TrainingRun: a training that is evaluated, saved and resumed, and loses nothing, whatever ends it.
//
//   TrainingRun run(parameters, {.epochs = 20, .best = "exact", .trainer = {.lr = 3e-3}},
//                   {.examples = data.size(),
//                    .digest = digest_of(data),
//                    .loss = [&](std::span<const int> some) { return loss_of(model, data.pick(some)); },
//                    .evaluate = [&] { return evaluation_of(model, validation); },
//                    .config = {{"model", to_json_object(model.config)}}},
//                   {.folder = "runs/mine", .resume = is_resumed, .catch_signals = true});
//   const RunResult result = run.train();
//   load_model<Model>(run.folder().model());  // later, in another program
//
// The folder receives the files of a RunFolder (run_folder.h), config.json, and metrics.jsonl: a line for every
// `log_interval` steps and for each evaluation. A checkpoint depends only on the config, the data and the step. So a
// run that was interrupted anywhere, or killed, and is resumed ends with the same bytes as one that never stopped.
// Files are written between two steps, and flushed to the disk while the training goes on.
//
// The library prints nothing: who wants to show progress passes RunEvents. Under mpirun (nn/train/ranks.h), every rank
// does the same; the first one writes.
#pragma once

#include "../train/interrupts.h"
#include "best.h"
#include "metrics_log.h"
#include "run_folder.h"
#include "run_state.h"
#include "training_config.h"

#include <chrono>
#include <functional>
#include <optional>

namespace seppo {
inline namespace SEPPO_ABI {

// What is trained on.
struct TrainingTask {
  std::size_t examples = 0;
  std::string digest = {};        // of the data (data_digest.h): a run resumes only with the same data
  std::vector<int> lengths = {};  // of each example, if batches should group examples of similar length
  std::function<ShardLoss(std::span<const int> some)> loss;  // of these examples; called by several threads
  std::function<Evaluation()> evaluate;                      // of the parameters as they are; called by every rank
  // Called by the first rank before each model is saved: for files that belong to it, such as a vocabulary.
  std::function<void()> save = {};
  // Saved with each model and in config.json: {"model": {...}, ...}, from which load_model (nn/io/model_file.h)
  // rebuilds the model.
  nlohmann::json config = nlohmann::json::object();
  // In the run's files: with digests they are as small as what is trained (nn/io/checkpoint.h).
  FrozenValues frozen = FrozenValues::saved;
  // In place of the config's optimiser and schedule, as a Trainer takes them (nn/train/trainer.h).
  std::optional<AnyOptimiser> optimiser = {};
  std::function<double(std::int64_t step)> schedule = {};
};

struct RunOptions {
  std::filesystem::path folder;
  bool resume = false;     // from the newest checkpoint in the folder that can be read
  bool overwrite = false;  // the folder may have an earlier run, which this one replaces
  int log_interval = 100;  // steps between lines of metrics.jsonl
  int save_interval = 0;   // steps between checkpoints, besides those after evaluations; 0: none
  int keep = 2;            // checkpoints
  // As CatchInterrupts does (nn/train/interrupts.h), for as long as the run lives. Without it, a CatchInterrupts of the
  // program's own ends the run within an evaluation only.
  bool catch_signals = false;
};

// What observers are told; each function may be empty.
struct RunEvents {
  struct Evaluated {
    const Evaluation& evaluation;
    std::size_t models;  // 1, or the number of models whose mean it is
    std::int64_t epoch;
    const nlohmann::json& line;  // of metrics.jsonl
  };
  // Before the first step; after a resumed run has read its checkpoint, with the lines of metrics.jsonl up to it.
  std::function<void(const std::vector<nlohmann::json>& earlier)> begun = {};
  std::function<void(const StepResult& step)> stepped = {};
  std::function<void(const Evaluated& evaluated)> evaluated = {};
  // After an evaluation's files have been written and the run goes on: they may still be on their way to the disk, and
  // take their names then. At the end, when all have, the evaluation of the kept model.
  std::function<void(const Evaluation& evaluation, bool is_over)> saved = {};
  // The mean of this many models was better than the best of them.
  std::function<void(std::size_t models)> kept_mean = {};
};

struct RunResult {
  std::int64_t steps = 0;
  double seconds = 0;    // of training, including those before it was resumed
  Evaluation kept = {};  // of the model that is kept
};

class TrainingRun {
 public:
  // Creates and locks the folder; its files stay as they are until train(). The parameters must outlive the run.
  // Throws ArgumentError for a config out of range, or a task without a loss or an evaluation; FileError if the folder
  // cannot be used, or another process is writing into it; StateError if it has an earlier run that is neither to be
  // resumed nor overwritten, or if ranks have different data.
  TrainingRun(Parameters& parameters, const TrainingConfig& config, TrainingTask task, const RunOptions& options);

  // Trains to the end; evaluates every eval_interval epochs and at the end, and keeps the best model according to
  // config.best. On return, the parameters are those of the kept model. Once, for each run.
  // Throws FormatError if there is no checkpoint to resume from, or if it is not of this training or these data;
  // NumericError for a measure that is not finite; FileError; Interrupted after a signal, once the state is saved; and
  // what Trainer::step and the functions of the task throw.
  RunResult train(RunEvents events = {});

  const Trainer& trainer() const { return trainer_; }
  // Takes so much memory for the tensors of each thread's steps at once: steps that need no more do not enlarge it.
  void reserve(std::size_t bytes);
  const RunFolder& folder() const { return folder_; }
  std::int64_t steps() const { return steps_; }  // of all epochs

 private:
  void begin();
  void resume();
  void train_to_the_end();
  void step();
  void log(const StepResult& step);
  void agree_to_stop();
  int signal() const;  // the signal that ends the run; 0 for none
  bool is_over() const;
  bool is_evaluation_due() const;
  Evaluation measure();
  Evaluation evaluate(std::size_t models = 1);
  Best scored(const Evaluation& evaluation) const { return best_by(config_.best, evaluation, trainer_.steps()); }
  void evaluate_and_save();
  void save_last();
  void save_checkpoint();
  void save_model(bool is_at_the_end);
  Evaluation finish();
  void try_mean_of_last();
  bool keep_if_better(std::size_t models = 1);
  void read_on_first_rank(const std::function<void()>& read);
  double seconds() const;

  Parameters& parameters_;
  TrainingConfig config_;
  TrainingTask task_;
  RunOptions options_;
  RunEvents events_;
  RunFolder folder_;
  Sampler sampler_;
  std::int64_t steps_;
  Trainer trainer_;
  std::optional<CatchInterrupts> interrupts_;
  std::optional<MetricsLog> metrics_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int agreed_signal_ = 0;           // the signal that several ranks agreed on after the last step
  Best best_;                       // of the evaluations so far
  std::int64_t saved_ = 0;          // step of the last checkpoint
  bool has_model_ = false;          // of this run
  bool is_evaluated_ = true;        // false while the evaluation due after this step is missing
  bool has_config_ = false;         // config.json is this run's
  std::optional<Evaluation> kept_;  // of the kept model, if it was the last one evaluated
};

}  // namespace SEPPO_ABI
}  // namespace seppo
