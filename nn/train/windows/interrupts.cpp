// Signal handlers that only note the signal: the two that Windows has.
#include "../interrupts.h"

#include "../ranks.h"

#include <csignal>
#include <cstdlib>
#include <iterator>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

volatile std::sig_atomic_t caught = 0;

constexpr int kSignals[] = {SIGINT, SIGTERM};

// Windows forgets a handler that it has called.
void note(int signal) {
  if (caught) std::_Exit(128 + signal);
  caught = signal;
  std::signal(signal, note);
}

}  // namespace

struct CatchInterrupts::Old {
  void (*handlers[std::size(kSignals)])(int);
};

CatchInterrupts::CatchInterrupts() : old_(std::make_unique<Old>()) {
  caught = 0;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) old_->handlers[i] = std::signal(kSignals[i], note);
}

CatchInterrupts::~CatchInterrupts() {
  caught = 0;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) std::signal(kSignals[i], old_->handlers[i]);
}

int CatchInterrupts::signal() const { return caught; }

void stop_if_interrupted() {
  if (const int signal = caught; signal && ranks() == 1) throw Interrupted{signal};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
