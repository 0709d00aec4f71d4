// digest_of, for the programs.
#pragma once

#include <seppo/nn/run/data_digest.h>

namespace examples {

using seppo::digest_of;

}  // namespace examples
