// The random bits of dropout, for kernels; included once per instruction set, like simd-inl.h.
#if defined(SEPPO_DROPOUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SEPPO_DROPOUT_INL_H
#undef SEPPO_DROPOUT_INL_H
#else
#define SEPPO_DROPOUT_INL_H
#endif

#include "../core/random.h"
#include "../core/simd-inl.h"
#include "kernels.h"

#include <cmath>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::HWY_NAMESPACE {
namespace {

// Philox in the lower halves of 64-bit lanes: products of 32-bit numbers come out whole, and what remains in
// the upper halves never matters.
using D64 = hn::ScalableTag<std::uint64_t>;
using V64 = hn::Vec<D64>;

HWY_INLINE V64 multiply_low(V64 a, V64 b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(D64(), (hn::GetLane(a) & 0xFFFFFFFFu) * (hn::GetLane(b) & 0xFFFFFFFFu));
#else
  const hn::RepartitionToNarrow<D64> halves;
  return hn::MulEven(hn::BitCast(halves, a), hn::BitCast(halves, b));
#endif
}

// Words 0 to 3 of several blocks.
struct PhiloxState {
  V64 w0, w1, w2, w3;

  HWY_INLINE void round(std::uint32_t k0, std::uint32_t k1) {
    const D64 d;
    const V64 p0 = multiply_low(hn::Set(d, 0xD2511F53u), w0);
    const V64 p1 = multiply_low(hn::Set(d, 0xCD9E8D57u), w2);
    w0 = hn::Xor3(hn::ShiftRight<32>(p1), w1, hn::Set(d, k0));
    w1 = p1;
    w2 = hn::Xor3(hn::ShiftRight<32>(p0), w3, hn::Set(d, k1));
    w3 = p0;
  }
};

// Stores the lower halves of `even` and `odd`, interleaved.
HWY_INLINE void store_interleaved(V64 even, V64 odd, std::uint32_t* to) {
#if HWY_TARGET == HWY_SCALAR
  to[0] = static_cast<std::uint32_t>(hn::GetLane(even));
  to[1] = static_cast<std::uint32_t>(hn::GetLane(odd));
#else
  const hn::RepartitionToNarrow<D64> d;
  hn::StoreU(hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even)), d, to);
#endif
}

constexpr std::size_t kBlocks = 16;

// words[w][l] = word w of the Philox4x32-10 block with counter (first + l, c1, c2, c3).
HWY_INLINE void philox_blocks(std::uint32_t (&words)[4][kBlocks], std::uint64_t key, std::uint32_t first,
                              std::uint32_t c1, std::uint32_t c2, std::uint32_t c3) {
  const D64 d;
  for (std::size_t l = 0; l < kBlocks; l += 2 * hn::Lanes(d)) {
    const V64 counters = hn::Set(d, first + l) + hn::ShiftLeft<1>(hn::Iota(d, 0));
    PhiloxState even{counters, hn::Set(d, c1), hn::Set(d, c2), hn::Set(d, c3)};
    PhiloxState odd = even;
    odd.w0 = counters + hn::Set(d, 1);
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      even.round(k0, k1);
      odd.round(k0, k1);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    store_interleaved(even.w0, odd.w0, words[0] + l);
    store_interleaved(even.w1, odd.w1, words[1] + l);
    store_interleaved(even.w2, odd.w2, words[2] + l);
    store_interleaved(even.w3, odd.w3, words[3] + l);
  }
}

// Dropout factors, a group at a time: 0 with probability p, to the nearest 2^-16, else 1 / (1 - p).
class DropoutFactors {
 public:
  static constexpr std::size_t kGroup = 8 * kBlocks;

  explicit DropoutFactors(const Dropping& dropping)
      : key_(dropping.key),
        threshold_(static_cast<std::uint32_t>(std::lround(dropping.p * 0x1p16))),
        kept_(dropping.p < 1 ? static_cast<real>(1 / (1 - dropping.p)) : real{0}) {}

  // Those of elements [kGroup * group, kGroup * (group + 1)).
  HWY_INLINE void operator()(real (&factors)[kGroup], std::uint32_t group) const {
    std::uint32_t words[4][kBlocks];
    philox_blocks(words, key_.seed, group * static_cast<std::uint32_t>(kBlocks), key_.sample, key_.step,
                  static_cast<std::uint32_t>(Purpose::dropout) << 24 | key_.site);
    const std::uint32_t threshold = threshold_;  // locals: `factors` may alias members
    const real kept = kept_;
    for (std::size_t w = 0; w < 4; ++w) {
      const std::uint32_t* const word = words[w];
      real* const by_low = factors + 2 * kBlocks * w;  // by the lower half of each word
      real* const by_high = by_low + kBlocks;
      for (std::size_t l = 0; l < kBlocks; ++l) by_low[l] = (word[l] & 0xFFFF) >= threshold ? kept : real{0};
      for (std::size_t l = 0; l < kBlocks; ++l) by_high[l] = word[l] >> 16 >= threshold ? kept : real{0};
    }
  }

 private:
  RandomContext key_;
  std::uint32_t threshold_;
  real kept_;
};

}  // namespace
}  // namespace kernels::HWY_NAMESPACE
}  // namespace SEPPO_ABI
}  // namespace seppo
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
