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

template <class T>
HWY_INLINE void fetch_ahead(const T* at) {
  constexpr std::size_t kLine = 64;
  for (std::size_t line = 0; line < sizeof *at; line += kLine)
    hwy::Prefetch(reinterpret_cast<const char*>(at) + kAhead + line);
}

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
// A row's numbers of a block, one after another, to be multiplied by vectors of the baseline.
template <class T, std::size_t kRows>
void copy_row(T (&to)[kBlock], const T (&q)[QuantizedPanel::kQuads][kRows][4], std::size_t row) {
  for (std::size_t t = 0; t < kBlock; t += 4) std::memcpy(to + t, q[t / 4][row], 4);
}

// The products of a block with one column of a panel.
template <std::size_t kRows>
void add_block(VF (&sum)[kRows], const QuantizedPanel& w, const QuantizedRows<kRows>& a, std::size_t column) {
  std::uint8_t weights[kBlock];
  copy_row(weights, w.q, column);
  for (std::size_t r = 0; r < kRows; ++r) {
    std::int8_t x[kBlock];
    copy_row(x, a.q, r);
    std::int32_t products = a.offset[r];
    for (std::size_t t = 0; t < kBlock; ++t) products += weights[t] * x[t];
    sum[r] = sum[r] + hn::Set(F(), static_cast<float>(products) * (w.scale[column] * a.scale[r]));
  }
}
#else
using I16 = hn::Repartition<std::int16_t, I32>;
using U16 = hn::Repartition<std::uint16_t, I32>;
using U8 = hn::Repartition<std::uint8_t, I32>;

// A row's four integers, in all lanes.
HWY_INLINE hn::Vec<I16> quad(const std::int8_t (&q)[4]) {
  std::int32_t bits;
  std::memcpy(&bits, q, sizeof bits);
  return hn::BitCast(I16(), hn::Set(I32(), bits));
}

// The products of a block with as many columns of a panel as a vector has lanes. A column's fours are in two lanes of
// 16 bits, whose lower bytes are multiplied, and then the upper ones.
template <std::size_t kRows>
HWY_INLINE void add_block(VF (&sum)[kRows], const QuantizedPanel& w, const QuantizedRows<kRows>& a,
                          std::size_t column) {
  hn::Vec<I32> products[kRows], others[kRows];
  for (std::size_t r = 0; r < kRows; ++r) products[r] = others[r] = hn::Zero(I32());
  for (std::size_t t = 0; t < QuantizedPanel::kQuads; ++t) {
    const auto weights = hn::BitCast(U16(), hn::LoadU(U8(), w.q[t][column]));
    const auto lower = hn::BitCast(I16(), hn::And(weights, hn::Set(U16(), 0xff)));
    const auto upper = hn::BitCast(I16(), hn::ShiftRight<8>(weights));
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto x = quad(a.q[t][r]);
      const auto lower_x = hn::ShiftRight<8>(hn::ShiftLeft<8>(x)), upper_x = hn::ShiftRight<8>(x);
      products[r] = hn::ReorderWidenMulAccumulate(I32(), lower, lower_x, products[r], others[r]);
      products[r] = hn::ReorderWidenMulAccumulate(I32(), upper, upper_x, products[r], others[r]);
    }
  }
  const VF scales = hn::LoadU(F(), w.scale + column);
  for (std::size_t r = 0; r < kRows; ++r) {
    const auto total = hn::RearrangeToOddPlusEven(products[r], others[r]) + hn::Set(I32(), a.offset[r]);
    sum[r] = hn::MulAdd(hn::ConvertTo(F(), total), scales * hn::Set(F(), a.scale[r]), sum[r]);
  }
}
#endif

// Panels may have columns of W that are not asked for.
template <std::size_t kRows>
HWY_INLINE void dot_rows_of_q8(const CompactProduct& p, const QuantizedRows<kRows>* a) {
  constexpr std::size_t kColumns = QuantizedPanel::kRows, kLanes = hn::MaxLanes(F());
  const std::size_t begin = p.w.first, end = begin + p.n();
  for (std::size_t panel = begin / kColumns * kColumns; panel < end; panel += kColumns) {
    const QuantizedPanel* const w = p.w.matrix->panels_of(panel);
    VF sum[kColumns / kLanes][kRows];
    for (auto& of_rows : sum)
      for (VF& s : of_rows) s = hn::Zero(F());
    for (std::size_t b = 0; b < p.w.matrix->blocks(); ++b) {
      fetch_ahead(w + b);
      for (std::size_t i = 0; i < kColumns / kLanes; ++i) add_block(sum[i], w[b], a[b], i * kLanes);
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      float sums[kColumns];
      for (std::size_t i = 0; i < kColumns / kLanes; ++i) hn::StoreU(sum[i][r], F(), sums + i * kLanes);
      for (std::size_t row = std::max(panel, begin); row < std::min(panel + kColumns, end); ++row)
        put(p, r, row - begin, sums[row - panel]);
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
