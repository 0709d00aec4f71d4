// The framework of the training programs: options, the loop with progress, metrics, report and saving, and the summary.
//
//   examples::Run run{.out = "runs/reverse", .measures = {"exact"}};
//   CommandLine line("reverse train [options]", kTask);
//   line.fields("model", config);
//   run.add_to(line);
//   if (!line.parse(arguments)) return 0;
//   Parameters parameters(run.seed());
//   const Model model(parameters.root(), config);
//   const examples::Task task{.examples = ..., .loss = ..., .evaluate = ...};
//   run.finish(line, task, run.train(line, parameters, model, task));
//
// --out receives the files of a seppo::TrainingRun (seppo/nn/run/training_run.h) and, with --report, report.html.
#pragma once

#include "app/command_line.h"
#include "app/page_network.h"
#include "app/progress.h"
#include "app/report.h"

#include <seppo/nn/compact_weights.h>
#include <seppo/nn/io/atomic_file.h>
#include <seppo/nn/io/model_file.h>
#include <seppo/nn/run/evaluation.h>
#include <seppo/nn/run/training_config.h>
#include <seppo/nn/train/trainer.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace examples {

using seppo::Evaluation;
using seppo::TrainingConfig;  // the part "training" of config.json

// One measure of a model on some of the examples for validation.
struct Measure {
  std::string name = {};  // "val_exact"
  std::size_t examples = 0;
  std::function<double()> score = {};
};

// What a program adds to the framework.
struct Task {
  std::string title = {}, about = {};  // of the report
  std::string data = {};               // "50000 training and 1000 validation sequences"
  std::string example = {};            // a query for the trained model: the arguments of a command
  std::size_t examples = 0;            // to train on
  std::string digest = {};             // of the data (data_digest.h): a run resumes only with the same data
  std::size_t evaluated = 64;          // examples at a time, by each thread
  std::vector<int> lengths = {};       // of each example, if batches should group examples of similar length
  std::function<seppo::ShardLoss(std::span<const int> rows)> loss;  // of these examples; called by several threads
  std::function<Evaluation()> evaluate;
  std::function<std::vector<Sample>()> samples;
  std::function<std::optional<PageNetwork>()> network = {};  // if the report page can compute with it
  Measure measure = {};                                      // by which the report page tells which heads are needed
  std::function<void()> save = {};  // called by the first rank with each model that is kept, before it replaces another
  seppo::FrozenValues frozen = seppo::FrozenValues::saved;  // in the run's files
  nlohmann::json extra = nlohmann::json::object();          // what else the model file contains, such as a vocabulary
};

struct Result {
  std::int64_t steps = 0;
  double seconds = 0;
  nlohmann::json summary = {};  // the evaluation of the model that is kept, to which a program may add
};

struct Run {
  std::filesystem::path out;
  std::vector<std::string> measures = {};  // of the evaluations, for --best: those for which higher is better
  TrainingConfig training = {};
  int threads = 0, log_interval = 100, save_interval = 0, keep = 2;
  double rank_timeout = 60;
  LogFormat log_format = LogFormat::automatic;
  std::filesystem::path resume = {};
  bool overwrite = false, report = false, json = false;

  // The sections "Training" and "Output" of the options.
  void add_to(CommandLine& line);
  std::uint64_t seed() const { return training.trainer.seed; }

  // Trains, or resumes the run in --resume; evaluates every --eval-interval epochs and at the end, and keeps the best
  // model according to --best. On return, the parameters are those of the kept model. SIGINT, SIGTERM, SIGHUP or
  // SIGPIPE ends training after the current step or part of an evaluation: the state is saved and Interrupted is
  // thrown; a second signal ends the program at once. Throws UsageError if --out cannot be used.
  template <class Model>
  Result train(const CommandLine& line, seppo::Parameters& parameters, const Model& model, const Task& task) {
    nlohmann::json config = line.config();
    config.update(task.extra);
    config["model"] = seppo::to_json_object(model.config);
    return train(line, parameters, config, task);
  }
  // Prints what was done, a command to try next and, with --json, the summary as one line.
  void finish(const CommandLine& line, const Task& task, const Result& result) const;

 private:
  Result train(const CommandLine& line, seppo::Parameters& parameters, const nlohmann::json& config, const Task& task);
  void copy_run() const;
};

// Applies --threads: 0 means one thread for each processor that this process may use (processors.h), at most 64.
void use_threads(int threads);

// --model and --threads of the commands that use a trained model, and that model.
struct Trained {
  std::string program;
  std::filesystem::path path = "runs/" + program;
  int threads = 0;
  seppo::WeightFormat weights = seppo::WeightFormat::full;

  void fields(seppo::ConfigVisitor& v);
  void weights_field(seppo::ConfigVisitor& v);  // --weights, of commands that decode

  // Throws UsageError if there is no such model, FormatError if another program saved it.
  template <class Model>
  seppo::SavedModel<Model> load() const {
    use_threads(threads);
    auto saved = seppo::load_model<Model>(file());
    compact_weights(*saved.parameters, weights);
    return saved;
  }

  // The model file, after these checks.
  std::filesystem::path file() const;
};

// The part of a model's configuration under `key`; the defaults if it is missing and each of its fields may be. Throws
// FormatError if it is missing otherwise, or invalid.
template <class Config>
Config config_part(const nlohmann::json& config, const std::string& key) {
  Config usual;
  const bool may_be_missing = std::ranges::all_of(
      seppo::fields_of(usual), [](const seppo::Field& field) { return field.options.may_be_missing; });
  if (may_be_missing && !config.contains(key)) return usual;
  seppo::check<seppo::FormatError>(config.contains(key), "the model's configuration: '", key, "' is missing");
  return seppo::from_json_object<Config>(config.at(key));
}

constexpr const char* kThreadsHelp =
    "threads; 0 for one for each processor that may be used. Results do not depend on it";
constexpr const char* kPrecisionHelp =
    "precision of large products, where the processor has bfloat16; elsewhere all are highest";
constexpr const char* kWeightsHelp =
    "what weights are in memory: full, as floats; bf16; q8, 8-bit integers with a scale for each 32";
constexpr const char* kJsonHelp = "print the result as one JSON object, the last line of standard output";

}  // namespace examples
