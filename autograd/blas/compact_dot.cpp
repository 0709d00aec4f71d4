// Products of a few rows with a compact weight, which is read from memory once, as one stream: that is what they take
// time for. Each element of C is the dot product of a row of A with a row of W.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/blas/compact_dot.cpp"
#include <hwy/foreach_target.h>

#include "../core/simd-inl.h"
#include "compact_product.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::HWY_NAMESPACE {
namespace {

using F = hn::ScalableTag<float>;  // sums, in double precision too
using VF = hn::Vec<F>;
using I32 = hn::RebindToSigned<F>;
#if HWY_TARGET == HWY_SCALAR
using I16 = hn::Rebind<std::int16_t, I32>;
#else
using I16 = hn::Repartition<std::int16_t, I32>;
#endif
using I8 = hn::Rebind<std::int8_t, I16>;
using BF = hn::Rebind<hwy::bfloat16_t, F>;

constexpr std::size_t kBlock = CompactMatrix::kBlock;
constexpr std::size_t kAhead = 1024;  // bytes from what is multiplied to what is prefetched

HWY_INLINE void fetch_ahead(const void* at) { hwy::Prefetch(static_cast<const char*>(at) + kAhead); }

// A block of A as integers, scale * q[i]: the largest has |q| = 32767, and sums of four products with 8-bit integers
// are exact as floats.
void quantize(ShortBlock& to, const float* x) {
  VF largest = hn::Zero(F());
  for (std::size_t i = 0; i < kBlock; i += hn::Lanes(F())) largest = hn::Max(largest, hn::Abs(hn::LoadU(F(), x + i)));
  constexpr float kMost = 32767;
  to.scale = hn::GetLane(hn::MaxOfLanes(F(), largest)) / kMost;
  const VF factor = hn::Set(F(), to.scale == 0 ? 0.0F : 1 / to.scale);
  const hn::Rebind<std::int16_t, F> narrow;
  for (std::size_t i = 0; i < kBlock; i += hn::Lanes(F()))
    hn::StoreU(hn::DemoteTo(narrow, hn::NearestInt(hn::LoadU(F(), x + i) * factor)), narrow, to.q + i);
}

// A's rows one after another, as floats or ShortBlocks, padded with zeros to whole blocks.
void pack_for_compact(std::byte* to, const CompactProduct& p) {
  const std::size_t blocks = p.w.matrix->blocks();
  const bool is_float = p.w.matrix->format() == WeightFormat::bf16;
  for (std::size_t i = 0; i < p.m(); ++i)
    for (std::size_t b = 0; b < blocks; ++b) {
      float x[kBlock] = {};
      const std::size_t count = std::min(kBlock, p.k() - b * kBlock);
      for (std::size_t t = 0; t < count; ++t) x[t] = static_cast<float>(*p.a.at(i, b * kBlock + t));
      if (is_float)
        std::copy_n(x, kBlock, reinterpret_cast<float*>(to) + (i * blocks + b) * kBlock);
      else
        quantize(reinterpret_cast<ShortBlock*>(to)[i * blocks + b], x);
    }
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

template <std::size_t kRows>
HWY_INLINE void dot_q8(VF (&sum)[kRows], const QuantizedBlock* w, const ShortBlock* a, std::size_t blocks) {
  for (std::size_t b = 0; b < blocks; ++b) {
    fetch_ahead(w + b);
    hn::Vec<I32> even[kRows], odd[kRows];
    for (auto& s : even) s = hn::Zero(I32());
    for (auto& s : odd) s = hn::Zero(I32());
    for (std::size_t t = 0; t < kBlock; t += hn::Lanes(I16())) {
      const auto right = hn::PromoteTo(I16(), hn::LoadU(I8(), w[b].q + t));
      for (std::size_t r = 0; r < kRows; ++r) {
        const auto left = hn::LoadU(I16(), a[r * blocks + b].q + t);
        even[r] = hn::ReorderWidenMulAccumulate(I32(), left, right, even[r], odd[r]);
      }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      const VF products = hn::ConvertTo(F(), hn::RearrangeToOddPlusEven(even[r], odd[r]));
      sum[r] = hn::MulAdd(products, hn::Set(F(), w[b].scale * a[r * blocks + b].scale), sum[r]);
    }
  }
}

template <std::size_t kRows>
HWY_INLINE void dot_some_rows(const CompactProduct& p, const std::byte* a) {
  const CompactMatrix& matrix = *p.w.matrix;
  for (std::size_t j = 0; j < p.n(); ++j) {
    VF sum[kRows];
    for (VF& s : sum) s = hn::Zero(F());
    const std::size_t row = p.w.first + j;
    if (matrix.format() == WeightFormat::bf16)
      dot_bf16(sum, matrix.row<std::uint16_t>(row), reinterpret_cast<const float*>(a), matrix.blocks());
    else
      dot_q8(sum, matrix.row<QuantizedBlock>(row), reinterpret_cast<const ShortBlock*>(a), matrix.blocks());
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto y = static_cast<real>(hn::GetLane(hn::SumOfLanes(F(), sum[r])));
      *p.c.at(r, j) = p.addend.data ? y + *p.addend.at(r, j) : y;
    }
  }
}

template <std::size_t kRows = kVeryFewRows>
HWY_NOINLINE void dot_up_to(const CompactProduct& p, const std::byte* a) {
  if (p.m() == kRows) return dot_some_rows<kRows>(p, a);
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
SEPPO_KERNEL(pack_for_compact);
SEPPO_KERNEL(compact_dot_rows);
}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
#endif
