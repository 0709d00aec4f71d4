#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/blas/small_gemm.cpp"
#include <hwy/foreach_target.h>

#include "../kernels/kernels.h"
#include "scratch.h"
#include "../core/simd-inl.h"
#include "transpose-inl.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

constexpr std::size_t kLine = 64 / sizeof(real);  // of a cache

real* gemm_scratch(std::size_t elements) { return packing_memory(elements * sizeof(real)).as<real>(); }

// A tile of C in registers: 64-byte vectors come with 32 of them, narrower ones with 16.
constexpr std::size_t kRowsAtOnce = 6, kVectorsAtOnce = HWY_MAX_BYTES >= 64 ? 4 : 2;

HWY_INLINE std::size_t tile_width() { return kVectorsAtOnce * lanes(); }

// What block() brings into the cache before term p, at `a`, for later.
struct FetchNothing {
  HWY_INLINE void operator()(std::size_t, const real*) const {}
};

// The next rows of A, whose columns are adjacent.
struct FetchRows {
  std::size_t ld;

  HWY_INLINE void operator()(std::size_t p, const real* a) const {
    if (p % kLine == 0)
      for (std::size_t r = 0; r < kRowsAtOnce; ++r) hwy::Prefetch(a + (kRowsAtOnce + r) * ld);
  }
};

// A matrix, one line for every eight terms.
struct FetchMatrix {
  const real* row;
  std::size_t ld, rows, width, col = 0;

  HWY_INLINE void operator()(std::size_t p, const real*) {
    if (p % 8 != 0 || rows == 0) return;
    hwy::Prefetch(row + col);
    col += kLine;
    if (col >= width) row += ld, col = 0, --rows;
  }
};

// The columns of a tile: so many vectors, the last of which may not be whole.
template <std::size_t kCount, bool kWhole>
struct Vectors {
  static constexpr std::size_t count = kCount;
  static HWY_INLINE std::size_t last(std::size_t columns) {
    return kWhole ? lanes() : columns - (kCount - 1) * lanes();
  }
};

// Calls f(Vectors) with as few vectors as hold the columns.
template <std::size_t kVectors = kVectorsAtOnce, class F>
HWY_INLINE void with_vectors(std::size_t columns, const F& f) {
  if constexpr (kVectors > 1)
    if (columns <= (kVectors - 1) * lanes()) return with_vectors<kVectors - 1>(columns, f);
  if (columns == kVectors * lanes())
    f(Vectors<kVectors, true>());
  else
    f(Vectors<kVectors, false>());
}

// kRows rows of C stay in registers.
template <std::size_t kRows, class Vectors, class Fetch>
HWY_INLINE void block(std::size_t k, Factor a, const real* b, std::size_t ldb, Addend addend, real* c, std::size_t ldc,
                      std::size_t columns, Fetch& fetch) {
  constexpr std::size_t kVectors = Vectors::count;
  const std::size_t last = Vectors::last(columns);
  V sum[kRows][kVectors];
  for (auto& row : sum)
    for (V& s : row) s = hn::Zero(D());
  for (std::size_t p = 0; p < k; ++p, a.data += a.col, b += ldb) {
    fetch(p, a.data);
    V right[kVectors];
    for (std::size_t v = 0; v + 1 < kVectors; ++v) right[v] = hn::LoadU(D(), b + v * lanes());
    right[kVectors - 1] = load(b + (kVectors - 1) * lanes(), last);
    for (std::size_t r = 0; r < kRows; ++r) {
      const V left = set(a.data[r * a.row]);
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
  }
  const auto width = [&](std::size_t v) { return v + 1 < kVectors ? lanes() : last; };
  if (addend.data)
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t v = 0; v < kVectors; ++v)
        sum[r][v] = hn::Add(sum[r][v], load(addend.data + r * addend.ld + v * lanes(), width(v)));
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v) store(sum[r][v], c + r * ldc + v * lanes(), width(v));
}

