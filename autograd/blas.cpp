#include <seppo/autograd/blas.h>

#include <seppo/autograd/check.h>
#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/parallel.h>

#include <cblas.h>
#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

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

// The arguments of gemm().
struct Product {
  Trans trans_a, trans_b;
  std::size_t m, n, k;
  const real* a;
  std::size_t lda;
  const real* b;
  std::size_t ldb;
  kernels::Addend addend;
  real* c;
  std::size_t ldc;

  Product rows(std::size_t first, std::size_t count) const {
    Product p = *this;
    p.m = count, p.a += first * (trans_a == Trans::no ? lda : 1), p.c += first * ldc, p.addend = addend.at(first, 0);
    return p;
  }
  Product columns(std::size_t first, std::size_t count) const {
    Product p = *this;
    p.n = count, p.b += first * (trans_b == Trans::no ? 1 : ldb), p.c += first, p.addend = addend.at(0, first);
    return p;
  }
};

kernels::Factor factor(Trans trans, const real* data, std::size_t ld) {
  return trans == Trans::no ? kernels::Factor{data, ld, 1} : kernels::Factor{data, 1, ld};
}

// Puts the addend into C, for code that can only add to C; false if there is none.
bool put_addend(const Product& p) {
  if (p.addend.data && p.addend.data != p.c) kernels::copy_rows(p.c, p.ldc, p.addend.data, p.addend.ld, p.m, p.n);
  return p.addend.data != nullptr;
}

// Few rows against many: computed as C^T = B A^T, which reads B once and as it lies.
void few_rows(const Product& p) {
  constexpr std::size_t kPiece = 512;
  const auto put = put_addend(p) ? kernels::add_rows : kernels::copy_rows;
  static thread_local std::vector<real> memory;
  memory.resize(std::max(memory.size(), 2 * kPiece * p.m));
  real *const transposed = memory.data(), *const piece = transposed + kPiece * p.m;
  for (std::size_t j = 0; j < p.n; j += kPiece) {
    const std::size_t count = std::min(kPiece, p.n - j);
    kernels::own_gemm(count, p.m, p.k, factor(Trans::no, p.b + j * p.ldb, p.ldb), factor(Trans::yes, p.a, p.lda), {},
                      transposed, p.m);
    kernels::transpose(piece, transposed, p.m, count, p.m);
    put(p.c + j, p.ldc, piece, count, p.m, count);
  }
}

// OpenBLAS knows CPUs by name; one newer than itself, or renamed by OPENBLAS_CORETYPE, gets AVX2 code.
bool openblas_lacks_avx512() {
  const std::string_view core = openblas_get_corename();
  return core == "Haswell" || core == "Zen" || core == "Sandybridge";
}

// The largest B, in elements, for which packing less than OpenBLAS beats it.
std::size_t largest_own() {
  constexpr std::size_t kMedium = std::size_t{1} << 18, kAvx512 = 64 / sizeof(real);
  static const bool always = kernels::attention_group_size() == kAvx512 && openblas_lacks_avx512();
  return always ? std::numeric_limits<std::size_t>::max() : kMedium;
}

void compute(const Product& p) {
  constexpr std::size_t kVeryFew = 4, kFew = 64;
  const bool is_nt = p.trans_a == Trans::no && p.trans_b == Trans::yes;
  if (is_nt && p.m <= kVeryFew) return kernels::dot_rows(p.m, p.n, p.k, p.a, p.lda, p.b, p.ldb, p.addend, p.c, p.ldc);
  if (is_nt && p.m <= kFew && p.n >= 4 * p.m) return few_rows(p);
  if (p.n * p.k <= largest_own())
    return kernels::own_gemm(p.m, p.n, p.k, factor(p.trans_a, p.a, p.lda), factor(p.trans_b, p.b, p.ldb), p.addend, p.c,
                             p.ldc);
  pin_to_one_thread();
#ifdef SEPPO_FLOAT64
  constexpr auto run = cblas_dgemm;
#else
  constexpr auto run = cblas_sgemm;
#endif
  const real beta = put_addend(p) ? 1 : 0;
  run(CblasRowMajor, blas_trans(p.trans_a), blas_trans(p.trans_b), blas_size(p.m), blas_size(p.n), blas_size(p.k),
      real{1}, p.a, blas_size(p.lda), p.b, blas_size(p.ldb), beta, p.c, blas_size(p.ldc));
}

// Outside of tasks a large product is cut into pieces for the threads; into the same pieces for any number.
void compute_in_pieces(const Product& p) {
  constexpr std::size_t kRows = 256, kColumns = 128;
  if (p.m > kRows)
    parallel_for(0, p.m, kRows, [&](std::size_t first, std::size_t last) { compute(p.rows(first, last - first)); });
  else
    parallel_for(0, p.n, kColumns,
                 [&](std::size_t first, std::size_t last) { compute(p.columns(first, last - first)); });
}

void multiply(const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    if (!put_addend(p))
      for (std::size_t i = 0; i < p.m; ++i) std::fill_n(p.c + i * p.ldc, p.n, real{0});
    return;
  }
  constexpr std::size_t kWorthThreads = std::size_t{1} << 18;  // multiplications
  if (!inside_task() && p.m * p.n * p.k >= kWorthThreads)
    compute_in_pieces(p);
  else
    compute(p);
}

}  // namespace

void gemm(Trans trans_a, Trans trans_b, std::size_t m, std::size_t n, std::size_t k, const real* a, std::size_t lda,
          const real* b, std::size_t ldb, real beta, real* c, std::size_t ldc) {
  check<ArgumentError>(beta == 0 || beta == 1, "gemm: beta ", beta, " is neither 0 nor 1");
  const kernels::Addend addend = beta == 0 ? kernels::Addend{} : kernels::Addend{c, ldc};
  multiply({trans_a, trans_b, m, n, k, a, lda, b, ldb, addend, c, ldc});
}

void gemm_plus_row(Trans trans_a, Trans trans_b, std::size_t m, std::size_t n, std::size_t k, const real* a,
                   std::size_t lda, const real* b, std::size_t ldb, const real* row, real* c, std::size_t ldc) {
  multiply({trans_a, trans_b, m, n, k, a, lda, b, ldb, {row, 0}, c, ldc});
}

const char* blas_description() {
  pin_to_one_thread();
  return openblas_get_config();
}

}  // namespace seppo::inline SEPPO_ABI
