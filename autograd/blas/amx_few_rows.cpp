// Products of few rows on AMX, as in decoding: C^T = B^T A^T, whose left factor is B's dense columns. These are read
// and packed once, a k-block at a time, so that packed k-blocks remain in L1.
#include "amx.h"

#ifdef SEPPO_BFLOAT16

#include "amx_tiles-inl.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace amx {
namespace {

constexpr std::size_t kRingBlocks = 4;
constexpr std::size_t kBlocksAhead = 2;  // data just stored cannot be loaded into a tile at once
template <std::size_t kParts>
using Ring = Packer<kParts, 1, kRingBlocks>;

// Tiles 0 and 1 sum b0 a0, and 2 and 3 the other products, which would lose digits if they were added to b0 a0; 4 is a
// plane of B's columns, 5 and 6 of A's rows.
SEPPO_BFLOAT16_INLINE void load_left(const Word* k_block, std::size_t plane) {
  _tile_loadd(4, k_block + plane * kTile, kLine);
}
SEPPO_BFLOAT16_INLINE void load_right(const Word* k_block, std::size_t plane) {
  _tile_loadd(5, k_block + plane * 2 * kTile, kLine);
  _tile_loadd(6, k_block + plane * 2 * kTile + kTile, kLine);
}
SEPPO_BFLOAT16_INLINE void multiply_largest() {
  _tile_dpbf16ps(0, 4, 5);
  _tile_dpbf16ps(1, 4, 6);
}
SEPPO_BFLOAT16_INLINE void multiply_others() {
  _tile_dpbf16ps(2, 4, 5);
  _tile_dpbf16ps(3, 4, 6);
}

// The products of a k-block, while the four parts of the next one are packed.
SEPPO_BFLOAT16_INLINE void multiply_block(const Word* a, const Word* b, Ring<3>& next) {
  load_left(b, 0);
  load_right(a, 2);
  multiply_others();
  next.pack_some();
  load_right(a, 1);
  multiply_others();
  next.pack_some();
  load_left(b, 1);
  multiply_others();
  next.pack_some();
  load_right(a, 0);
  multiply_others();
  next.pack_some();
  load_left(b, 2);
  multiply_others();
  load_left(b, 0);
  multiply_largest();
}
SEPPO_BFLOAT16_INLINE void multiply_block(const Word* a, const Word* b, Ring<2>& next) {
  load_left(b, 0);
  load_right(a, 1);
  multiply_others();
  next.pack_some();
  next.pack_some();
  load_left(b, 1);
  load_right(a, 0);
  multiply_others();
  next.pack_some();
  load_left(b, 0);
  multiply_largest();
  next.pack_some();
}
SEPPO_BFLOAT16_INLINE void multiply_block(const Word* a, const Word* b, Ring<1>& next) {
  load_left(b, 0);
  load_right(a, 0);
  multiply_largest();
  for (std::size_t quad = 0; quad < kQuads; ++quad) next.pack_some();
}

// sums[2][2] over all k-blocks of a panel: of the largest products, and of the others. `first`: how many k-blocks of
// the ring came before.
template <std::size_t kParts>
SEPPO_BFLOAT16_CODE __attribute__((noinline)) void multiply_ring(std::size_t k_blocks, const Word* a, const Word* ring,
                                                                 std::size_t first, Ring<kParts>& next,
                                                                 real (&sums)[4][kTile]) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::size_t block = first; block < first + k_blocks; ++block) {
    multiply_block(a, ring + block % kRingBlocks * kParts * kTile, next);
    a += kBlockSize<kParts>;
  }
  _tile_stored(0, sums[0], kLine);
  _tile_stored(1, sums[1], kLine);
  _tile_stored(2, sums[2], kLine);
  _tile_stored(3, sums[3], kLine);
}

// 16 columns of C = addend + sums^T
SEPPO_BFLOAT16_CODE void put_transposed(const Product& p, const real (&sums)[4][kTile]) {
  alignas(kLine) real rows[kPanel][kSide];
  for (std::size_t i = 0; i < kPanel; i += kQuad) {
    __m512 largest[kQuad], others[kQuad];
    load_transposed(largest, sums[i / kSide] + i % kSide, kSide);
    load_transposed(others, sums[2 + i / kSide] + i % kSide, kSide);
    for (std::size_t r = 0; r < kQuad; ++r) _mm512_store_ps(rows[i + r], _mm512_add_ps(largest[r], others[r]));
  }
  put_sum(p, rows[0], kSide);
}

template <std::size_t kParts>
SEPPO_BFLOAT16_CODE void few_rows_product(const Product& p, const Word* packed) {
  const std::size_t depth = k_blocks(p.k());
  configure_tiles();
  for (std::size_t i = 0; i < p.m(); i += kPanel) {
    alignas(kLine) Word ring[kRingBlocks * kParts * kTile];
    Ring<kParts> next(ring, {transposed(p.b), Factor::left});
    for (std::size_t quad = 0; quad < kBlocksAhead * kQuads; ++quad) next.pack_some();
    for (std::size_t j = 0; j < p.n(); j += kSide) {
      alignas(kLine) real sums[4][kTile];
      multiply_ring<kParts>(depth, packed, ring, j / kSide * depth, next, sums);
      put_transposed(p.rows(i, count(i, p.m(), kPanel)).columns(j, count(j, p.n(), kSide)), sums);
    }
    packed += depth * kBlockSize<kParts>;
  }
  release_tiles();
}

}  // namespace

bool suits_few_rows(const Product& p) {
  return p.m() * p.n() * p.k() >= least_size(/*has_full_tiles=*/false).multiplications && is_available();
}

std::size_t few_rows_size(const Product& p) {
  std::size_t size = panels(p.m()) * k_blocks(p.k()) * sizeof(Word);
  with_parts([&](auto parts) { size *= kBlockSize<parts>; });
  return size;
}

void pack_few_rows(std::uint32_t* packed, const Product& p) {
  with_parts([&](auto parts) { Packer<parts>(packed, {p.a, Factor::right}).pack_all(); });
}

void few_rows(const Product& p, const std::uint32_t* packed) {
  with_parts([&](auto parts) { few_rows_product<parts>(p, packed); });
}

}  // namespace amx
}  // namespace SEPPO_ABI
}  // namespace seppo

#endif
