// The random bits of dropout, for kernels; included once per instruction set, like simd-inl.h.
#if defined(SEPPO_DROPOUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SEPPO_DROPOUT_INL_H
#undef SEPPO_DROPOUT_INL_H
#else
#define SEPPO_DROPOUT_INL_H
#endif

#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/kernels/simd-inl.h>
#include <seppo/autograd/random.h>

#include <cmath>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

using D32 = hn::ScalableTag<std::uint32_t>;
using V32 = hn::Vec<D32>;

// The upper and lower halves of 32 x 32 bit products.
struct Product {
  V32 high, low;
};
HWY_INLINE Product multiply(V32 a, V32 b) {
#if HWY_TARGET == HWY_SCALAR
  const std::uint64_t p = std::uint64_t{hn::GetLane(a)} * hn::GetLane(b);
  return {hn::Set(D32(), static_cast<std::uint32_t>(p >> 32)), hn::Set(D32(), static_cast<std::uint32_t>(p))};
#else
  const hn::RepartitionToWide<D32> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(a, hn::BitCast(D32(), hn::ShiftRight<32>(hn::BitCast(wide, b))));
  return {hn::OddEven(hn::BitCast(D32(), odd), hn::BitCast(D32(), hn::ShiftRight<32>(even))),
          hn::OddEven(hn::BitCast(D32(), hn::ShiftLeft<32>(odd)), hn::BitCast(D32(), even))};
#endif
}

constexpr std::size_t kBlocks = 16;

// words[w][l] = word w of the Philox4x32-10 block with counter (first + l, c1, c2, c3).
HWY_INLINE void philox_blocks(std::uint32_t (&words)[4][kBlocks], std::uint64_t key, std::uint32_t first,
                              std::uint32_t c1, std::uint32_t c2, std::uint32_t c3) {
  const D32 d;
  const V32 multiplier0 = hn::Set(d, 0xD2511F53u), multiplier1 = hn::Set(d, 0xCD9E8D57u);
  for (std::size_t l = 0; l < kBlocks; l += hn::Lanes(d)) {
    V32 w0 = hn::Iota(d, first + static_cast<std::uint32_t>(l)), w1 = hn::Set(d, c1), w2 = hn::Set(d, c2),
        w3 = hn::Set(d, c3);
    auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      const Product p0 = multiply(multiplier0, w0), p1 = multiply(multiplier1, w2);
      w0 = hn::Xor(hn::Xor(p1.high, w1), hn::Set(d, k0));
      w1 = p1.low;
      w2 = hn::Xor(hn::Xor(p0.high, w3), hn::Set(d, k1));
      w3 = p0.low;
    }
    hn::StoreU(w0, d, words[0] + l);
    hn::StoreU(w1, d, words[1] + l);
    hn::StoreU(w2, d, words[2] + l);
    hn::StoreU(w3, d, words[3] + l);
  }
}

// Factors of dropout, a group at a time: 0 with probability p, to the nearest 2^-16, else 1 / (1 - p).
class DropoutFactors {
 public:
  static constexpr std::size_t kGroup = 8 * kBlocks;

  DropoutFactors(double p, const DropoutKey& key)
      : key_(key),
        threshold_(static_cast<std::uint32_t>(std::lround(p * 0x1p16))),
        kept_(p < 1 ? static_cast<real>(1 / (1 - p)) : real{0}) {}

  // Those of elements [kGroup * group, kGroup * (group + 1)).
  HWY_INLINE void operator()(real (&factors)[kGroup], std::uint32_t group) const {
    std::uint32_t words[4][kBlocks];
    philox_blocks(words, key_.seed, group * static_cast<std::uint32_t>(kBlocks), key_.sample, key_.step,
                  static_cast<std::uint32_t>(Purpose::dropout) << 24 | key_.site);
    for (std::size_t w = 0; w < 4; ++w) {
      real* const low = factors + 2 * kBlocks * w;
      for (std::size_t l = 0; l < kBlocks; ++l) low[l] = (words[w][l] & 0xFFFF) >= threshold_ ? kept_ : real{0};
      for (std::size_t l = 0; l < kBlocks; ++l) low[kBlocks + l] = words[w][l] >> 16 >= threshold_ ? kept_ : real{0};
    }
  }

 private:
  DropoutKey key_;
  std::uint32_t threshold_;
  real kept_;
};

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
