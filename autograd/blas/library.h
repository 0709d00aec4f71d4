// Which BLAS computes the products that are not computed here.
#pragma once

#include "../core/real.h"

#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...; kernels for SkylakeX", or "Accelerate".
std::string blas_library();

// Makes it use kernels for this processor. No thread may be within the library meanwhile: this runs before the first
// product, and other threads wait for it. Accelerate chooses by itself, and has no number of threads.
void choose_blas_kernels();
int blas_threads();
void set_blas_threads(int number);

}  // namespace SEPPO_ABI
}  // namespace seppo
