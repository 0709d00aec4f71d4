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

// y = x^T, for an x with dense rows. The last squares of 4 x 4 overlap the previous ones if need be.
void transpose(const MatrixOut& y, const MatrixView& x) {
#if HWY_TARGET != HWY_SCALAR && !defined(SEPPO_FLOAT64)
  if (x.rows >= 4 && x.cols >= 4) {
    const auto rows_from = [&](std::size_t i, auto d) HWY_ATTR {
      for (std::size_t j = 0; j < x.cols; j += 4) {
        const std::size_t col = std::min(j, x.cols - 4);
        transpose_rows(d, y.at(col, i), y.stride, x.at(i, col), x.row_stride);
      }
    };
    std::size_t i = 0;
    for (; i + lanes() <= x.rows; i += lanes()) rows_from(i, D());
    for (; i < x.rows; i += 4) rows_from(std::min(i, x.rows - 4), hn::Full128<float>());
    return;
  }
#endif
  for (std::size_t i = 0; i < x.rows; ++i)
    for (std::size_t j = 0; j < x.cols; ++j) *y.at(j, i) = *x.at(i, j);
}

// The register tile: AVX-512 and AArch64 have 32 registers, AVX2 has 16.
constexpr std::size_t kTileRows = 6, kTileVectors = HWY_MAX_BYTES >= 64 || HWY_ARCH_ARM_A64 ? 4 : 2;
constexpr std::size_t kMostWidth = kTileVectors * HWY_MAX_BYTES / sizeof(real);

HWY_INLINE std::size_t tile_width() { return kTileVectors * lanes(); }

// For accuracy, partial sums of this many products each are added up.
constexpr std::size_t kTerms = 128;

// How many parts of up to `most` terms a sum has: at least one, since C is written even if there are no terms.
std::size_t parts_of_sum(std::size_t terms, std::size_t most) {
  return std::max<std::size_t>(1, (terms + most - 1) / most);
}

// The panel of B to be packed next, prefetched a line at a time while the current one is multiplied: if all lines were
// fetched at once, the processor would wait for them.
struct Ahead {
  const real* row = nullptr;
  std::size_t stride = 0, rows = 0, width = 0, col = 0;

  HWY_INLINE void fetch_line() {
    if (rows == 0) return;
    hwy::Prefetch(row + col);
    col += kLine;
    if (col < width) return;
    row += stride;
    col = 0;
    --rows;
  }
};

// The lines of a panel in memory: its rows, or its columns if those are dense.
Ahead lines_of(const MatrixView& b) {
  if (b.col_stride == 1) return {b.data, b.row_stride, b.rows, b.cols};
  return {b.data, b.col_stride, b.cols, b.rows};
}

// kRows rows of C are kept in registers while the next rows of A are fetched. B is read in whole vectors.
template <std::size_t kRows, std::size_t kVectors, bool kAhead>
HWY_INLINE void tile(const Product& p, [[maybe_unused]] Ahead& ahead) {
  V sum[kRows][kVectors];
  for (auto& row : sum)
    for (V& s : row) s = hn::Zero(D());
  const real* a = p.a.data;
  const real* b = p.b.data;
  const bool fetches_rows = p.a.col_stride == 1 && kRows == kTileRows;
  for (std::size_t t = 0; t < p.k(); ++t) {
    if (fetches_rows && t % kLine == 0)
      for (std::size_t r = 0; r < kRows; ++r) hwy::Prefetch(a + (kRows + r) * p.a.row_stride);
    if constexpr (kAhead)
      if (t % 8 == 0) ahead.fetch_line();
    V right[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v) right[v] = hn::LoadU(D(), b + v * lanes());
    for (std::size_t r = 0; r < kRows; ++r) {
      const V left = set(a[r * p.a.row_stride]);
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
    a += p.a.col_stride;
    b += p.b.row_stride;
  }
  const auto width = [&](std::size_t v) { return v + 1 < kVectors ? lanes() : p.n() - v * lanes(); };
  if (p.addend.data)
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] += load(p.addend.at(r, v * lanes()), width(v));
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v) store(sum[r][v], p.c.at(r, v * lanes()), width(v));
}

