// The other operand of products with compact weights, as their kernels read it: floats, or 8-bit integers with a scale
// for each 32.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/blas/compact_pack.cpp"
#include <hwy/foreach_target.h>

#include "../core/simd-inl.h"
#include "compact_product.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::HWY_NAMESPACE {
namespace {

using F = hn::ScalableTag<float>;  // in double precision too
using VF = hn::Vec<F>;
using I32 = hn::RebindToSigned<F>;

constexpr std::size_t kBlock = CompactMatrix::kBlock;

// Row r of a block of A's. A number that is not finite makes the scale NaN, which spoils the row of C; numbers so small
// that their scale is subnormal count as zeros.
HWY_INLINE void quantize(std::byte* to, std::size_t rows, std::size_t r, const float* x) {
  const F d;
  VF largest = hn::Zero(d), zeros = hn::Zero(d);
  for (std::size_t t = 0; t < kBlock; t += hn::Lanes(d)) {
    const VF some = hn::LoadU(d, x + t);
    largest = hn::Max(largest, hn::Abs(some));
    zeros = hn::MulAdd(some, hn::Zero(d), zeros);
  }
  constexpr float kMost = 127;
  const float scale = hn::GetLane(hn::MaxOfLanes(d, largest)) / kMost + hn::GetLane(hn::SumOfLanes(d, zeros));
  const bool has_steps = std::isnormal(scale);
  const VF factor = hn::Set(d, has_steps ? 1 / scale : 0.0F);
  const hn::Rebind<std::int8_t, F> narrow;
  auto sum = hn::Zero(I32());
  std::int8_t q[kBlock] = {};
  for (std::size_t t = 0; has_steps && t < kBlock; t += hn::Lanes(d)) {
    const auto steps = hn::NearestInt(hn::LoadU(d, x + t) * factor);
    sum = sum + steps;
    hn::StoreU(hn::DemoteTo(narrow, steps), narrow, q + t);
  }
  const std::int32_t offset = -QuantizedPanel::kZero * hn::GetLane(hn::SumOfLanes(I32(), sum));
  for (std::size_t t = 0; t < kBlock; t += 4) std::memcpy(to + t * rows + 4 * r, q + t, 4);
  std::memcpy(to + rows * offsetof(QuantizedRows<1>, offset) + 4 * r, &offset, sizeof offset);
  std::memcpy(to + rows * offsetof(QuantizedRows<1>, scale) + 4 * r, &scale, sizeof scale);
}

// A block of a row of A as floats, with zeros beyond its end.
HWY_INLINE void read_block(float (&to)[kBlock], const CompactProduct& p, std::size_t row, std::size_t block) {
  const std::size_t first = block * kBlock, count = std::min(kBlock, p.k() - first), step = p.a.col_stride;
  const real* const from = p.a.at(row, first);
  if (count == kBlock && step == 1)
    for (std::size_t t = 0; t < kBlock; ++t) to[t] = static_cast<float>(from[t]);
  else
    for (std::size_t t = 0; t < kBlock; ++t) to[t] = t < count ? static_cast<float>(from[t * step]) : 0;
}

// For bf16, rows of floats, one after another.
void pack_floats(float* to, const CompactProduct& p) {
  for (std::size_t i = 0; i < p.m(); ++i)
    for (std::size_t b = 0; b < p.w.matrix->blocks(); ++b) {
      float x[kBlock];
      read_block(x, p, i, b);
      to = std::copy_n(x, kBlock, to);
    }
}

// For q8, tiles of rows.
void pack_quantized(std::byte* to, const CompactProduct& p) {
  for (std::size_t first = 0; first < p.m(); first += kTileRows) {
    const std::size_t rows = std::min(kTileRows, p.m() - first);
    for (std::size_t b = 0; b < p.w.matrix->blocks(); ++b) {
      for (std::size_t r = 0; r < rows; ++r) {
        float x[kBlock];
        read_block(x, p, first + r, b);
        quantize(to, rows, r, x);
      }
      to += rows * sizeof(QuantizedRows<1>);
    }
  }
}

void pack_for_compact(std::byte* to, const CompactProduct& p) {
  if (p.w.matrix->format() == WeightFormat::bf16)
    pack_floats(reinterpret_cast<float*>(to), p);
  else
    pack_quantized(to, p);
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
SEPPO_KERNEL(pack_for_compact);
}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
#endif
