// metrics.jsonl: a line for every --log-interval steps and for each evaluation of a training run; the evaluation of the
// mean of several models has their number as "mean_of".
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace examples {

class MetricsLog {
 public:
  // Starts a new file or, for a run that resumes after `step`, keeps the lines up to that step. Throws
  // seppo::FileError.
  MetricsLog(const std::filesystem::path& file, std::int64_t step);

  const std::vector<nlohmann::json>& earlier() const { return earlier_; }  // lines of a resumed run
  double earlier_seconds() const;                                          // of training, according to these lines

  // Skips a line that was already written before the run was resumed. Failures are reported by check(), so that the
  // caller can first save what is worth more than a line.
  void write(const nlohmann::json& line);
  void check() const;  // throws seppo::FileError if a line was lost
  void close();        // the same, also for what only closing the file reveals; nothing can be written then

 private:
  std::string name_;
  std::vector<nlohmann::json> earlier_;
  std::ofstream stream_;
};

}  // namespace examples
