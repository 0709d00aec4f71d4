// Signal handlers that only note the signal.
#include "../interrupts.h"

#include "../ranks.h"

#include <unistd.h>
#include <csignal>
#include <iterator>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

volatile std::sig_atomic_t caught = 0;

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

// By itself: SIGPIPE for each further line that nobody reads, SIGHUP from a shell and the kernel when a terminal
// closes.
bool comes_again(int signal) { return signal == SIGPIPE || signal == SIGHUP; }

void note(int signal) {
  if (!caught)
    caught = signal;
  else if (!comes_again(signal))
    ::_exit(128 + signal);
}

}  // namespace

struct CatchInterrupts::Old {
  struct sigaction actions[std::size(kSignals)]{};
};

CatchInterrupts::CatchInterrupts() : old_(std::make_unique<Old>()) {
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  caught = 0;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction& old = old_->actions[i];
    ::sigaction(kSignals[i], &action, &old);
    if (kSignals[i] == SIGHUP && old.sa_handler == SIG_IGN) ::sigaction(SIGHUP, &old, nullptr);  // started by nohup
  }
}

CatchInterrupts::~CatchInterrupts() {
  caught = 0;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &old_->actions[i], nullptr);
}

int CatchInterrupts::signal() const { return caught; }

void stop_if_interrupted() {
  if (const int signal = caught; signal && ranks() == 1) throw Interrupted{signal};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
