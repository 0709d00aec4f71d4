// Signals that ask a training run to end: the first lets it save, the second ends the program at once.
#pragma once

#include <csignal>
#include <cstddef>

namespace examples {

// The program exits with 128 + signal.
struct Interrupted {
  int signal;
};

// While it lives, SIGINT, SIGTERM, SIGHUP and, if the reader of standard output or error has gone, SIGPIPE are noted.
class CatchInterrupts {
 public:
  CatchInterrupts();
  ~CatchInterrupts();
  CatchInterrupts(const CatchInterrupts&) = delete;
  CatchInterrupts& operator=(const CatchInterrupts&) = delete;

  int signal() const;  // the first received; 0 for none

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  struct sigaction old_[sizeof kSignals / sizeof kSignals[0]]{};
};

// Throws Interrupted if a signal has been noted and there is only one rank. Called between the parts of an evaluation,
// which may take long: the run saves its state, and resumes with this evaluation. Several threads may call it.
void stop_if_interrupted();

}  // namespace examples
