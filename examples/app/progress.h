// Progress of a training run on standard error: a bar on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace examples {

struct StepReport {
  std::int64_t step = 0;
  double loss = 0, accuracy = 0, gradient_norm = 0, lr = 0;
};

class Progress {
 public:
  // `format` is auto, bar, plain or none; plain prints each `interval` steps.
  Progress(const std::string& format, std::int64_t steps, int interval);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepReport& report);
  // A line that stays: evaluation results, messages.
  void note(const std::string& line);

  double seconds() const;

 private:
  enum class Format { bar, plain, none };
  std::string line(const StepReport& report) const;
  void erase_bar();

  Format format_;
  std::int64_t steps_;
  int interval_;
  std::chrono::steady_clock::time_point start_, shown_;
  bool bar_visible_ = false;
};

}  // namespace examples
