// Which BLAS computes the products that are not computed here.
#pragma once

#include "../core/real.h"

#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...; kernels for SkylakeX". Another library than OpenBLAS is not described.
std::string blas_library();

}  // namespace SEPPO_ABI
}  // namespace seppo
