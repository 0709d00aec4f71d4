// What a training run of a program shows: messages, progress and the report page, around seppo::TrainingRun.
#pragma once

#include "app/run.h"
#include "app/snapshots.h"

#include <seppo/nn/run/training_run.h>

#include <optional>

namespace examples {

// The message that refuses a folder with an earlier training run.
std::string used_folder(const std::filesystem::path& folder);

class Training {
 public:
  // `config` is stored in model.safetensors, the checkpoints and config.json. Throws UsageError for a folder in use,
  // and std::runtime_error if there is too little memory.
  Training(const Run& run, const std::string& program, seppo::Parameters& parameters, const nlohmann::json& config,
           const Task& task);
  Result run();

 private:
  std::vector<int> large_batch() const;
  void tell_memory();
  void tell_traffic(std::size_t batch);
  void tell_warm_up();
  void begin(const std::vector<nlohmann::json>& earlier);
  void begin_report(const std::vector<nlohmann::json>& earlier);
  void step(const seppo::StepResult& step);
  void evaluated(const seppo::RunEvents::Evaluated& evaluated);
  void write_report(const Evaluation& evaluation, bool is_over);
  nlohmann::json network_on_page(bool is_over);
  std::string how_it_was_interrupted(int signal) const;

  const Run& run_;
  std::string program_;
  seppo::Parameters& parameters_;
  const nlohmann::json& config_;
  const Task& task_;
  seppo::TrainingRun training_;
  Progress progress_;
  std::optional<Report> page_;
  Snapshots snapshots_;  // for the page, if it has the network
};

}  // namespace examples
