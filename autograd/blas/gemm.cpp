// Chooses the code that computes a product, and divides large products into pieces for the threads.
#include "gemm.h"

#include "../core/check.h"
#include "../core/parallel.h"
#include "amx.h"
#include "product.h"

#include <cstdint>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

constexpr std::size_t kVeryFewRows = 4;
using kernels::kFewRows;

// True if A's rows and B's columns are dense, like activations and weights.
bool is_by_rows(const Product& p) { return p.a.col == 1 && p.b.row == 1; }

// OpenBLAS packs all of B and adds to C in further passes, which is too slow for products up to this size.
bool is_small(const Product& p) {
  constexpr std::size_t kSmall = std::size_t{1} << 20;  // elements of B
  return p.n * p.k <= kSmall || p.m <= kFewRows;
}

// The multiplications that a thread takes at a time: a sixteenth of the product, or about 10 us of work if more.
std::size_t worth_a_thread(const Product& p) { return std::max(p.m * p.n * p.k / 16, std::size_t{1} << 18); }

// Calls f(piece) for pieces of the columns, or of the rows, of at least `least` multiplications, which idle threads may
// take. Elements are summed as in the undivided product, so that their bytes do not depend on the pieces.
template <class F>
void for_each_piece(const Product& p, bool by_rows, std::size_t least, const F& f) {
  const std::size_t lines = by_rows ? p.m : p.n, work = std::max<std::size_t>(1, (by_rows ? p.n : p.m) * p.k);
  const std::size_t step = by_rows ? 24 : 64;  // whole tiles of every kernel
  parallel_range(0, lines, ((least - 1) / work / step + 1) * step, [&](std::size_t first, std::size_t last) {
    f(by_rows ? p.rows(first, last - first) : p.columns(first, last - first));
  });
}

// Few rows, as in decoding: A is packed once for all pieces.
void few_rows(Product p) {
  if (amx::suits_few_rows(p)) {
    auto* const packed = scratch_memory(amx::few_rows_size(p)).as<std::uint32_t>();
    amx::pack_few_rows(packed, p);
    for_each_piece(p, false, worth_a_thread(p), [&](const Product& q) { amx::few_rows(q, packed); });
  } else {
    real* const transposed = scratch_memory(kernels::few_rows_ld(p.m) * p.k * sizeof(real)).as<real>();
    p.a = kernels::pack_few_rows(transposed, p.a.data, p.a.row, p.m, p.k);
    for_each_piece(p, false, worth_a_thread(p), kernels::few_rows);
  }
}

void multiply(const Product& p) {
  if (is_by_rows(p) && p.m <= kVeryFewRows) return for_each_piece(p, false, worth_a_thread(p), kernels::dot_rows);
  if (is_by_rows(p) && p.m <= kFewRows && p.n >= 4 * p.m) return few_rows(p);
  const bool has_amx = amx::suits(p);
  if (is_small(p) && !has_amx)
    return for_each_piece(p, p.m > p.n, worth_a_thread(p), [&](const Product& q) {  // divided again if they are few
      for_each_piece(q, p.m <= p.n, worth_a_thread(p), kernels::small_gemm);
    });
  if (has_amx && inside_task()) return amx::gemm(p);  // in pieces, it would pack both operands repeatedly
  // Their rounding may depend on the size of the product, so the pieces must not depend on the threads.
  const bool by_rows = p.m > p.n;
  const std::size_t lines = by_rows ? p.m : p.n;
  parallel_for(0, lines, std::max<std::size_t>(128, (lines + 15) / 16), [&](std::size_t first, std::size_t last) {
    const Product piece = by_rows ? p.rows(first, last - first) : p.columns(first, last - first);
    has_amx ? amx::gemm(piece) : openblas::gemm(piece);
  });
}

MatrixView operand(Trans trans, const real* data, std::size_t ld) {
  return trans == Trans::no ? MatrixView{data, ld, 1} : MatrixView{data, 1, ld};
}

}  // namespace

void gemm(Trans trans_a, Trans trans_b, std::size_t m, std::size_t n, std::size_t k, const real* a, std::size_t lda,
          const real* b, std::size_t ldb, real beta, real* c, std::size_t ldc) {
  check<ArgumentError>(beta == 0 || beta == 1, "gemm: beta ", double{beta}, " is neither 0 nor 1");
  const Addend addend = beta == 0 ? Addend{} : Addend{c, ldc};
  multiply({m, n, k, operand(trans_a, a, lda), operand(trans_b, b, ldb), addend, c, ldc});
}

void gemm_plus_row(Trans trans_a, Trans trans_b, std::size_t m, std::size_t n, std::size_t k, const real* a,
                   std::size_t lda, const real* b, std::size_t ldb, const real* row, real* c, std::size_t ldc) {
  multiply({m, n, k, operand(trans_a, a, lda), operand(trans_b, b, ldb), {row, 0}, c, ldc});
}

}  // namespace SEPPO_ABI
}  // namespace seppo
