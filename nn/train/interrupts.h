// Signals that ask a training run to end: the first lets it save, the second ends the program at once.
//
//   const CatchInterrupts interrupts;  // the library catches no signal unless asked to
//   try {
//     ... evaluate(examples, f) ...    // throws Interrupted between its chunks
//   } catch (const Interrupted& e) {
//     return 128 + e.signal;           // a shell's exit code for it
//   }
#pragma once

#include "../../autograd/core/real.h"

#include <csignal>
#include <memory>

namespace seppo {
inline namespace SEPPO_ABI {

// Thrown when a signal has been noted. No std::exception: it is nobody's error.
struct Interrupted {
  int signal;
};

// While it lives, SIGINT, SIGTERM, SIGHUP and, if the reader of standard output or error has gone, SIGPIPE are noted; a
// second SIGINT or SIGTERM ends the program at once with the exit code 128 + signal. SIGHUP stays ignored if it was, as
// by nohup. One at a time: a new one, and the end of one, forget what was noted.
class CatchInterrupts {
 public:
  CatchInterrupts();
  ~CatchInterrupts();
  CatchInterrupts(const CatchInterrupts&) = delete;
  CatchInterrupts& operator=(const CatchInterrupts&) = delete;

  int signal() const;  // the first received; 0 for none

 private:
  struct Old;  // the handlers before
  std::unique_ptr<Old> old_;
};

// Throws Interrupted if a signal has been noted and there is only one rank. evaluate() calls it between its chunks;
// call it between the parts of anything else that takes long. Several threads may call it.
void stop_if_interrupted();

}  // namespace SEPPO_ABI
}  // namespace seppo
