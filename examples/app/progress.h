// Progress of a training run on standard error: a bar on a terminal, plain lines elsewhere.
#pragma once

#include <seppo/nn/train/trainer.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

namespace examples {

enum class LogFormat { automatic, bar, plain, none };
inline std::span<const char* const> enum_names(LogFormat) {
  static constexpr const char* kNames[] = {"auto", "bar", "plain", "none"};
  return kNames;
}

// It is not an error if nobody reads the output.
class Progress {
 public:
  // The plain format prints every `interval` steps.
  Progress(LogFormat format, std::int64_t steps, int interval);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Training resumes after this step.
  void start_at(std::int64_t step) { first_ = step; }
  // Training ends after this step, before all steps are done.
  void end_at(std::int64_t step) { last_ = step; }
  void step(const seppo::StepResult& step);
  // Prints a line that the bar does not overwrite: evaluation results, messages.
  void note(const std::string& line);

  double seconds() const;

 private:
  std::string line(const seppo::StepResult& step, std::size_t width) const;
  void erase_bar();

  LogFormat format_;
  std::int64_t steps_, first_ = 0, last_ = steps_;
  int interval_;
  std::chrono::steady_clock::time_point start_, shown_;
  bool bar_visible_ = false;
};

}  // namespace examples
