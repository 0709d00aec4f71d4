// The report of a training run: one self-contained HTML page, rewritten while training runs.
//
// It shows the curves of loss, accuracy, learning rate and every measure of the evaluation, sample answers marked right
// or wrong, the attention of every layer and head for each sample, the model, all options, and how to repeat the run.
#pragma once

#include "app/attention_pictures.h"

#include <seppo/nn/train/trainer.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace examples {

class Report {
 public:
  // What the page shows besides curves and samples: `model` is the table of modules; `steps` is the number of the
  // whole run's steps, some 400 of which are plotted.
  struct Facts {
    std::string title, about, model;
    nlohmann::json options;
    std::int64_t steps;
  };
  Report(std::filesystem::path file, Facts facts);

  void add_step(const seppo::StepResult& step);
  // Each number in `measures` becomes a curve.
  void add_evaluation(std::int64_t step, const nlohmann::json& measures);

  // Replaces the page atomically. `measures` are those of the model that produced the samples. Throws seppo::FileError.
  void write(const std::vector<Sample>& samples, const nlohmann::json& measures, bool is_finished) const;

 private:
  std::filesystem::path file_;
  Facts facts_;
  seppo::StepResult last_;
  nlohmann::json steps_ = nlohmann::json::array(), evaluations_ = nlohmann::json::array();
};

// The page without its data: the files in page/, which CMake makes one text of.
extern const char* const kReportPage;

}  // namespace examples
