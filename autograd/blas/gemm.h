// Matrix products, the only door to BLAS: a kernel of our own computes small ones and those of few rows, AMX large ones
// where there is AMX, OpenBLAS the rest (gemm.cpp). OpenBLAS runs on one thread here, whatever its environment
// variables say: parallelism is ours (parallel.h), so results do not depend on thread counts.
#pragma once

#include "../core/real.h"

#include <cstddef>

namespace seppo {
inline namespace SEPPO_ABI {

enum class Trans { no, yes };

// C[m,n] = op(A)[m,k] op(B)[k,n] + beta C, row-major, for beta 0 or 1; ld* are row strides. With beta = 0, C may be
// uninitialised. Sizes of zero are allowed. NaN spoils its row or column of C; so does an infinite number, which may
// become NaN there. Throws ArgumentError for another beta, ShapeError where OpenBLAS is to compute with sizes beyond its
// 32-bit integers.
void gemm(Trans trans_a, Trans trans_b, std::size_t m, std::size_t n, std::size_t k, const real* a, std::size_t lda,
          const real* b, std::size_t ldb, real beta, real* c, std::size_t ldc);

// The same with row[n], if it is not null, added to each row instead of beta C.
void gemm_plus_row(Trans trans_a, Trans trans_b, std::size_t m, std::size_t n, std::size_t k, const real* a,
                   std::size_t lda, const real* b, std::size_t ldb, const real* row, real* c, std::size_t ldc);

}  // namespace SEPPO_ABI
}  // namespace seppo
