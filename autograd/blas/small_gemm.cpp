// Products for which a call of a BLAS costs more than it saves: small ones and those with few rows.
//
// C is computed in register tiles of 6 rows x 4 vectors (x 2 with 16 registers). A panel of B, 128 terms deep and one
// tile wide, stays in L1 (32 KiB with AVX-512, 8 with AVX2) while all rows of A, which come from L2, pass by it six at
// a time and are not packed. Panels of B are packed if its columns are dense or its rows far apart in memory.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/blas/small_gemm.cpp"
#include <hwy/foreach_target.h>

#include "../core/simd-inl.h"
#include "product.h"

#include <hwy/cache_control.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR && !defined(SEPPO_FLOAT64)
// Transposes four columns of as many rows as the tag has lanes.
template <class Tag>
HWY_INLINE void transpose_rows(Tag d, float* y, std::size_t ldy, const float* x, std::size_t ldx) {
  hn::Vec<Tag> v[4];  // v[r] has rows r, r + 4, r + 8, ...
  for (std::size_t r = 0; r < 4; ++r) {
    v[r] = hn::LoadDup128(d, x + r * ldx);
    for (std::size_t l = 4; l < hn::Lanes(d); l += 4) {
      const auto block = hn::AndNot(hn::FirstN(d, l), hn::FirstN(d, l + 4));
      v[r] = hn::IfThenElse(block, hn::LoadDup128(d, x + (r + l) * ldx), v[r]);
    }
  }
  transpose_quads(d, v);
  for (std::size_t c = 0; c < 4; ++c) hn::StoreU(v[c], d, y + c * ldy);
}
#endif

// y[cols, rows] = x[rows, cols]^T. The last squares of 4 x 4 overlap the previous ones if need be.
void Transpose(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
#if HWY_TARGET != HWY_SCALAR && !defined(SEPPO_FLOAT64)
  if (rows >= 4 && cols >= 4) {
    const auto rows_from = [&](std::size_t i, auto d) HWY_ATTR {
      for (std::size_t j = 0; j < cols; j += 4) {
        const std::size_t col = std::min(j, cols - 4);
        transpose_rows(d, y + col * ldy + i, ldy, x + i * ldx + col, ldx);
      }
    };
    std::size_t i = 0;
    for (; i + lanes() <= rows; i += lanes()) rows_from(i, D());
    for (; i < rows; i += 4) rows_from(std::min(i, rows - 4), hn::Full128<float>());
    return;
  }
#endif
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) y[j * ldy + i] = x[i * ldx + j];
}

// The register tile: AVX-512 and AArch64 have 32 registers, AVX2 has 16.
constexpr std::size_t kTileRows = 6, kTileVectors = HWY_MAX_BYTES >= 64 || HWY_ARCH_ARM_A64 ? 4 : 2;
constexpr std::size_t kMostWidth = kTileVectors * HWY_MAX_BYTES / sizeof(real);

HWY_INLINE std::size_t tile_width() { return kTileVectors * lanes(); }

// For accuracy, partial sums of this many products each are added up.
constexpr std::size_t kTerms = 128;

// The panel of B to be packed next, prefetched a line at a time while the current one is multiplied: if all lines were
// fetched at once, the processor would wait for them.
struct Ahead {
  const real* row = nullptr;
  std::size_t ld = 0, rows = 0, width = 0, col = 0;

  HWY_INLINE void fetch_line() {
    if (rows == 0) return;
    hwy::Prefetch(row + col);
    col += kLine;
    if (col >= width) row += ld, col = 0, --rows;
  }
};

// kRows rows of C are kept in registers while the next rows of A are fetched. B is read in whole vectors.
template <std::size_t kRows, std::size_t kVectors, bool kAhead>
HWY_INLINE void tile(const Product& p, [[maybe_unused]] Ahead& ahead) {
  V sum[kRows][kVectors];
  for (auto& row : sum)
    for (V& s : row) s = hn::Zero(D());
  const real *a = p.a.data, *b = p.b.data;
  const bool fetches = p.a.col == 1 && kRows == kTileRows;
  for (std::size_t t = 0; t < p.k; ++t, a += p.a.col, b += p.b.row) {
    if (fetches && t % kLine == 0)
      for (std::size_t r = 0; r < kRows; ++r) hwy::Prefetch(a + (kRows + r) * p.a.row);
    if constexpr (kAhead)
      if (t % 8 == 0) ahead.fetch_line();
    V right[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) right[v] = hn::LoadU(D(), b + v * lanes());
    for (std::size_t r = 0; r < kRows; ++r) {
      const V left = set(a[r * p.a.row]);
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
  }
  const auto width = [&](std::size_t v) { return v + 1 < kVectors ? lanes() : p.n - v * lanes(); };
  if (p.addend.data)
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t v = 0; v < kVectors; ++v)
        sum[r][v] = hn::Add(sum[r][v], load(p.addend.data + r * p.addend.ld + v * lanes(), width(v)));
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v) store(sum[r][v], p.c + r * p.ldc + v * lanes(), width(v));
}

