// Accelerate of macOS, with SEPPO_BLAS=Accelerate: it chooses kernels and threads by itself.
#include "library.h"

namespace seppo {
inline namespace SEPPO_ABI {

std::string blas_library() { return "Accelerate"; }

void choose_blas_kernels() {}

int blas_threads() { return 1; }

void set_blas_threads(int) {}

}  // namespace SEPPO_ABI
}  // namespace seppo