// All rows by a panel of kVectors vectors. Inlined into another loop, the tile's loop would spill registers.
template <std::size_t kVectors, bool kAhead>
HWY_NOINLINE void multiply_panel(const Product& p, Ahead ahead) {
  std::size_t i = 0;
  for (; i + kTileRows <= p.m(); i += kTileRows) {
    if constexpr (kAhead)
      for (std::size_t r = 0; r < kTileRows; ++r)
        for (std::size_t j = 0; j < p.n(); j += kLine) hwy::Prefetch(p.c.at(i + r, j));
    tile<kTileRows, kVectors, kAhead>(p.rows(i, kTileRows), ahead);
  }
  for (; i + 2 <= p.m(); i += 2) tile<2, kVectors, false>(p.rows(i, 2), ahead);
  if (i < p.m()) tile<1, kVectors, false>(p.rows(i, 1), ahead);
}

template <bool kAhead, std::size_t kVectors = kTileVectors>
void multiply_panel_of_any_width(const Product& p, const Ahead& ahead) {
  if constexpr (kVectors > 1)
    if (p.n() <= (kVectors - 1) * lanes()) return multiply_panel_of_any_width<kAhead, kVectors - 1>(p, ahead);
  multiply_panel<kVectors, kAhead>(p, ahead);
}

// A panel of B as rows of a tile's width, padded with zeros to whole vectors; transposed a few cache lines at a time.
MatrixView pack_panel(real* to, const MatrixView& b) {
  constexpr std::size_t kPart = 32;  // rows that are transposed at once
  const MatrixOut packed(to, b.rows, b.cols, tile_width());
  if (b.col_stride == 1) {
    for (std::size_t t = 0; t < b.rows; ++t)
      for_each(b.cols, [&](Part at) HWY_ATTR { hn::StoreU(load(b.at(t, 0), at), D(), packed.at(t, at.begin)); });
  } else {
    if (b.cols % lanes() != 0) std::fill_n(to, b.rows * packed.stride, real{0});
    for (std::size_t t = 0; t < b.rows; t += kPart) {
      const std::size_t rows = std::min(kPart, b.rows - t);
      transpose(packed.block(t, 0, rows, b.cols), transposed(b.block(t, 0, rows, b.cols)));
    }
  }
  return {packed.data, packed.rows, packed.cols, packed.stride};
}

// How a product reads the panels of B.
enum class Panels { in_place, packed, packed_and_fetched };

// A panel of B: one tile wide, and at most kTerms deep.
struct Panel {
  std::size_t col, cols, term, terms;

  Panel(const Product& p, std::size_t col, std::size_t term)
      : col(col), cols(std::min(tile_width(), p.n() - col)), term(term), terms(std::min(kTerms, p.k() - term)) {}

  HWY_INLINE Product of(const Product& p) const { return p.terms(term, terms).columns(col, cols); }
  // The next one in the order in which they are multiplied: deeper, or else at the top of the next columns.
  Panel next(const Product& p) const {
    const bool is_last = term + kTerms >= p.k();
    return is_last ? Panel(p, col + cols, 0) : Panel(p, col, term + kTerms);
  }
};

// C's columns of a panel remain in L2 from one part of the sum to the next.
void multiply_by_panels(const Product& p, Panels panels) {
  alignas(64) real packed[kTerms * kMostWidth];
  for (std::size_t j = 0; j < p.n(); j += tile_width())
    for (std::size_t i = 0; i < parts_of_sum(p.k(), kTerms); ++i) {
      const Panel panel(p, j, i * kTerms);
      Product part = panel.of(p);
      if (panels != Panels::in_place) part.b = pack_panel(packed, part.b);
      if (panels == Panels::packed_and_fetched)
        multiply_panel_of_any_width<true>(part, lines_of(panel.next(p).of(p).b));
      else
        multiply_panel_of_any_width<false>(part, {});
    }
}

// A block of A whose columns are dense, transposed.
MatrixView pack_block(const MatrixView& a, std::size_t most_terms) {
  const std::size_t stride = most_terms + kLine;  // rows a power of two apart would map to few cache sets
  const MatrixOut packed(scratch_memory(a.rows * stride * sizeof(real)).as<real>(), a.rows, a.cols, stride);
  transpose(packed, transposed(a));
  return {packed.data, packed.rows, packed.cols, packed.stride};
}

