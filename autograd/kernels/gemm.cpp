#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "seppo/autograd/kernels/gemm.cpp"
#include <hwy/foreach_target.h>

#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/kernels/simd-inl.h>
#include <seppo/autograd/memory.h>

#include <algorithm>
#include <cstring>

#ifndef SEPPO_GEMM_SCRATCH
#define SEPPO_GEMM_SCRATCH
namespace seppo::inline SEPPO_ABI::kernels {
namespace {

// The calling thread's memory for packing.
real* gemm_scratch(std::size_t elements) {
  static thread_local Memory memory;
  if (memory.size() < elements * sizeof(real)) memory = Memory(elements * sizeof(real));
  return memory.as<real>();
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

// kRows rows of C, kVectors vectors wide (the last of `count` elements), stay in registers.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void block(std::size_t k, Factor a, const real* b, std::size_t ldb, real beta, real* c, std::size_t ldc,
                      std::size_t count) {
  V sum[kRows][kVectors];
  for (auto& row : sum)
    for (V& s : row) s = hn::Zero(D());
  for (std::size_t p = 0; p < k; ++p, a.data += a.col, b += ldb) {
    V right[kVectors];
    for (std::size_t v = 0; v + 1 < kVectors; ++v) right[v] = hn::LoadU(D(), b + v * lanes());
    right[kVectors - 1] = load(b + (kVectors - 1) * lanes(), count);
    for (std::size_t r = 0; r < kRows; ++r) {
      const V left = set(a.data[r * a.row]);
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      accumulate(sum[r][v], beta, c + r * ldc + v * lanes(), v + 1 < kVectors ? lanes() : count);
}

// Six rows of two vectors fill AVX2's registers.
constexpr std::size_t kRowsAtOnce = 6;

// All rows of a panel of columns.
template <std::size_t kVectors>
HWY_INLINE void panel(std::size_t m, std::size_t k, Factor a, const real* b, std::size_t ldb, real beta, real* c,
                      std::size_t ldc, std::size_t count) {
  std::size_t i = 0;
  for (; i + kRowsAtOnce <= m; i += kRowsAtOnce)
    block<kRowsAtOnce, kVectors>(k, a.at(i, 0), b, ldb, beta, c + i * ldc, ldc, count);
  for (; i + 2 <= m; i += 2) block<2, kVectors>(k, a.at(i, 0), b, ldb, beta, c + i * ldc, ldc, count);
  if (i < m) block<1, kVectors>(k, a.at(i, 0), b, ldb, beta, c + i * ldc, ldc, count);
}

// With B's rows as they are.
void DirectGemm(std::size_t m, std::size_t n, std::size_t k, Factor a, const real* b, std::size_t ldb, real beta,
                real* c, std::size_t ldc) {
  std::size_t j = 0;
  for (; j + 2 * lanes() <= n; j += 2 * lanes()) panel<2>(m, k, a, b + j, ldb, beta, c + j, ldc, lanes());
  if (n - j > lanes())
    panel<2>(m, k, a, b + j, ldb, beta, c + j, ldc, n - j - lanes());
  else if (j < n)
    panel<1>(m, k, a, b + j, ldb, beta, c + j, ldc, n - j);
}

// y[cols, rows] = x[rows, cols]^T, in blocks of 4 x 4 where vectors allow.
void Transpose(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR && !defined(SEPPO_FLOAT64)
  const hn::Full128<float> d;
  const hn::Full128<std::uint64_t> pairs;
  const auto as_pairs = [&](hn::Vec<decltype(d)> v) HWY_ATTR { return hn::BitCast(pairs, v); };
  for (; i + 4 <= rows; i += 4) {
    std::size_t j = 0;
    for (; j + 4 <= cols; j += 4) {
      const real* const from = x + i * ldx + j;
      real* const to = y + j * ldy + i;
      const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + ldx), r2 = hn::LoadU(d, from + 2 * ldx),
                 r3 = hn::LoadU(d, from + 3 * ldx);
      const auto low01 = as_pairs(hn::InterleaveLower(d, r0, r1)), low23 = as_pairs(hn::InterleaveLower(d, r2, r3));
      const auto high01 = as_pairs(hn::InterleaveUpper(d, r0, r1)), high23 = as_pairs(hn::InterleaveUpper(d, r2, r3));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + ldy);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * ldy);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * ldy);
    }
    for (; j < cols; ++j)
      for (std::size_t r = i; r < i + 4; ++r) y[j * ldy + r] = x[r * ldx + j];
  }
#endif
  for (std::size_t j = 0; j < cols; ++j)
    for (std::size_t r = i; r < rows; ++r) y[j * ldy + r] = x[r * ldx + j];
}

// A block of A, m x k, fits the second-level cache, and a panel of B, k x two vectors, the first-level
// one (Goto and van de Geijn 2008).
constexpr std::size_t kBlockM = 64 * kRowsAtOnce, kBlockK = 128;

// The transpose of A, its rows in groups as block() takes them.
void pack_rows(real* to, Factor a, std::size_t m, std::size_t k) {
  for (std::size_t i = 0; i < m; i += kRowsAtOnce) {
    const std::size_t rows = std::min(kRowsAtOnce, m - i);
    for (std::size_t p = 0; p < k; ++p, to += rows)
      for (std::size_t r = 0; r < rows; ++r) to[r] = a.data[(i + r) * a.row + p * a.col];
  }
}