// All rows of a panel of columns. Within another function's loops its own would lack registers.
template <class Vectors, class Fetch>
HWY_NOINLINE void panel(std::size_t m, std::size_t k, Factor a, const real* b, std::size_t ldb, Addend addend, real* c,
                        std::size_t ldc, std::size_t columns, Fetch& fetch) {
  std::size_t i = 0;
  FetchNothing nothing;
  for (; i + kRowsAtOnce <= m; i += kRowsAtOnce)
    block<kRowsAtOnce, Vectors>(k, a.at(i, 0), b, ldb, addend.at(i, 0), c + i * ldc, ldc, columns, fetch);
  for (; i + 2 <= m; i += 2)
    block<2, Vectors>(k, a.at(i, 0), b, ldb, addend.at(i, 0), c + i * ldc, ldc, columns, nothing);
  if (i < m) block<1, Vectors>(k, a.at(i, 0), b, ldb, addend.at(i, 0), c + i * ldc, ldc, columns, nothing);
}

// Sums are of so many products each, for accuracy, and then added up; a tile's rows of B stay in the first-level cache.
constexpr std::size_t kTerms = 128;

// With B's rows as they are.
template <class Fetch = FetchNothing>
void DirectGemm(std::size_t m, std::size_t n, std::size_t k, Factor a, const real* b, std::size_t ldb, Addend addend,
                real* c, std::size_t ldc, std::size_t terms = kTerms, Fetch fetch = {}) {
  for (std::size_t p = 0; p < k; p += terms, addend = {c, ldc})
    for (std::size_t j = 0; j < n; j += tile_width()) {
      const std::size_t columns = std::min(tile_width(), n - j);
      with_vectors(columns, [&](auto vectors) HWY_ATTR {
        panel<decltype(vectors)>(m, std::min(terms, k - p), a.at(0, p), b + p * ldb + j, ldb, addend.at(0, j), c + j,
                                 ldc, columns, fetch);
      });
    }
}

// ---- large products (Goto and van de Geijn 2008): both factors are cut into blocks and packed ----

// A block of A, m x k, fits the second-level cache.
constexpr std::size_t kBlockM = 64 * kRowsAtOnce, kBlockK = 2 * kTerms;

// Rows of A in groups of kRowsAtOnce, each group transposed; in parts that stay in the first-level cache.
void pack_rows(real* to, Factor a, std::size_t m, std::size_t k) {
  constexpr std::size_t kPart = 8;
  const std::size_t part = a.col == 1 ? k : kPart;
  for (std::size_t p = 0; p < k; p += part)
    for (std::size_t i = 0; i < m; i += kRowsAtOnce) {
      const std::size_t rows = std::min(kRowsAtOnce, m - i), depth = std::min(part, k - p);
      const real* const from = a.at(i, p).data;
      real* const group = to + i * k + p * kRowsAtOnce;
      if (a.col == 1)
        Transpose(group, kRowsAtOnce, from, a.row, rows, depth);
      else if (rows == kRowsAtOnce)
        for (std::size_t q = 0; q < depth; ++q)
          std::memcpy(group + q * kRowsAtOnce, from + q * a.col, kRowsAtOnce * sizeof(real));
      else
        for (std::size_t q = 0; q < depth; ++q) std::copy_n(from + q * a.col, rows, group + q * kRowsAtOnce);
    }
}

// `count` columns of B, as rows of a tile's width; transposed in parts that stay in the first-level cache.
void pack_columns(real* to, Factor b, std::size_t k, std::size_t count) {
  constexpr std::size_t kPart = 32;
  if (b.col == 1)
    for (std::size_t p = 0; p < k; ++p)
      for_each(count, [&](std::size_t j, std::size_t n)
                          HWY_ATTR { store(load(b.data + p * b.row + j, n), to + p * tile_width() + j, n); });
  else
    for (std::size_t p = 0; p < k; p += kPart)
      Transpose(to + p * tile_width(), tile_width(), b.at(p, 0).data, b.col, count, std::min(kPart, k - p));
}

