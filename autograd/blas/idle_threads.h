// OpenBLAS starts a thread for each further processor as soon as it is loaded, and seppo, which divides products
// itself, gives them no work. Each needs about 128 MB of address space; where a process may not have as much (ulimit
// -v), these threads ask for it for ever, and the process cannot end.
#pragma once

#include "../core/real.h"

namespace seppo {
inline namespace SEPPO_ABI {

// For the beginning of main(), on Linux: if the address space is limited, runs the program again, with the same
// arguments and OPENBLAS_NUM_THREADS=1, instead of returning. Returns where the address space is unlimited, OpenBLAS
// has no such threads, or the user has chosen their number.
void restart_without_idle_blas_threads();

}  // namespace SEPPO_ABI
}  // namespace seppo