// If B is large, a block of A of up to 384 x 512 remains in an L2 of 1 MiB. If A's columns are dense, the block is
// transposed first.
void small_gemm(const Product& p) {
  constexpr std::size_t kNear = 16384;  // elements of a B that fits into the caches unpacked
  constexpr std::size_t kFew = 32;      // rows for which packing B costs more than it saves
  const bool is_near = p.n() * p.k() <= kNear;
  const bool packs_a = p.a.col_stride != 1 && !is_near;
  const bool reads_b_in_place = p.b.col_stride == 1 && (is_near || p.m() <= kFew);
  const std::size_t whole = reads_b_in_place ? p.n() - p.n() % lanes() : 0;  // columns in whole vectors
  const std::size_t rows = is_near ? p.m() : 64 * kTileRows;
  const std::size_t terms = packs_a ? 4 * kTerms : std::max<std::size_t>(p.k(), 1);
  for (std::size_t i = 0; i < p.m(); i += rows)
    for (std::size_t part = 0; part < parts_of_sum(p.k(), terms); ++part) {
      const std::size_t t = part * terms;
      Product block = p.terms(t, std::min(terms, p.k() - t)).rows(i, std::min(rows, p.m() - i));
      if (packs_a) block.a = pack_block(block.a, terms);
      if (whole > 0) multiply_by_panels(block.columns(0, whole), Panels::in_place);
      if (whole < p.n())
        multiply_by_panels(block.columns(whole, p.n() - whole), is_near ? Panels::packed : Panels::packed_and_fetched);
    }
}

MatrixView pack_few_rows(real* to, const MatrixView& a) {
  const MatrixOut packed(to, a.cols, a.rows, few_rows_stride(a.rows));
  std::fill_n(to, packed.rows * packed.stride, real{0});
  transpose(packed, a);
  return transposed(MatrixView(packed.data, packed.rows, packed.cols, packed.stride));
}

// Computed as C^T = B^T A^T, which reads B^T's rows from memory once, unpacked.
void few_rows(const Product& p) {
  constexpr std::size_t kPiece = 16 * kTileRows;
  alignas(64) real piece[kPiece * kFewRows];  // of C^T
  for (std::size_t j = 0; j < p.n(); j += kPiece) {
    const Product part = p.columns(j, std::min(kPiece, p.n() - j));
    const MatrixOut c(piece, part.n(), part.m());
    Addend addend;
    if (part.addend.data) {
      transpose(c, {part.addend.data, part.m(), part.n(), part.addend.stride});
      addend = {c.data, c.stride};
    }
    multiply_by_panels({c, transposed(part.b), transposed(part.a), addend}, Panels::in_place);
    transpose(part.c, {c.data, c.rows, c.cols, c.stride});
  }
}

// A tile of C = A B^T, each element a dot product of two rows. Memory throughput is higher if several rows are read at
// once and those of the next tile are prefetched.
template <std::size_t kRows, std::size_t kCols>
HWY_INLINE void dot_tile(const Product& p) {
  V sum[kRows][kCols];
  for (auto& row : sum)
    for (V& s : row) s = hn::Zero(D());
  const auto add_terms = [&](std::size_t t, const auto& take) HWY_ATTR {
    V right[kCols];
    for (std::size_t j = 0; j < kCols; ++j) {
      right[j] = take(p.b.at(t, j));
      if (t % kLine == 0) hwy::Prefetch(p.b.at(t, kCols + j));
    }
    for (std::size_t i = 0; i < kRows; ++i) {
      const V left = take(p.a.at(i, t));
      for (std::size_t j = 0; j < kCols; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
  };
  std::size_t t = 0;
  for (; t + lanes() <= p.k(); t += lanes()) add_terms(t, [](const real* x) HWY_ATTR { return hn::LoadU(D(), x); });
  if (t < p.k()) add_terms(t, [&](const real* x) HWY_ATTR { return load(x, p.k() - t); });
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < kCols; ++j) {
      const real y = sum_lanes(sum[i][j]);
      *p.c.at(i, j) = p.addend.data ? y + *p.addend.at(i, j) : y;
    }
}

template <std::size_t kRows>
HWY_INLINE void dot_some_rows(const Product& p) {
  std::size_t j = 0;
  for (; j + 4 <= p.n(); j += 4) dot_tile<kRows, 4>(p.columns(j, 4));
  for (; j < p.n(); ++j) dot_tile<kRows, 1>(p.columns(j, 1));
}

void dot_rows(const Product& p) {
  std::size_t i = 0;
  for (; i + 4 <= p.m(); i += 4) dot_some_rows<4>(p.rows(i, 4));
  for (; i < p.m(); ++i) dot_some_rows<1>(p.rows(i, 1));
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