// A panel of columns from packed factors.
template <class Vectors>
HWY_NOINLINE void packed_panel(std::size_t m, std::size_t k, const real* a, const real* b, Addend addend, real* c,
                               std::size_t ldc, std::size_t columns, FetchMatrix fetch) {
  for (std::size_t p = 0; p < k; p += kTerms, addend = {c, ldc}) {
    const std::size_t terms = std::min(kTerms, k - p);
    const real* const right = b + p * tile_width();
    for (std::size_t i = 0; i < m; i += kRowsAtOnce) {
      const std::size_t rows = std::min(kRowsAtOnce, m - i);
      const Factor left = {a + i * k + p * kRowsAtOnce, 1, kRowsAtOnce};
      real* const to = c + i * ldc;
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t j = 0; j < columns; j += kLine) hwy::Prefetch(to + r * ldc + j);
      if (rows == kRowsAtOnce)
        block<kRowsAtOnce, Vectors>(terms, left, right, tile_width(), addend.at(i, 0), to, ldc, columns, fetch);
      else
        panel<Vectors>(rows, terms, left, right, tile_width(), addend.at(i, 0), to, ldc, columns, fetch);
    }
  }
}

void PackedGemm(std::size_t m, std::size_t n, std::size_t k, Factor a, Factor b, Addend addend, real* c,
                std::size_t ldc) {
  real* const packed = gemm_scratch(kBlockK * (tile_width() + kBlockM));  // of B
  real* const rows = packed + kBlockK * tile_width();
  for (std::size_t p = 0; p < k; p += kBlockK, addend = {c, ldc}) {
    const std::size_t depth = std::min(kBlockK, k - p);
    for (std::size_t i = 0; i < m; i += kBlockM) {
      const std::size_t height = std::min(kBlockM, m - i);
      pack_rows(rows, a.at(i, p), height, depth);
      for (std::size_t j = 0; j < n; j += tile_width()) {
        const std::size_t columns = std::min(tile_width(), n - j), next = std::min(tile_width(), n - j - columns);
        pack_columns(packed, b.at(p, j), depth, columns);
        const real* const after = b.at(p, j + columns).data;
        const FetchMatrix fetch =
            b.col == 1 ? FetchMatrix{after, b.row, depth, next} : FetchMatrix{after, b.col, next, depth};
        with_vectors(columns, [&](auto vectors) HWY_ATTR {
          packed_panel<decltype(vectors)>(height, depth, rows, packed, addend.at(i, j), c + i * ldc + j, ldc, columns,
                                          fetch);
        });
      }
    }
  }
}

void Gemm(std::size_t m, std::size_t n, std::size_t k, Factor a, Factor b, Addend addend, real* c, std::size_t ldc) {
  constexpr std::size_t kFirstLevel = 16384;  // elements of B
  constexpr std::size_t kFew = 32;            // rows for which packing B costs more than it brings
  if (b.col == 1 && (n * k <= kFirstLevel || m <= kFew)) return DirectGemm(m, n, k, a, b.data, b.row, addend, c, ldc);
  if (n * k > kFirstLevel) return PackedGemm(m, n, k, a, b, addend, c, ldc);
  real* const columns = gemm_scratch(n * k);
  Transpose(columns, n, b.data, b.col, n, k);
  DirectGemm(m, n, k, a, columns, n, addend, c, ldc);
}

// Computed as C^T = B A^T, which takes B as it lies. A piece of A^T stays in the first-level cache.
void FewRows(std::size_t m, std::size_t n, std::size_t k, const real* a_transposed, const real* b, std::size_t ldb,
             Addend addend, real* c, std::size_t ldc) {
  constexpr std::size_t kPieceN = 16 * kRowsAtOnce, kPieceK = 256;
  real* const piece = gemm_scratch(kPieceN * m);  // of C^T
  for (std::size_t j = 0; j < n; j += kPieceN) {
    const std::size_t count = std::min(kPieceN, n - j);
    Addend sum = {};
    if (addend.data) Transpose(piece, m, addend.data + j, addend.ld, m, count), sum = {piece, m};
    DirectGemm(count, m, k, {b + j * ldb, ldb, 1}, a_transposed, m, sum, piece, m, kPieceK, FetchRows{ldb});
    Transpose(c + j, ldc, piece, m, count, m);
  }
}

