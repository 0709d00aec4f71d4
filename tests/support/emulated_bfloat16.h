// AMX and AVX-512 BF16 in software, for processors that have AVX-512 but not these: included before everything else of
// autograd/blas/amx*.cpp and avx512_bf16.cpp, so that tests run as on a processor with them. With
// SEPPO_EMULATE_WITHOUT_AMX, it has no AMX, whatever the real one has. The intrinsics are macros, or are replaced by
// macros here, with the same arguments. (Intel, Software Developer's Manual 2, TDPBF16PS and the other tile
// instructions, VDPBF16PS.)
#pragma once

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace emulated_bfloat16 {

constexpr std::size_t kRows = 16, kLine = 64;

// The tiles of this thread, each of 16 rows of 64 bytes.
struct alignas(kLine) Tile {
  std::uint8_t bytes[kRows][kLine];
};
inline thread_local Tile tiles[8];

inline void load(Tile& to, const void* from, std::size_t stride) {
  for (std::size_t row = 0; row < kRows; ++row)
    std::memcpy(to.bytes[row], static_cast<const std::uint8_t*>(from) + row * stride, kLine);
}

inline void store(const Tile& from, void* to, std::size_t stride) {
  for (std::size_t row = 0; row < kRows; ++row)
    std::memcpy(static_cast<std::uint8_t*>(to) + row * stride, from.bytes[row], kLine);
}

// c[i][j] += sum over p of a[i][2p] b[p][2j] + a[i][2p + 1] b[p][2j + 1], for a and b of bfloat16 pairs: the sums over
// even and odd terms are added to each other before they are added to c. Subnormal numbers count as zero.
__attribute__((target("avx512f"))) inline void multiply(Tile& c, const Tile& a, const Tile& b) {
  const unsigned users_mode = _mm_getcsr();
  _mm_setcsr(0x9fc0);  // rounds to nearest, flushes subnormal results and operands to zero, and masks all exceptions
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  for (std::size_t row = 0; row < kRows; ++row) {
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    for (std::size_t p = 0; p < kRows; ++p) {
      int pair;
      std::memcpy(&pair, a.bytes[row] + p * sizeof pair, sizeof pair);
      const __m512i left = _mm512_set1_epi32(pair), right = _mm512_load_si512(b.bytes[p]);
      even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(left, 16)),
                             _mm512_castsi512_ps(_mm512_slli_epi32(right, 16)), even);
      odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(left, upper)),
                            _mm512_castsi512_ps(_mm512_and_si512(right, upper)), odd);
    }
    float* const sums = reinterpret_cast<float*>(c.bytes[row]);
    _mm512_store_ps(sums, _mm512_add_ps(_mm512_load_ps(sums), _mm512_add_ps(even, odd)));
  }
  _mm_setcsr(users_mode);
}

// 32 bfloat16 numbers, of which `low` gives the first 16: rounded to nearest even, and subnormal ones zero.
__attribute__((target("avx512f"))) inline __m512i rounded(__m512 high, __m512 low) {
  alignas(kLine) std::uint32_t numbers[2 * kRows];
  alignas(kLine) std::uint16_t halves[2 * kRows];
  _mm512_store_ps(numbers, low);
  _mm512_store_ps(numbers + kRows, high);
  for (std::size_t i = 0; i < 2 * kRows; ++i) {
    const std::uint32_t x = numbers[i], magnitude = x & 0x7fffffff;
    const std::uint32_t to_even = x + 0x7fff + (x >> 16 & 1);
    const std::uint32_t y = magnitude > 0x7f800000 ? x | 0x400000 : magnitude < 0x800000 ? x & 0x80000000 : to_even;
    halves[i] = static_cast<std::uint16_t>(y >> 16);
  }
  return _mm512_load_si512(halves);
}

// sum[i] + a[2i + 1] b[2i + 1] + a[2i] b[2i], for pairs of bfloat16 numbers; each sum is rounded.
__attribute__((target("avx512f"))) inline __m512 dot_pairs(__m512 sum, __m512i a, __m512i b) {
  const unsigned users_mode = _mm_getcsr();
  _mm_setcsr(0x9fc0);
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  const __m512 odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(a, upper)),
                                     _mm512_castsi512_ps(_mm512_and_si512(b, upper)), sum);
  const __m512 both = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(a, 16)),
                                      _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)), odd);
  _mm_setcsr(users_mode);
  return both;
}

// Leaf 7 of the processor: subleaf 0 with or without the bits for AMX's bfloat16 and tiles, subleaf 1 with that for
// AVX-512 BF16.
inline int leaf7(unsigned leaf, unsigned subleaf, unsigned* a, unsigned* b, unsigned* c, unsigned* d) {
  const int is_there = __get_cpuid_count(leaf, subleaf, a, b, c, d);
  constexpr unsigned kTiles = 1u << 22 | 1u << 24;
#ifdef SEPPO_EMULATE_WITHOUT_AMX
  *d &= ~kTiles;
#else
  if (subleaf == 0) *d |= kTiles;
#endif
  if (subleaf == 1) *a |= 1u << 5;
  return is_there;
}

}  // namespace emulated_bfloat16

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadd(tile, from, stride) emulated_bfloat16::load(emulated_bfloat16::tiles[tile], from, stride)
#define _tile_stored(tile, to, stride) emulated_bfloat16::store(emulated_bfloat16::tiles[tile], to, stride)
#define _tile_zero(tile) std::memset(&emulated_bfloat16::tiles[tile], 0, sizeof(emulated_bfloat16::Tile))
#define _tile_dpbf16ps(c, a, b) \
  emulated_bfloat16::multiply(emulated_bfloat16::tiles[c], emulated_bfloat16::tiles[a], emulated_bfloat16::tiles[b])
#define _mm512_dpbf16_ps(sum, a, b) \
  emulated_bfloat16::dot_pairs(sum, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b))
#define _mm512_cvtne2ps_pbh(high, low) emulated_bfloat16::rounded(high, low)
#define _tile_loadconfig(shapes) static_cast<void>(shapes)
#define _tile_release() static_cast<void>(0)
#define __get_cpuid_count emulated_bfloat16::leaf7
#undef SYS_arch_prctl
#define SYS_arch_prctl SYS_sched_yield  // always succeeds, as a system's permission to use tiles does
