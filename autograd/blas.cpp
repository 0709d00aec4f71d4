#include <seppo/autograd/blas.h>

#include <seppo/autograd/check.h>
#include <seppo/autograd/kernels/kernels.h>

#include <cblas.h>
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>

namespace seppo::inline SEPPO_ABI {
namespace {

void pin_to_one_thread() {
  static const bool pinned = (openblas_set_num_threads(1), true);
  static_cast<void>(pinned);
}

blasint blas_size(std::size_t size) {
  check(size <= static_cast<std::size_t>(std::numeric_limits<blasint>::max()), "gemm: size ", size,
        " exceeds the integers of BLAS");
  return static_cast<blasint>(size);
}

CBLAS_TRANSPOSE blas_trans(Trans trans) { return trans == Trans::yes ? CblasTrans : CblasNoTrans; }

// Up to this size of B, packing less beats OpenBLAS; beyond, OpenBLAS is as fast or faster.
constexpr std::size_t kMediumB = std::size_t{1} << 18, kFewRows = 4;

// Computes the product without OpenBLAS if that is faster; tells whether it did.
bool own_product(Trans trans_a, Trans trans_b, std::size_t m, std::size_t n, std::size_t k, const real* a,
                 std::size_t lda, const real* b, std::size_t ldb, real beta, real* c, std::size_t ldc) {
  if (trans_b == Trans::yes && trans_a == Trans::no && m <= kFewRows) {
    kernels::dot_rows(m, n, k, a, lda, b, ldb, beta, c, ldc);
    return true;
  }
  static const std::size_t limit = std::getenv("LIM") ? std::stoul(std::getenv("LIM")) : kMediumB;
  if (n * k > limit) return false;
  const auto factor = [](Trans trans, const real* data, std::size_t ld) {
    return trans == Trans::no ? kernels::Factor{data, ld, 1} : kernels::Factor{data, 1, ld};
  };
  kernels::own_gemm(m, n, k, factor(trans_a, a, lda), factor(trans_b, b, ldb), beta, c, ldc);
  return true;
}

}  // namespace

void gemm(Trans trans_a, Trans trans_b, std::size_t m, std::size_t n, std::size_t k, const real* a, std::size_t lda,
          const real* b, std::size_t ldb, real beta, real* c, std::size_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (beta == 0)
      for (std::size_t i = 0; i < m; ++i) std::fill_n(c + i * ldc, n, real{0});
    return;
  }
  if (own_product(trans_a, trans_b, m, n, k, a, lda, b, ldb, beta, c, ldc)) return;
  pin_to_one_thread();
#ifdef SEPPO_FLOAT64
  constexpr auto run = cblas_dgemm;
#else
  constexpr auto run = cblas_sgemm;
#endif
  run(CblasRowMajor, blas_trans(trans_a), blas_trans(trans_b), blas_size(m), blas_size(n), blas_size(k), real{1}, a,
      blas_size(lda), b, blas_size(ldb), beta, c, blas_size(ldc));
}

const char* blas_description() {
  pin_to_one_thread();
  return openblas_get_config();
}

}  // namespace seppo::inline SEPPO_ABI