// A tile of C = A B^T, each element a dot product of two rows. Memory delivers more when several rows are read at once
// and the next tile's are fetched.
template <std::size_t kRows, std::size_t kCols>
HWY_INLINE void dot_tile(std::size_t k, const real* a, std::size_t lda, const real* b, std::size_t ldb, Addend addend,
                         real* c, std::size_t ldc) {
  V sum[kRows][kCols];
  for (auto& row : sum)
    for (V& s : row) s = hn::Zero(D());
  const auto step = [&](std::size_t p, const auto& take) HWY_ATTR {
    V right[kCols];
    for (std::size_t j = 0; j < kCols; ++j) {
      right[j] = take(b + j * ldb + p);
      if (p % kLine == 0) hwy::Prefetch(b + (kCols + j) * ldb + p);
    }
    for (std::size_t i = 0; i < kRows; ++i) {
      const V left = take(a + i * lda + p);
      for (std::size_t j = 0; j < kCols; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
  };
  std::size_t p = 0;
  for (; p + lanes() <= k; p += lanes()) step(p, [](const real* x) HWY_ATTR { return hn::LoadU(D(), x); });
  if (p < k) step(p, [&](const real* x) HWY_ATTR { return load(x, k - p); });
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t j = 0; j < kCols; ++j) {
      const real y = sum_lanes(sum[i][j]);
      c[i * ldc + j] = addend.data ? y + addend.data[i * addend.ld + j] : y;
    }
}

template <std::size_t kRows, std::size_t kCols>
HWY_INLINE void dot_rows(std::size_t n, std::size_t k, const real* a, std::size_t lda, const real* b, std::size_t ldb,
                         Addend addend, real* c, std::size_t ldc) {
  std::size_t j = 0;
  for (; j + kCols <= n; j += kCols) dot_tile<kRows, kCols>(k, a, lda, b + j * ldb, ldb, addend.at(0, j), c + j, ldc);
  for (; j < n; ++j) dot_tile<kRows, 1>(k, a, lda, b + j * ldb, ldb, addend.at(0, j), c + j, ldc);
}

void DotRows(std::size_t m, std::size_t n, std::size_t k, const real* a, std::size_t lda, const real* b,
             std::size_t ldb, Addend addend, real* c, std::size_t ldc) {
  for (; m >= 4; m -= 4, a += 4 * lda, addend = addend.at(4, 0), c += 4 * ldc)
    dot_rows<4, 4>(n, k, a, lda, b, ldb, addend, c, ldc);
  for (; m > 0; --m, a += lda, addend = addend.at(1, 0), c += ldc) dot_rows<1, 4>(n, k, a, lda, b, ldb, addend, c, ldc);
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {

HWY_EXPORT(Gemm);
HWY_EXPORT(Transpose);
HWY_EXPORT(DotRows);
HWY_EXPORT(FewRows);

void own_gemm(std::size_t m, std::size_t n, std::size_t k, Factor a, Factor b, Addend addend, real* c,
              std::size_t ldc) {
  HWY_DYNAMIC_DISPATCH(Gemm)(m, n, k, a, b, addend, c, ldc);
}

void transpose(real* y, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  HWY_DYNAMIC_DISPATCH(Transpose)(y, rows, x, ldx, rows, cols);
}

void few_rows(std::size_t m, std::size_t n, std::size_t k, const real* a_transposed, const real* b, std::size_t ldb,
              Addend addend, real* c, std::size_t ldc) {
  HWY_DYNAMIC_DISPATCH(FewRows)(m, n, k, a_transposed, b, ldb, addend, c, ldc);
}

void dot_rows(std::size_t m, std::size_t n, std::size_t k, const real* a, std::size_t lda, const real* b,
              std::size_t ldb, Addend addend, real* c, std::size_t ldc) {
  HWY_DYNAMIC_DISPATCH(DotRows)(m, n, k, a, lda, b, ldb, addend, c, ldc);
}

}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
