// Large products in single precision on AMX, the tile multiplier of x86 processors. It multiplies bfloat16 numbers, of
// 8 significant bits, and adds in single precision, at many times the rate of vectors. With MatmulPrecision::highest,
// each number is split into three of them, x = x0 + x1 + x2, and the six largest of the nine products in a b are
// summed; the omitted ones are below 2^-22 |a b| at worst and mostly about 2^-26 (Henry, Tang and Heinecke 2019). The
// split has no infinity: it turns infinite numbers, and those from 3.39e38 on, into NaN. Lower precisions have fewer
// parts.
//
// Vector code packs the next panel between AMX's instructions (bfloat16_product-inl.h).
#include "amx.h"

#ifdef SEPPO_BFLOAT16

#include "amx_tiles-inl.h"
#include "bfloat16_product-inl.h"

#include <cpuid.h>
#include <hwy/targets.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace seppo {
inline namespace SEPPO_ABI {
namespace amx {
namespace {

// Tiles 0, 1, 5 and 6 are C, 2 and 3 a plane of A's rows, 4 and 7 a plane of B's columns.
SEPPO_BFLOAT16_INLINE void load_a(const Word* k_block, std::size_t plane) {
  _tile_loadd(2, k_block + plane * 2 * kTile, kLine);
  _tile_loadd(3, k_block + plane * 2 * kTile + kTile, kLine);
}
SEPPO_BFLOAT16_INLINE void load_b(const Word* k_block, std::size_t plane) {
  _tile_loadd(4, k_block + plane * 2 * kTile, kLine);
  _tile_loadd(7, k_block + plane * 2 * kTile + kTile, kLine);
}
template <std::size_t kParts>
SEPPO_BFLOAT16_INLINE void multiply_planes(Packer<kParts>& next) {
  _tile_dpbf16ps(0, 2, 4);
  _tile_dpbf16ps(1, 3, 4);
  _tile_dpbf16ps(5, 2, 7);
  _tile_dpbf16ps(6, 3, 7);
  if constexpr (kParts > 1) next.pack_some();
}

// The products of a k-block: the smaller ones, if there are any, and the largest. Numbers have different parts.
SEPPO_BFLOAT16_INLINE void multiply_smaller(const Word* a, const Word* b, Packer<3>& next) {
  load_a(a, 0);
  load_b(b, 2);
  multiply_planes(next);
  load_b(b, 1);
  multiply_planes(next);
  load_a(a, 1);
  multiply_planes(next);
  load_b(b, 0);
  multiply_planes(next);
  load_a(a, 2);
  multiply_planes(next);
}
SEPPO_BFLOAT16_INLINE void multiply_smaller(const Word* a, const Word* b, Packer<2>& next) {
  load_a(a, 0);
  load_b(b, 1);
  multiply_planes(next);
  load_a(a, 1);
  load_b(b, 0);
  multiply_planes(next);
}
template <std::size_t kParts>
SEPPO_BFLOAT16_INLINE void multiply_largest(const Word* a, const Word* b, Packer<kParts>& next) {
  load_a(a, 0);
  load_b(b, 0);
  multiply_planes(next);
}

// Sums begin with zeros, or with an addend.
SEPPO_BFLOAT16_INLINE void begin_sums(const Addend& addend) {
  if (!addend.data) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(5);
    _tile_zero(6);
    return;
  }
  const std::size_t row = addend.stride * sizeof(real);
  _tile_loadd(0, addend.at(0, 0), row);
  _tile_loadd(1, addend.at(kSide, 0), row);
  _tile_loadd(5, addend.at(0, kSide), row);
  _tile_loadd(6, addend.at(kSide, kSide), row);
}

template <std::size_t kParts>
struct Tiles {
  struct Use {
    Use() { configure_tiles(); }
    ~Use() { release_tiles(); }
  };

  // The smaller products come first: each would be rounded if it were added to the larger ones. Inlined into the loops
  // of another function, its own loops would spill registers.
  SEPPO_BFLOAT16_CODE __attribute__((noinline)) static void multiply(std::size_t k_blocks, const Word* a, const Word* b,
                                                                     const Addend& addend, real* sum,
                                                                     std::size_t stride, Packer<kParts>& next) {
    constexpr std::size_t kSize = kBlockSize<kParts>;
    begin_sums(addend);
    if constexpr (kParts > 1)
      for (std::size_t block = 0; block < k_blocks; ++block)
        multiply_smaller(a + block * kSize, b + block * kSize, next);
    for (std::size_t block = 0; block < k_blocks; ++block) {
      multiply_largest(a + block * kSize, b + block * kSize, next);
      if constexpr (kParts == 1) {
        if (block % kQuads == 0) next.pack_some();
        next.fetch_some(block % kQuads);
      }
    }
    const std::size_t row = stride * sizeof(real);
    _tile_stored(0, sum, row);
    _tile_stored(1, sum + kSide * stride, row);
    _tile_stored(5, sum + kSide, row);
    _tile_stored(6, sum + kSide * stride + kSide, row);
  }
};

}  // namespace

bool is_available() {
  static const bool is = [] {
    constexpr unsigned kBits = 1u << 22 | 1u << 24;              // bfloat16 and tiles
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl: the kernel saves tiles on request
    unsigned a, b, c, d = 0;
    return (hwy::SupportedTargets() & HWY_AVX3_DL) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kBits) == kBits &&
           syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return is;
}

bool suits(const Product& p) {
  const LeastSize least = least_size(p.k() % kBlockDepth == 0);
  return std::min({p.m(), p.n(), p.k()}) >= least.side && p.m() * p.n() * p.k() >= least.multiplications &&
         is_available();
}

void gemm(const Product& p) {
  with_parts([&](auto parts) { LargeProduct<parts, Tiles<parts>>(p).compute(); });
}

}  // namespace amx
}  // namespace SEPPO_ABI
}  // namespace seppo

#endif
