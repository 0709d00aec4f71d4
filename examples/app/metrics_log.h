// metrics.jsonl: a line for each --log-interval steps and each evaluation of a training.
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
  // Begins the file anew or, for a training that goes on after `step`, behind what it has until there. Throws
  // seppo::FileError.
  MetricsLog(const std::filesystem::path& file, std::int64_t step);

  const std::vector<nlohmann::json>& earlier() const { return earlier_; }  // lines of a training that goes on
  double earlier_seconds() const;                                          // that it took

  // Nothing for a line that is there from before the training went on. A failure shows in check(), so that what is
  // worth more than a line can be saved first.
  void write(const nlohmann::json& line);
  void check() const;  // throws seppo::FileError if a line was lost

 private:
  std::string name_;
  std::vector<nlohmann::json> earlier_;
  std::ofstream stream_;
};

}  // namespace examples
