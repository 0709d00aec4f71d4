// Chooses the engine that computes a product, and divides large products into pieces for the threads.
#include "../core/memory.h"
#include "../core/parallel.h"
#include "amx.h"
#include "avx512_bf16.h"
#include "compact_product.h"
#include "compact_vnni.h"
#include "product.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

enum class Engine { dot_rows, few_rows, few_rows_amx, amx, avx512_bf16, small, openblas };

Engine choose(const Product& p) {
  constexpr std::size_t kSmall = std::size_t{1} << 20;                 // elements of B
  const bool is_by_rows = p.a.col_stride == 1 && p.b.row_stride == 1;  // like activations and weights
  if (is_by_rows && p.m() <= kernels::kVeryFewRows) return Engine::dot_rows;
  if (is_by_rows && p.m() <= kernels::kFewRows && p.n() >= 4 * p.m())
    return amx::suits_few_rows(p) ? Engine::few_rows_amx : Engine::few_rows;
  if (amx::suits(p)) return Engine::amx;
  if (avx512_bf16::suits(p)) return Engine::avx512_bf16;
  // OpenBLAS packs all of B and adds to C in further passes, which is too slow for products up to this size.
  if (p.n() * p.k() <= kSmall || p.m() <= kernels::kFewRows) return Engine::small;
  return Engine::openblas;
}

enum class CompactEngine { dot_rows, vnni, few_rows_amx, expanded };

CompactEngine choose(const CompactProduct& p) {
  if (vnni::suits(p)) return CompactEngine::vnni;
  if (p.m() <= kernels::kVeryFewRows) return CompactEngine::dot_rows;
  return amx::suits_few_rows(p) ? CompactEngine::few_rows_amx : CompactEngine::expanded;
}

enum class Side { rows, columns };

Side longer_side(const Product& p) { return p.m() > p.n() ? Side::rows : Side::columns; }
Side other(Side side) { return side == Side::rows ? Side::columns : Side::rows; }

// Whether pieces may depend on how many threads are idle: only if their elements are summed as in the undivided
// product, so that the bytes do not depend on the pieces.
enum class Pieces { as_threads_are_idle, always_the_same };

// Calls f(piece) for pieces of C, of so many rows or columns each, which idle threads may take.
template <class F>
void divide(const Product& p, Side side, std::size_t count, Pieces pieces, const F& f) {
  const auto run_piece = [&](std::size_t first, std::size_t last) {
    f(side == Side::rows ? p.rows(first, last - first) : p.columns(first, last - first));
  };
  const std::size_t lines = side == Side::rows ? p.m() : p.n();
  if (pieces == Pieces::always_the_same)
    parallel_for(0, lines, count, run_piece);
  else
    parallel_range(0, lines, count, run_piece);
}

// The multiplications that a thread takes at a time: a sixteenth of the product, or about 10 us of work if more.
std::size_t worth_a_thread(const auto& p) { return std::max(p.m() * p.n() * p.k() / 16, std::size_t{1} << 18); }

// The rows, or columns, that have at least so many multiplications: whole tiles of every kernel.
std::size_t lines_with_work(const auto& p, Side side, std::size_t multiplications) {
  const std::size_t tile = side == Side::rows ? 24 : 64;
  const std::size_t across = side == Side::rows ? p.n() : p.m();
  const std::size_t work = std::max<std::size_t>(1, across * p.k());  // of a row or column
  return ((multiplications - 1) / work / tile + 1) * tile;
}

// Of C = A W^T too, for a compact W.
template <class AnyProduct, class F>
void divide_columns(const AnyProduct& p, const F& f) {
  parallel_range(0, p.n(), lines_with_work(p, Side::columns, worth_a_thread(p)),
                 [&](std::size_t first, std::size_t last) { f(p.columns(first, last - first)); });
}

// Along the longer side, and pieces once more along the other, if they are few.
template <class F>
void divide_both_sides(const Product& p, const F& f) {
  const std::size_t work = worth_a_thread(p);
  const Side first = longer_side(p), second = other(first);
  divide(p, first, lines_with_work(p, first, work), Pieces::as_threads_are_idle, [&](const Product& strip) {
    divide(strip, second, lines_with_work(strip, second, work), Pieces::as_threads_are_idle, f);
  });
}

// For engines whose rounding may depend on the size of the product.
template <class F>
void divide_into_sixteen(const Product& p, const F& f) {
  const std::size_t lines = std::max(p.m(), p.n());
  divide(p, longer_side(p), std::max<std::size_t>(128, (lines + 15) / 16), Pieces::always_the_same, f);
}

// Few rows, as in decoding: A is packed once for all pieces.
void few_rows(Product p) {
  const std::size_t elements = kernels::few_rows_stride(p.m()) * p.k();
  real* const packed = scratch_memory(elements * sizeof(real)).as<real>();
  p.a = kernels::pack_few_rows(packed, p.a);
  divide_columns(p, kernels::few_rows);
}

template <class AnyProduct>
void few_rows_amx(const AnyProduct& p) {
  const std::size_t size = amx::few_rows_size(p);
  auto* const packed = scratch_memory(size).as<std::uint32_t>();
  amx::pack_few_rows(packed, p);
  divide_columns(p, [&](const AnyProduct& piece) { amx::few_rows(piece, packed); });
}

// Of a product with a compact weight; f(piece, a) has A packed.
template <class F>
void packed_rows(const CompactProduct& p, const F& f) {
  std::byte* const a = scratch_memory(p.m() * packed_row_bytes(*p.w.matrix)).data();
  kernels::pack_for_compact(a, p);
  divide_columns(p, [&](const CompactProduct& piece) { f(piece, a); });
}

}  // namespace

void compute(const Product& p) {
  switch (choose(p)) {
    case Engine::dot_rows:
      return divide_columns(p, kernels::dot_rows);
    case Engine::few_rows:
      return few_rows(p);
    case Engine::few_rows_amx:
      return few_rows_amx(p);
    case Engine::amx:
      return amx::gemm(p);
    case Engine::avx512_bf16:
      return avx512_bf16::gemm(p);
    case Engine::small:
      return divide_both_sides(p, kernels::small_gemm);
    case Engine::openblas:
      return divide_into_sixteen(p, openblas::gemm);
  }
}

void compute(const CompactProduct& p) {
  switch (choose(p)) {
    case CompactEngine::dot_rows:
      return packed_rows(p, kernels::compact_dot_rows);
    case CompactEngine::vnni:
      return packed_rows(p, vnni::multiply);
    case CompactEngine::few_rows_amx:
      return few_rows_amx(p);
    case CompactEngine::expanded:
      return compute_expanded(p);
  }
}

std::string blas_description() {
  const std::string everywhere = "own kernels, OpenBLAS";
  if (amx::is_available()) return "AMX, " + everywhere + "; high has two bfloat16 parts; medium has one";
  if (avx512_bf16::is_available())
    return "AVX-512 BF16, " + everywhere + "; high is highest; medium has one bfloat16 part";
  return everywhere + "; high is highest; medium is highest";
}

}  // namespace SEPPO_ABI
}  // namespace seppo
