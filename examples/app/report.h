// The report of a training run: one self-contained HTML page, rewritten while training runs.
//
// It shows how many answers are right, samples with the wrong ones first, the attention of every layer and head, the
// curves of loss, accuracy, learning rate and every measure of the evaluation, the model, all options, and how to
// repeat the run. A small network runs in the page: it answers what the reader types.
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
  // What the page shows besides curves and samples: `model` is the table of modules; `data` says how many examples
  // there are, as Task::data does; `steps` is the number of the whole run's steps, some 400 of which are plotted.
  struct Facts {
    std::string title, about, model, data;
    nlohmann::json options;
    std::int64_t steps;
  };
  Report(std::filesystem::path file, Facts facts);

  void add_step(const seppo::StepResult& step);
  // Each number in `measures` becomes a curve.
  void add_evaluation(std::int64_t step, const nlohmann::json& measures);

  // Replaces the page atomically. `measures` are those of the model that produced the samples; `network` is that model,
  // if the page can compute with it (page_network.h): it then has the maps of any input, and the samples' are left out.
  // Throws seppo::FileError.
  void write(const std::vector<Sample>& samples, const nlohmann::json& measures, bool is_finished,
             const nlohmann::json& network = nullptr) const;

 private:
  std::filesystem::path file_;
  Facts facts_;
  seppo::StepResult last_;
  nlohmann::json steps_ = nlohmann::json::array(), evaluations_ = nlohmann::json::array();
};

// The page without its data: the files in page/, which CMake makes one text of.
extern const char* const kReportPage;

}  // namespace examples