// All rows by a panel of kVectors vectors. Inlined into another loop, the tile's loop would spill registers.
template <std::size_t kVectors, bool kAhead>
HWY_NOINLINE void panel(const Product& p, Ahead ahead) {
  std::size_t i = 0;
  for (; i + kTileRows <= p.m; i += kTileRows) {
    if constexpr (kAhead)
      for (std::size_t r = 0; r < kTileRows; ++r)
        for (std::size_t v = 0; v < p.n; v += kLine) hwy::Prefetch(p.c + (i + r) * p.ldc + v);
    tile<kTileRows, kVectors, kAhead>(p.rows(i, kTileRows), ahead);
  }
  for (; i + 2 <= p.m; i += 2) tile<2, kVectors, false>(p.rows(i, 2), ahead);
  if (i < p.m) tile<1, kVectors, false>(p.rows(i, 1), ahead);
}

template <bool kAhead, std::size_t kVectors = kTileVectors>
void panel_of_width(const Product& p, const Ahead& ahead) {
  if constexpr (kVectors > 1)
    if (p.n <= (kVectors - 1) * lanes()) return panel_of_width<kAhead, kVectors - 1>(p, ahead);
  panel<kVectors, kAhead>(p, ahead);
}

// A panel of B as rows of a tile's width, padded with zeros to whole vectors; transposed a few cache lines at a time.
MatrixView pack_panel(real* to, MatrixView b, std::size_t k, std::size_t columns) {
  constexpr std::size_t kPart = 32;
  const std::size_t width = tile_width();
  if (b.col == 1) {
    for (std::size_t t = 0; t < k; ++t)
      for_each(columns, [&](std::size_t j, std::size_t n)
                            HWY_ATTR { hn::StoreU(load(b.data + t * b.row + j, n), D(), to + t * width + j); });
  } else {
    if (columns % lanes() != 0) std::fill_n(to, k * width, real{0});
    for (std::size_t t = 0; t < k; t += kPart)
      Transpose(to + t * width, width, b.at(t, 0).data, b.col, columns, std::min(kPart, k - t));
  }
  return {to, width, 1};
}

Ahead lines_of(MatrixView b, std::size_t k, std::size_t columns) {
  return b.col == 1 ? Ahead{b.data, b.row, k, columns} : Ahead{b.data, b.col, columns, k};
}

// How a product reads the panels of B.
enum class Panels { in_place, packed, packed_and_fetched };

// C's columns of a panel remain in L2 from one part of the sum to the next. Without terms there is one part.
void Multiply(const Product& p, Panels panels) {
  alignas(64) real packed[kTerms * kMostWidth];
  for (std::size_t j = 0; j < p.n; j += tile_width())
    for (std::size_t t = 0; t == 0 || t < p.k; t += kTerms) {
      Product part = p.terms(t, std::min(kTerms, p.k - t)).columns(j, std::min(tile_width(), p.n - j));
      if (panels != Panels::in_place) part.b = pack_panel(packed, part.b, part.k, part.n);
      if (panels != Panels::packed_and_fetched) {
        panel_of_width<false>(part, {});
        continue;
      }
      const bool is_last = t + kTerms >= p.k;  // part of these columns
      const std::size_t next_t = is_last ? 0 : t + kTerms, next_j = is_last ? j + part.n : j;
      panel_of_width<true>(
          part, lines_of(p.b.at(next_t, next_j), std::min(kTerms, p.k - next_t), std::min(tile_width(), p.n - next_j)));
    }
}

