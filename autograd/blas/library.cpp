// Asks OpenBLAS, whose header other libraries do not have.
#include "library.h"

#include <cblas.h>

namespace seppo {
inline namespace SEPPO_ABI {

std::string blas_library() {
#ifdef OPENBLAS_VERSION
  return std::string(openblas_get_config()) + "; kernels for " + openblas_get_corename();
#else
  return "not OpenBLAS";
#endif
}

}  // namespace SEPPO_ABI
}  // namespace seppo
