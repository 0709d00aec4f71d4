// Large products in MatmulPrecision::medium with AVX-512 BF16, whose vectors multiply pairs of bfloat16 numbers and add
// both products in single precision: twice the multiplications of floats. Higher precisions would need three or more
// products of parts, and floats are faster then.
#include "avx512_bf16.h"

#ifdef SEPPO_BFLOAT16

#include "../core/matmul_precision.h"
#include "amx.h"
#include "bfloat16_product-inl.h"

#include <cpuid.h>
#include <hwy/targets.h>

namespace seppo {
inline namespace SEPPO_ABI {
namespace avx512_bf16 {
namespace {

using namespace bfloat16;

// Rows of C whose sums are in registers at once. Each takes two vectors, as long as a panel is wide.
constexpr std::size_t kRows = 8;

struct TileSums {
  __m512 of[kRows][2];

  SEPPO_BFLOAT16_INLINE explicit TileSums(const Addend& addend) {
    for (std::size_t row = 0; row < kRows; ++row)
      for (std::size_t half = 0; half < 2; ++half)
        of[row][half] = addend.data ? _mm512_loadu_ps(addend.at(row, half * kSide)) : _mm512_setzero_ps();
  }

  // The products of a k-block, from the first of these rows in A's tile on.
  SEPPO_BFLOAT16_INLINE void add(const Word* a, const Word* b) {
    for (std::size_t word = 0; word < kSide; ++word) {
      const __m512i left = _mm512_load_si512(b + word * kSide);
      const __m512i right = _mm512_load_si512(b + kTile + word * kSide);
      for (std::size_t row = 0; row < kRows; ++row) {
        const __m512i pair = _mm512_set1_epi32(static_cast<int>(a[row * kSide + word]));
        of[row][0] = dot_pairs(of[row][0], pair, left);
        of[row][1] = dot_pairs(of[row][1], pair, right);
      }
    }
  }

  SEPPO_BFLOAT16_INLINE void store(real* to, std::size_t stride) const {
    for (std::size_t row = 0; row < kRows; ++row)
      for (std::size_t half = 0; half < 2; ++half) _mm512_storeu_ps(to + row * stride + half * kSide, of[row][half]);
  }

 private:
  SEPPO_BFLOAT16_INLINE static __m512 dot_pairs(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

struct Vectors {
  struct Use {};

  SEPPO_BFLOAT16_CODE __attribute__((noinline)) static void multiply(std::size_t k_blocks, const Word* a, const Word* b,
                                                                     const Addend& addend, real* sum,
                                                                     std::size_t stride, Packer<1>&) {
    for (std::size_t row = 0; row < kPanel; row += kRows) {
      const Word* const rows = a + row * kSide;  // a tile of 16 rows comes after the other
      TileSums sums(addend.from(row, 0));
      for (std::size_t block = 0; block < k_blocks; ++block)
        sums.add(rows + block * kBlockSize<1>, b + block * kBlockSize<1>);
      sums.store(sum + row * stride, stride);
    }
  }
};

}  // namespace

bool is_available() {
  static const bool is = [] {
    constexpr unsigned kBit = 1u << 5;
    unsigned a = 0, b, c, d;
    return !amx::is_available() && (hwy::SupportedTargets() & HWY_AVX3_DL) && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
           (a & kBit);
  }();
  return is;
}

bool suits(const Product& p) {
  constexpr std::size_t kLeastSide = 32, kLeastMultiplications = std::size_t{1} << 16;
  return matmul_precision() == MatmulPrecision::medium && std::min({p.m(), p.n(), p.k()}) >= kLeastSide &&
         p.m() * p.n() * p.k() >= kLeastMultiplications && is_available();
}

void gemm(const Product& p) { LargeProduct<1, Vectors>(p).compute(); }

}  // namespace avx512_bf16
}  // namespace SEPPO_ABI
}  // namespace seppo

#endif
