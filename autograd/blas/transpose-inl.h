// y = x^T for the kernels of products; included once per instruction set.
#if defined(SEPPO_TRANSPOSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SEPPO_TRANSPOSE_INL_H
#undef SEPPO_TRANSPOSE_INL_H
#else
#define SEPPO_TRANSPOSE_INL_H
#endif

#include "../core/simd-inl.h"

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

// y[cols, rows] = x[rows, cols]^T
inline void transpose_elements(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows,
                               std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) y[j * ldy + i] = x[i * ldx + j];
}

#if HWY_TARGET == HWY_SCALAR || defined(SEPPO_FLOAT64)
inline void Transpose(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  transpose_elements(y, ldy, x, ldx, rows, cols);
}
#else
// Four columns of as many rows as the tag has lanes.
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

// The last squares of 4 x 4 overlap those before if need be.
inline void Transpose(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  if (rows < 4 || cols < 4) return transpose_elements(y, ldy, x, ldx, rows, cols);
  const auto rows_from = [&](std::size_t i, auto d) HWY_ATTR {
    for (std::size_t j = 0; j < cols; j += 4) {
      const std::size_t col = std::min(j, cols - 4);
      transpose_rows(d, y + col * ldy + i, ldy, x + i * ldx + col, ldx);
    }
  };
  std::size_t i = 0;
  for (; i + lanes() <= rows; i += lanes()) rows_from(i, D());
  for (; i < rows; i += 4) rows_from(std::min(i, rows - 4), hn::Full128<float>());
}
#endif

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
