// The training loop that the example programs share, and its options.
#pragma once

#include "app/command_line.h"
#include "app/progress.h"
#include "app/report.h"

#include <seppo/nn/optim/adam.h>
#include <seppo/nn/train/data_parallel.h>
#include <seppo/nn/optim/schedule.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace examples {

struct TrainingOptions {
  int epochs = 10;
  int epoch_steps = 0;  // steps in an epoch; 0: a pass over the data
  int max_steps = 0;    // 0: all epochs
  int batch_size = 64;
  bool in_order = false;  // no shuffling
  double lr = 1e-3, min_lr = 0;
  int warmup_steps = 0;
  std::string schedule = "cosine";
  seppo::AdamOptions adam;
  double clip_norm = 1;
  std::uint64_t seed = 0;
  int threads = 0;  // 0: one for each processor
  int eval_interval = 10;
  int log_interval = 100;
  std::string log_format = "auto";
  bool json = false, report = false;
  std::filesystem::path out;

  void add_to(CommandLine& line);
  void validate() const;  // what must hold between options; throws UsageError
  nlohmann::json to_json() const;
};

// What a program tells the loop about its task.
struct Task {
  std::size_t examples = 0;
  // Of each example; if given, a batch is made of examples of similar length, so that threads get equal shares.
  std::span<const int> lengths = {};
  // The loss of these examples, summed over tokens; runs on several threads at once.
  std::function<seppo::ShardLoss(std::span<const int> examples)> loss;
  // Measures the model on the validation data; the result goes to the log as it is.
  std::function<nlohmann::json()> evaluate;
  // Saves the model into options.out.
  std::function<void()> save;
  // For --report: what the run is, its modules, the command that repeats it, and some answers.
  std::string name = {}, about = {}, summary = {};
  nlohmann::json config = {};
  std::function<std::vector<ReportSample>()> samples = {};
};

struct TrainingResult {
  std::int64_t steps = 0;
  double seconds = 0;
  bool interrupted = false;
  nlohmann::json evaluation;  // the last one
};

// Trains: shuffles by seed each epoch, evaluates every eval_interval epochs and at the end, writes
// metrics.jsonl and, with --report, report.html into options.out. Ctrl-C ends it after the running step, saved;
// max_steps ends it early on the unchanged schedule. Throws NumericError,
// before the parameters are touched, if the loss or gradient is not finite.
TrainingResult train(seppo::Parameters& parameters, const TrainingOptions& options, const Task& task);

// What a task's loss is made of: the cross-entropy of logits [rows, classes], summed, and how many rows have their
// largest score at the target.
seppo::ShardLoss classification_loss(const seppo::Tensor& logits, std::span<const int> targets,
                                     double label_smoothing = 0);

// Prints steps, time and folder and, with --json, these and the last evaluation as one JSON object.
void print_result(const TrainingResult& result, const TrainingOptions& options);

// Checks that `folder` can be made and written before any work is done.
void prepare_folder(const std::filesystem::path& folder);

// Throws UsageError unless --heads divides --d-model.
void check_heads(int d_model, int n_heads);

// Applies --threads.
void use_threads(int threads);

double peak_rss_mb();  // of this process; 0 where /proc does not tell

}  // namespace examples
