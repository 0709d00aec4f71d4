// The report of a training run: one HTML page that needs nothing else, rewritten while training runs.
//
// It shows the curves of loss, accuracy and learning rate, sample answers with right and wrong marked, the
// attention of every layer and head for each sample, the model, all options, and how to repeat the run.
#pragma once

#include "app/attention_pictures.h"
#include "app/progress.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace examples {

// An answer of the model, and what it looked at.
struct ReportSample {
  std::string input = {}, expected = {}, output = {};  // `expected` is empty where nothing is right or wrong
  seppo::AttentionMaps maps = {};
  std::vector<AttentionLabels> labels = {};  // one for each map
};

class Report {
 public:
  // `about` says what the run is; `summary` is the table of modules; `command` repeats the run.
  Report(std::filesystem::path file, std::string title, std::string about, std::string summary, std::string command,
         nlohmann::json options);

  void add_step(const StepReport& report);
  // Numbers of the evaluation become curves of their own.
  void add_evaluation(std::int64_t step, const nlohmann::json& evaluation);

  // Replaces the page, whole or not at all. Throws seppo::FileError.
  void write(const std::vector<ReportSample>& samples, bool is_finished) const;

 private:
  std::filesystem::path file_;
  std::string title_;
  nlohmann::json facts_, steps_, evaluations_;
};

// The page's style and script (report_page.cpp).
extern const char* const kReportStyle;
extern const char* const kReportScript;

}  // namespace examples
