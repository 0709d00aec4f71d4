// Products of a few rows with a compact weight, which is read from memory once, as one stream: that is what they take
// time for. Each element of C is the dot product of a row of A with a row of W.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/blas/compact_dot.cpp"
#include <hwy/foreach_target.h>

#include "../core/simd-inl.h"
#include "compact_product.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::HWY_NAMESPACE {
namespace {

using F = hn::ScalableTag<float>;  // sums, in double precision too
using VF = hn::Vec<F>;
using I32 = hn::RebindToSigned<F>;
using BF = hn::Rebind<hwy::bfloat16_t, F>;

constexpr std::size_t kBlock = CompactMatrix::kBlock;
constexpr std::size_t kAhead = 1024;  // bytes from what is multiplied to what is prefetched

HWY_INLINE void fetch_ahead(const void* at) { hwy::Prefetch(static_cast<const char*>(at) + kAhead); }

template <std::size_t kRows>
HWY_INLINE void dot_bf16(VF (&sum)[kRows], const std::uint16_t* row, const float* a, std::size_t blocks) {
  const auto* const w = reinterpret_cast<const hwy::bfloat16_t*>(row);
  const std::size_t step = hn::Lanes(F());
  VF other[kRows];
  for (VF& s : other) s = hn::Zero(F());
  for (std::size_t t = 0; t < blocks * kBlock; t += 2 * step) {
    fetch_ahead(w + t);
    const VF left = hn::PromoteTo(F(), hn::LoadU(BF(), w + t));
    const VF right = hn::PromoteTo(F(), hn::LoadU(BF(), w + t + step));
    for (std::size_t r = 0; r < kRows; ++r) {
      const float* const x = a + r * blocks * kBlock + t;
      sum[r] = hn::MulAdd(hn::LoadU(F(), x), left, sum[r]);
      other[r] = hn::MulAdd(hn::LoadU(F(), x + step), right, other[r]);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) sum[r] = sum[r] + other[r];
}

// An element of C, to which the addend belongs too.
HWY_INLINE void put(const CompactProduct& p, std::size_t row, std::size_t col, float sum) {
  const auto y = static_cast<real>(sum);
  *p.c.at(row, col) = p.addend.data ? y + *p.addend.at(row, col) : y;
}

template <std::size_t kRows>
HWY_INLINE void dot_rows_of_bf16(const CompactProduct& p, const float* a) {
  const CompactMatrix& matrix = *p.w.matrix;
  for (std::size_t j = 0; j < p.n(); ++j) {
    VF sum[kRows];
    for (VF& s : sum) s = hn::Zero(F());
    dot_bf16(sum, matrix.bfloat16_row(p.w.first + j), a, matrix.blocks());
    for (std::size_t r = 0; r < kRows; ++r) put(p, r, j, hn::GetLane(hn::SumOfLanes(F(), sum[r])));
  }
}

#if HWY_TARGET == HWY_SCALAR
// The products of a block with one column of a panel.
template <std::size_t kRows>
void add_block(VF (&sum)[kRows], const QuantizedPanel& w, const QuantizedRows<kRows>& a, std::size_t column) {
  for (std::size_t r = 0; r < kRows; ++r) {
    std::int32_t products = a.offset[r];
    for (std::size_t t = 0; t < kBlock; ++t) products += w.q[t / 4][column][t % 4] * a.q[t / 4][r][t % 4];
    sum[r] = sum[r] + hn::Set(F(), static_cast<float>(products) * (w.scale[column] * a.scale[r]));
  }
}
#else
using I16 = hn::Repartition<std::int16_t, I32>;

// A row's four integers, as often as they fit.
HWY_INLINE hn::Vec<I16> quads(const std::int8_t (&q)[4]) {
  const hn::Rebind<std::int8_t, I16> narrow;
  std::int32_t bits;
  std::memcpy(&bits, q, sizeof bits);
  return hn::PromoteTo(I16(), hn::BitCast(narrow, hn::Set(hn::Repartition<std::int32_t, decltype(narrow)>(), bits)));
}

// Sums of neighbouring products: of two vectors that have four for each column.
struct ColumnSums {
  hn::Vec<I32> of[2], rest[2];

  HWY_INLINE ColumnSums() { of[0] = of[1] = rest[0] = rest[1] = hn::Zero(I32()); }
  HWY_INLINE void add(std::size_t half, hn::Vec<I16> w, hn::Vec<I16> a) {
    of[half] = hn::ReorderWidenMulAccumulate(I32(), w, a, of[half], rest[half]);
  }
  HWY_INLINE hn::Vec<I32> total() const {
    const auto low = hn::RearrangeToOddPlusEven(of[0], rest[0]), high = hn::RearrangeToOddPlusEven(of[1], rest[1]);
    return hn::ConcatEven(I32(), high, low) + hn::ConcatOdd(I32(), high, low);
  }
};

// The products of a block with as many columns of a panel as a vector has lanes.
template <std::size_t kRows>
HWY_INLINE void add_block(VF (&sum)[kRows], const QuantizedPanel& w, const QuantizedRows<kRows>& a,
                          std::size_t column) {
  const hn::Rebind<std::uint8_t, I16> bytes;
  const std::size_t half = hn::Lanes(F()) / 2;
  ColumnSums products[kRows];
  for (std::size_t t = 0; t < QuantizedPanel::kQuads; ++t) {
    const auto low = hn::PromoteTo(I16(), hn::LoadU(bytes, w.q[t][column]));
    const auto high = hn::PromoteTo(I16(), hn::LoadU(bytes, w.q[t][column + half]));
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto right = quads(a.q[t][r]);
      products[r].add(0, low, right);
      products[r].add(1, high, right);
    }
  }
  const VF scales = hn::LoadU(F(), w.scale + column);
  for (std::size_t r = 0; r < kRows; ++r) {
    const VF total = hn::ConvertTo(F(), products[r].total() + hn::Set(I32(), a.offset[r]));
    sum[r] = hn::MulAdd(total, scales * hn::Set(F(), a.scale[r]), sum[r]);
  }
}
#endif

// Panels may have columns of W that are not asked for.
template <std::size_t kRows>
HWY_INLINE void dot_rows_of_q8(const CompactProduct& p, const QuantizedRows<kRows>* a) {
  const std::size_t step = hn::Lanes(F()), begin = p.w.first, end = begin + p.n();
  for (std::size_t first = begin / step * step; first < end; first += step) {
    const QuantizedPanel* const w = p.w.matrix->panels_of(first);
    VF sum[kRows];
    for (VF& s : sum) s = hn::Zero(F());
    for (std::size_t b = 0; b < p.w.matrix->blocks(); ++b) {
      fetch_ahead(w + b);
      add_block(sum, w[b], a[b], first % QuantizedPanel::kRows);
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      float sums[QuantizedPanel::kRows] = {};
      hn::StoreU(sum[r], F(), sums);
      for (std::size_t row = std::max(first, begin); row < std::min(first + step, end); ++row)
        put(p, r, row - begin, sums[row - first]);
    }
  }
}

template <std::size_t kRows = kVeryFewRows>
HWY_NOINLINE void dot_up_to(const CompactProduct& p, const std::byte* a) {
  if (p.m() == kRows) {
    if (p.w.matrix->format() == WeightFormat::bf16)
      return dot_rows_of_bf16<kRows>(p, reinterpret_cast<const float*>(a));
    return dot_rows_of_q8(p, reinterpret_cast<const QuantizedRows<kRows>*>(a));
  }
  if constexpr (kRows > 1) dot_up_to<kRows - 1>(p, a);
}

void compact_dot_rows(const CompactProduct& p, const std::byte* a) { dot_up_to(p, a); }

}  // namespace
}  // namespace kernels::HWY_NAMESPACE
}  // namespace SEPPO_ABI
}  // namespace seppo
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels {
SEPPO_KERNEL(compact_dot_rows);
}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
#endif
