// Interrupts, for the programs.
#pragma once

#include <seppo/nn/train/interrupts.h>

namespace examples {

using seppo::CatchInterrupts;
using seppo::Interrupted;
using seppo::stop_if_interrupted;

}  // namespace examples