// `count` columns of B, as rows of two vectors.
void pack_columns(real* to, Factor b, std::size_t k, std::size_t count) {
  const std::size_t width = 2 * lanes();
  if (b.col != 1) return Transpose(to, width, b.data, b.col, count, k);
  for (std::size_t p = 0; p < k; ++p) std::memcpy(to + p * width, b.data + p * b.row, count * sizeof(real));
}

// Both factors cut into blocks; B, and A if it is transposed, are copied together.
void PackedGemm(std::size_t m, std::size_t n, std::size_t k, Factor a, Factor b, real beta, real* c, std::size_t ldc) {
  const std::size_t width = 2 * lanes();
  real *const columns = gemm_scratch(kBlockK * width + kBlockM * kBlockK), *const rows = columns + kBlockK * width;
  for (std::size_t p = 0; p < k; p += kBlockK) {
    const std::size_t depth = std::min(kBlockK, k - p);
    for (std::size_t i = 0; i < m; i += kBlockM) {
      const std::size_t height = std::min(kBlockM, m - i);
      const Factor block_a = a.at(i, p);
      if (a.col != 1) pack_rows(rows, block_a, height, depth);
      for (std::size_t j = 0; j < n; j += width) {
        const std::size_t count = std::min(width, n - j);
        pack_columns(columns, b.at(p, j), depth, count);
        real* const to = c + i * ldc + j;
        const real factor = p == 0 ? beta : real{1};
        for (std::size_t r = 0; r < height; r += kRowsAtOnce) {
          const std::size_t some = std::min(kRowsAtOnce, height - r);
          DirectGemm(some, count, depth, a.col != 1 ? Factor{rows + r * depth, 1, some} : block_a.at(r, 0), columns,
                     width, factor, to + r * ldc, ldc);
        }
      }
    }
  }
}

void Gemm(std::size_t m, std::size_t n, std::size_t k, Factor a, Factor b, real beta, real* c, std::size_t ldc) {
  constexpr std::size_t kFirstLevel = 16384;  // elements
  if (n * k > kFirstLevel) return PackedGemm(m, n, k, a, b, beta, c, ldc);
  if (b.col == 1) return DirectGemm(m, n, k, a, b.data, b.row, beta, c, ldc);
  real* const columns = gemm_scratch(n * k);
  Transpose(columns, n, b.data, b.col, n, k);
  DirectGemm(m, n, k, a, columns, n, beta, c, ldc);
}

template <std::size_t kRows>
HWY_INLINE void dot_rows(std::size_t n, std::size_t k, const real* a, std::size_t lda, const real* b, std::size_t ldb,
                         real beta, real* c, std::size_t ldc) {
  for (std::size_t j = 0; j < n; ++j, b += ldb) {
    V even[kRows], odd[kRows];
    for (std::size_t r = 0; r < kRows; ++r) even[r] = odd[r] = hn::Zero(D());
    std::size_t p = 0;
    for (; p + 2 * lanes() <= k; p += 2 * lanes()) {
      const V b0 = hn::LoadU(D(), b + p), b1 = hn::LoadU(D(), b + p + lanes());
      for (std::size_t r = 0; r < kRows; ++r) {
        even[r] = hn::MulAdd(hn::LoadU(D(), a + r * lda + p), b0, even[r]);
        odd[r] = hn::MulAdd(hn::LoadU(D(), a + r * lda + p + lanes()), b1, odd[r]);
      }
    }
    for (; p < k; p += lanes())
      for (std::size_t r = 0; r < kRows; ++r)
        even[r] = hn::MulAdd(load(a + r * lda + p, k - p), load(b + p, k - p), even[r]);
    for (std::size_t r = 0; r < kRows; ++r) {
      real& y = c[r * ldc + j];
      y = sum_lanes(hn::Add(even[r], odd[r])) + (beta == 0 ? real{0} : y);
    }
  }
}

void DotRows(std::size_t m, std::size_t n, std::size_t k, const real* a, std::size_t lda, const real* b,
             std::size_t ldb, real beta, real* c, std::size_t ldc) {
  for (; m >= 4; m -= 4, a += 4 * lda, c += 4 * ldc) dot_rows<4>(n, k, a, lda, b, ldb, beta, c, ldc);
  for (; m > 0; --m, a += lda, c += ldc) dot_rows<1>(n, k, a, lda, b, ldb, beta, c, ldc);
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {

HWY_EXPORT(Gemm);
HWY_EXPORT(Transpose);
HWY_EXPORT(DotRows);

void own_gemm(std::size_t m, std::size_t n, std::size_t k, Factor a, Factor b, real beta, real* c, std::size_t ldc) {
  HWY_DYNAMIC_DISPATCH(Gemm)(m, n, k, a, b, beta, c, ldc);
}

void transpose(real* y, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  HWY_DYNAMIC_DISPATCH(Transpose)(y, rows, x, ldx, rows, cols);
}

void dot_rows(std::size_t m, std::size_t n, std::size_t k, const real* a, std::size_t lda, const real* b,
              std::size_t ldb, real beta, real* c, std::size_t ldc) {
  HWY_DYNAMIC_DISPATCH(DotRows)(m, n, k, a, lda, b, ldb, beta, c, ldc);
}

}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
