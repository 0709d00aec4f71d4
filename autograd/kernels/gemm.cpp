#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "seppo/autograd/kernels/gemm.cpp"
#include <hwy/foreach_target.h>

#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/kernels/simd-inl.h>

#include <memory>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

// kRows rows of C, kVectors vectors wide (the last of `count` elements), stay in registers.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void block(std::size_t k, const real* a, std::size_t row_a, std::size_t col_a, const real* b,
                      std::size_t ldb, real beta, real* c, std::size_t ldc, std::size_t count) {
  V sum[kRows][kVectors];
  for (auto& row : sum)
    for (V& s : row) s = hn::Zero(D());
  for (std::size_t p = 0; p < k; ++p, a += col_a, b += ldb) {
    V right[kVectors];
    for (std::size_t v = 0; v + 1 < kVectors; ++v) right[v] = hn::LoadU(D(), b + v * lanes());
    right[kVectors - 1] = load(b + (kVectors - 1) * lanes(), count);
    for (std::size_t r = 0; r < kRows; ++r) {
      const V left = set(a[r * row_a]);
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      accumulate(sum[r][v], beta, c + r * ldc + v * lanes(), v + 1 < kVectors ? lanes() : count);
}

// All rows of a panel of columns. Six rows of two vectors fill AVX2's registers.
template <std::size_t kVectors>
HWY_INLINE void panel(std::size_t m, std::size_t k, const real* a, std::size_t row_a, std::size_t col_a, const real* b,
                      std::size_t ldb, real beta, real* c, std::size_t ldc, std::size_t count) {
  std::size_t i = 0;
  for (; i + 6 <= m; i += 6) block<6, kVectors>(k, a + i * row_a, row_a, col_a, b, ldb, beta, c + i * ldc, ldc, count);
  for (; i + 2 <= m; i += 2) block<2, kVectors>(k, a + i * row_a, row_a, col_a, b, ldb, beta, c + i * ldc, ldc, count);
  if (i < m) block<1, kVectors>(k, a + i * row_a, row_a, col_a, b, ldb, beta, c + i * ldc, ldc, count);
}

void SmallGemm(std::size_t m, std::size_t n, std::size_t k, const real* a, std::size_t row_a, std::size_t col_a,
               const real* b, std::size_t ldb, real beta, real* c, std::size_t ldc) {
  std::size_t j = 0;
  for (; j + 2 * lanes() <= n; j += 2 * lanes()) panel<2>(m, k, a, row_a, col_a, b + j, ldb, beta, c + j, ldc, lanes());
  if (n - j > lanes())
    panel<2>(m, k, a, row_a, col_a, b + j, ldb, beta, c + j, ldc, n - j - lanes());
  else if (j < n)
    panel<1>(m, k, a, row_a, col_a, b + j, ldb, beta, c + j, ldc, n - j);
}

// y[cols, rows] = x[rows, cols]^T, in blocks of 4 x 4 where vectors allow.
void Transpose(real* y, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR && !defined(SEPPO_FLOAT64)
  const hn::Full128<float> d;
  const hn::Full128<std::uint64_t> pairs;
  const auto as_pairs = [&](hn::Vec<decltype(d)> v) HWY_ATTR { return hn::BitCast(pairs, v); };
  for (; i + 4 <= rows; i += 4) {
    std::size_t j = 0;
    for (; j + 4 <= cols; j += 4) {
      const real* const from = x + i * ldx + j;
      real* const to = y + j * rows + i;
      const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + ldx), r2 = hn::LoadU(d, from + 2 * ldx),
                 r3 = hn::LoadU(d, from + 3 * ldx);
      const auto low01 = as_pairs(hn::InterleaveLower(d, r0, r1)), low23 = as_pairs(hn::InterleaveLower(d, r2, r3));
      const auto high01 = as_pairs(hn::InterleaveUpper(d, r0, r1)), high23 = as_pairs(hn::InterleaveUpper(d, r2, r3));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + rows);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * rows);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * rows);
    }
    for (; j < cols; ++j)
      for (std::size_t r = i; r < i + 4; ++r) y[j * rows + r] = x[r * ldx + j];
  }
#endif
  for (std::size_t j = 0; j < cols; ++j)
    for (std::size_t r = i; r < rows; ++r) y[j * rows + r] = x[r * ldx + j];
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

HWY_EXPORT(SmallGemm);
HWY_EXPORT(Transpose);
HWY_EXPORT(DotRows);

void small_gemm(std::size_t m, std::size_t n, std::size_t k, const real* a, std::size_t row_a, std::size_t col_a,
                const real* b, std::size_t ldb, real beta, real* c, std::size_t ldc) {
  HWY_DYNAMIC_DISPATCH(SmallGemm)(m, n, k, a, row_a, col_a, b, ldb, beta, c, ldc);
}

void transpose(real* y, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  HWY_DYNAMIC_DISPATCH(Transpose)(y, x, ldx, rows, cols);
}

void dot_rows(std::size_t m, std::size_t n, std::size_t k, const real* a, std::size_t lda, const real* b,
              std::size_t ldb, real beta, real* c, std::size_t ldc) {
  HWY_DYNAMIC_DISPATCH(DotRows)(m, n, k, a, lda, b, ldb, beta, c, ldc);
}

}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
