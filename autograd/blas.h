// Matrix products, the only door to BLAS. OpenBLAS runs on one thread here, whatever its environment
// variables say: parallelism is ours (parallel.h), so results do not depend on thread counts.
#pragma once

#include <seppo/autograd/real.h>

#include <cstddef>

namespace seppo::inline SEPPO_ABI {

enum class Trans { no, yes };

// C[m,n] = op(A)[m,k] op(B)[k,n] + beta C, row-major; ld* are row strides. With beta = 0, C may be
// uninitialised. Sizes of zero are allowed. Sizes beyond BLAS's 32-bit integers throw ShapeError.
void gemm(Trans trans_a, Trans trans_b, std::size_t m, std::size_t n, std::size_t k, const real* a, std::size_t lda,
          const real* b, std::size_t ldb, real beta, real* c, std::size_t ldc);

// "OpenBLAS 0.3.21 ... SkylakeX": the library and the kernels it chose for this CPU.
const char* blas_description();

}  // namespace seppo::inline SEPPO_ABI
