// One training run of a program, from its first step or from a checkpoint to its end.
#pragma once

#include "app/interrupts.h"
#include "app/metrics_log.h"
#include "app/run.h"
#include "app/run_folder.h"

#include <limits>
#include <optional>

namespace examples {

// The evaluation whose model is kept.
struct Best {
  std::int64_t step = 0;  // 0: there is none yet
  double score = -std::numeric_limits<double>::infinity(), loss = std::numeric_limits<double>::infinity();

  bool is_above(const Best& other) const { return score > other.score || (score == other.score && loss < other.loss); }
};

// The message that refuses a folder with an earlier training run.
std::string used_folder(const std::filesystem::path& folder);

class Training {
 public:
  // `config` is stored in model.safetensors, the checkpoints and config.json.
  Training(const Run& run, const std::string& program, seppo::Parameters& parameters, const nlohmann::json& config,
           const Task& task);
  Result run();

 private:
  std::vector<int> large_batch();
  void tell_traffic(std::size_t batch);
  void resume();
  void begin_report();
  void step();
  void agree_to_stop();
  int signal() const;  // the signal that ends the run; 0 for none
  bool is_over() const;
  bool is_evaluation_due() const;
  Evaluation evaluate(std::size_t models = 1);
  Best rank(const Evaluation& evaluation) const;
  void evaluate_and_save();
  void save_checkpoint();
  void save_model(bool is_at_the_end);
  Evaluation finish();
  bool keep_if_better(std::size_t models = 1);
  void read_on_first_rank(const std::function<void()>& read);
  void write_report(const Evaluation& evaluation, bool is_over);
  double seconds() const { return metrics_->earlier_seconds() + progress_.seconds(); }

  const Run& run_;
  std::string program_;
  seppo::Parameters& parameters_;
  const nlohmann::json& config_;
  const Task& task_;
  RunFolder folder_;
  seppo::Sampler sampler_;
  std::int64_t steps_;  // of all epochs
  seppo::Trainer trainer_;
  CatchInterrupts interrupts_;
  Progress progress_;
  std::optional<MetricsLog> metrics_;
  std::optional<Report> page_;
  int agreed_signal_ = 0;           // the signal that several ranks agreed on after the last step
  Best best_;                       // of the evaluations so far
  std::int64_t saved_ = 0;          // step of the last checkpoint
  bool has_model_ = false;          // of this run
  bool is_evaluated_ = true;        // false while the evaluation due after this step is missing
  bool has_config_ = false;         // config.json is this run's
  std::optional<Evaluation> kept_;  // of the kept model, if it was the last one evaluated
};

}  // namespace examples