// If B is large, a block of A of up to 384 x 512 remains in an L2 of 1 MiB. If A's columns are dense, the block is
// transposed first.
void small_gemm(const Product& p) {
  constexpr std::size_t kNear = 16384;  // elements of a B that fits into the caches unpacked
  constexpr std::size_t kFew = 32;      // rows for which packing B costs more than it saves
  const bool is_near = p.n * p.k <= kNear, transposes = p.a.col != 1 && !is_near;
  const bool in_place = p.b.col == 1 && (is_near || p.m <= kFew);
  const std::size_t whole = in_place ? p.n - p.n % lanes() : 0;
  const std::size_t rows = is_near ? p.m : 64 * kTileRows,
                    terms = transposes ? 4 * kTerms : std::max<std::size_t>(p.k, 1);
  for (std::size_t i = 0; i < p.m; i += rows)
    for (std::size_t t = 0; t == 0 || t < p.k; t += terms) {
      Product block = p.terms(t, std::min(terms, p.k - t)).rows(i, std::min(rows, p.m - i));
      if (transposes) {
        const std::size_t ld = terms + kLine;  // rows a power of two apart would map to few cache sets
        real* const transposed = scratch_memory(block.m * ld * sizeof(real)).as<real>();
        Transpose(transposed, ld, block.a.data, p.a.col, block.k, block.m);
        block.a = {transposed, ld, 1};
      }
      if (whole > 0) Multiply(block.columns(0, whole), Panels::in_place);
      if (whole < p.n)
        Multiply(block.columns(whole, p.n - whole), is_near ? Panels::packed : Panels::packed_and_fetched);
    }
}

MatrixView pack_few_rows(real* to, const real* a, std::size_t lda, std::size_t m, std::size_t k) {
  const std::size_t ld = few_rows_ld(m);
  std::fill_n(to, k * ld, real{0});
  Transpose(to, ld, a, lda, m, k);
  return {to, 1, ld};
}

// Computed as C^T = B^T A^T, which reads B^T's rows from memory once, unpacked.
void few_rows(const Product& p) {
  constexpr std::size_t kPiece = 16 * kTileRows;
  alignas(64) real piece[kPiece * kFewRows];  // of C^T
  for (std::size_t j = 0; j < p.n; j += kPiece) {
    const std::size_t count = std::min(kPiece, p.n - j);
    const Addend before = p.addend.at(0, j);
    if (before.data) Transpose(piece, p.m, before.data, before.ld, p.m, count);
    Multiply({count, p.m, p.k, p.b.at(0, j).transposed(), p.a.transposed(), before.data ? Addend{piece, p.m} : Addend{},
              piece, p.m},
             Panels::in_place);
    Transpose(p.c + j, p.ldc, piece, p.m, count, p.m);
  }
}

// A tile of C = A B^T, each element a dot product of two rows. Memory throughput is higher if several rows are read at
// once and those of the next tile are prefetched.
template <std::size_t kRows, std::size_t kCols>
HWY_INLINE void dot_tile(const Product& p) {
  V sum[kRows][kCols];
  for (auto& row : sum)
    for (V& s : row) s = hn::Zero(D());
  const auto step = [&](std::size_t t, const auto& take) HWY_ATTR {
    V right[kCols];
    for (std::size_t j = 0; j < kCols; ++j) {
      right[j] = take(p.b.data + j * p.b.col + t);
      if (t % kLine == 0) hwy::Prefetch(p.b.data + (kCols + j) * p.b.col + t);
    }
    for (std::size_t i = 0; i < kRows; ++i) {
      const V left = take(p.a.data + i * p.a.row + t);
      for (std::size_t j = 0; j < kCols; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
  };
  std::size_t t = 0;
  for (; t + lanes() <= p.k; t += lanes()) step(t, [](const real* x) HWY_ATTR { return hn::LoadU(D(), x); });
  if (t < p.k) step(t, [&](const real* x) HWY_ATTR { return load(x, p.k - t); });
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < kCols; ++j) {
      const real y = sum_lanes(sum[i][j]);
      p.c[i * p.ldc + j] = p.addend.data ? y + p.addend.data[i * p.addend.ld + j] : y;
    }
}

template <std::size_t kRows>
HWY_INLINE void dot_some(const Product& p) {
  std::size_t j = 0;
  for (; j + 4 <= p.n; j += 4) dot_tile<kRows, 4>(p.columns(j, 4));
  for (; j < p.n; ++j) dot_tile<kRows, 1>(p.columns(j, 1));
}

void dot_rows(const Product& p) {
  std::size_t i = 0;
  for (; i + 4 <= p.m; i += 4) dot_some<4>(p.rows(i, 4));
  for (; i < p.m; ++i) dot_some<1>(p.rows(i, 1));
}

}  // namespace
}  // namespace kernels::HWY_NAMESPACE
}  // namespace SEPPO_ABI
}  // namespace seppo
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels {
SEPPO_KERNEL(small_gemm);
SEPPO_KERNEL(dot_rows);
SEPPO_KERNEL(few_rows);
SEPPO_KERNEL(pack_few_rows);
}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
#endif
