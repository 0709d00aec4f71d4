#include "gemm.h"

#include "../core/check.h"
#include "../kernels/kernels.h"
#include "../core/memory.h"
#include "../core/parallel.h"

#include <cblas.h>
#include <algorithm>
#include <cstdint>
#include <limits>

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

// The largest B, in elements, for which our kernel beats OpenBLAS: with vectors of 64 bytes every one.
std::size_t largest_own() {
  constexpr std::size_t kMedium = std::size_t{1} << 18, kAny = std::numeric_limits<std::size_t>::max();
  static const bool longest_vectors = kernels::attention_group_size() == kernels::kMostAttentionLanes;
  return longest_vectors ? kAny : kMedium;
}

// Large enough for the matrix unit, if there is one: packing takes longer for it than for vectors.
bool suits_amx(const Product& p, std::size_t least_size = 64) {
  constexpr std::size_t kWorthPacking = std::size_t{1} << 21;
  return kernels::has_amx() && std::min({p.m, p.n, p.k}) >= least_size && p.m * p.n * p.k >= kWorthPacking;
}

// Both factors lie with their rows along the sums, as activations and weights do.
bool is_by_rows(const Product& p) { return p.trans_a == Trans::no && p.trans_b == Trans::yes; }

constexpr std::size_t kVeryFew = 4, kFew = 64;  // rows, as in decoding

void compute(const Product& p) {
  if (is_by_rows(p) && p.m <= kVeryFew)
    return kernels::dot_rows(p.m, p.n, p.k, p.a, p.lda, p.b, p.ldb, p.addend, p.c, p.ldc);
  if (suits_amx(p))
    return kernels::amx_gemm(kernels::faster_amx_blocks(), p.m, p.n, p.k, factor(p.trans_a, p.a, p.lda),
                             factor(p.trans_b, p.b, p.ldb), p.addend, p.c, p.ldc);
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

// Calls f(piece) for the pieces into which a large product is cut for the threads, unless this is within a task; they
// are the same for any number of threads.
template <class F>
void for_each_piece(const Product& p, const F& f) {
  constexpr std::size_t kWorthThreads = std::size_t{1} << 18;  // multiplications
  constexpr std::size_t kRows = 256, kColumns = 128;
  if (inside_task() || p.m * p.n * p.k < kWorthThreads) return f(p);
  if (p.m > kRows)
    parallel_for(0, p.m, kRows, [&](std::size_t first, std::size_t last) { f(p.rows(first, last - first)); });
  else
    parallel_for(0, p.n, kColumns, [&](std::size_t first, std::size_t last) { f(p.columns(first, last - first)); });
}

void few_rows(const Product& p) {
  static thread_local Memory memory;  // for A, as all pieces need it
  const bool on_amx = suits_amx(p, 1);
  const std::size_t bytes = on_amx ? kernels::amx_packed_rows(p.m, p.k) : p.m * p.k * sizeof(real);
  if (memory.size() < bytes) memory = Memory(bytes);
  if (on_amx) {
    std::uint32_t* const packed = memory.as<std::uint32_t>();  // of this thread
    kernels::amx_pack_rows(packed, p.m, p.k, p.a, p.lda);
    for_each_piece(
        p, [&](const Product& q) { kernels::amx_few_rows(q.m, q.n, q.k, packed, q.b, q.ldb, q.addend, q.c, q.ldc); });
  } else {
    real* const columns = memory.as<real>();
    kernels::transpose(columns, p.a, p.lda, p.m, p.k);
    for_each_piece(
        p, [&](const Product& q) { kernels::few_rows(q.m, q.n, q.k, columns, q.b, q.ldb, q.addend, q.c, q.ldc); });
  }
}

void multiply(const Product& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    if (!put_addend(p))
      for (std::size_t i = 0; i < p.m; ++i) std::fill_n(p.c + i * p.ldc, p.n, real{0});
    return;
  }
  if (is_by_rows(p) && p.m > kVeryFew && p.m <= kFew && p.n >= 4 * p.m) return few_rows(p);
  for_each_piece(p, compute);
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
