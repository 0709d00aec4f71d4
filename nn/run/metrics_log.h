// MetricsLog: a file of JSON lines, one for some of a run's steps and one for each evaluation, that agrees with the
// checkpoint from which the run resumes.
#pragma once

#include "../../autograd/core/real.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

class MetricsLog {
 public:
  // Starts a new file or, for a run that resumes after `step`, keeps the lines up to that step. Throws
  // FileError.
  MetricsLog(const std::filesystem::path& file, std::int64_t step);

  const std::vector<nlohmann::json>& earlier() const { return earlier_; }  // lines of a resumed run
  double earlier_seconds() const;                                          // of training, according to these lines

  // Skips a line that was already written before the run was resumed. Failures are reported by check(), so that the
  // caller can first save what is worth more than a line.
  void write(const nlohmann::json& line);
  void check() const;  // throws FileError if a line was lost
  void close();        // the same, also for what only closing the file reveals; nothing can be written then

 private:
  // The lines up to that step, which become earlier_.
  std::string read_until(const std::filesystem::path& file, std::int64_t step);

  std::string name_;
  std::vector<nlohmann::json> earlier_;
  std::ofstream stream_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
