// Large products in single precision on AMX, the tile multiplier of x86 processors. It multiplies bfloat16 numbers, of
// 8 significant bits, and adds in single precision, at many times the rate of vectors. With MatmulPrecision::highest,
// each number is split into three of them, x = x0 + x1 + x2, and the six largest of the nine products in a b are
// summed; the omitted ones are below 2^-22 |a b| at worst and mostly about 2^-26 (Henry, Tang and Heinecke 2019). The
// split has no infinity: it turns infinite numbers, and those from 3.39e38 on, into NaN. Lower precisions have fewer
// parts.
//
// The smaller operand is packed in blocks that fill half of L2, and stays there. The other streams past each block in
// panels of 32 rows, while vector code packs the next panel between AMX's instructions.
#include "amx.h"

#ifdef SEPPO_AMX

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 finds its own headers guilty (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include "amx_tiles-inl.h"

#include <cpuid.h>
#include <hwy/targets.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace amx {
namespace {

// Tiles 0, 1, 5 and 6 are C, 2 and 3 a plane of A's rows, 4 and 7 a plane of B's columns.
SEPPO_AMX_INLINE void load_a(const Word* k_block, std::size_t plane) {
  _tile_loadd(2, k_block + plane * 2 * kTile, kLine);
  _tile_loadd(3, k_block + plane * 2 * kTile + kTile, kLine);
}
SEPPO_AMX_INLINE void load_b(const Word* k_block, std::size_t plane) {
  _tile_loadd(4, k_block + plane * 2 * kTile, kLine);
  _tile_loadd(7, k_block + plane * 2 * kTile + kTile, kLine);
}
template <std::size_t kParts>
SEPPO_AMX_INLINE void multiply_planes(Packer<kParts>& next) {
  _tile_dpbf16ps(0, 2, 4);
  _tile_dpbf16ps(1, 3, 4);
  _tile_dpbf16ps(5, 2, 7);
  _tile_dpbf16ps(6, 3, 7);
  if constexpr (kParts > 1) next.pack_some();
}

// The products of a k-block: the smaller ones, if there are any, and the largest. Numbers have different parts.
SEPPO_AMX_INLINE void multiply_smaller(const Word* a, const Word* b, Packer<3>& next) {
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
SEPPO_AMX_INLINE void multiply_smaller(const Word* a, const Word* b, Packer<2>& next) {
  load_a(a, 0);
  load_b(b, 1);
  multiply_planes(next);
  load_a(a, 1);
  load_b(b, 0);
  multiply_planes(next);
}
template <std::size_t kParts>
SEPPO_AMX_INLINE void multiply_largest(const Word* a, const Word* b, Packer<kParts>& next) {
  load_a(a, 0);
  load_b(b, 0);
  multiply_planes(next);
}

// Sums begin with zeros, or with an addend.
SEPPO_AMX_INLINE void begin_sums(const Addend& addend) {
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

// sum[kPanel, kPanel], with rows `stride` apart, = addend + the sum over all k-blocks of two panels. The smaller
// products come first: each would be rounded if it were added to the larger ones. Inlined into the loops of another
// function, its own loops would spill registers.
template <std::size_t kParts>
SEPPO_AMX_CODE __attribute__((noinline)) void multiply_panels(std::size_t k_blocks, const Word* a, const Word* b,
                                                              const Addend& addend, real* sum, std::size_t stride,
                                                              Packer<kParts>& next) {
  constexpr std::size_t kSize = kBlockSize<kParts>;
  begin_sums(addend);
  if constexpr (kParts > 1)
    for (std::size_t block = 0; block < k_blocks; ++block) multiply_smaller(a + block * kSize, b + block * kSize, next);
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

// Into L2, as tile stores would wait for memory.
SEPPO_AMX_CODE void prefetch(const MatrixOut& c) {
  for (std::size_t i = 0; i < c.rows; ++i)
    for (std::size_t j = 0; j < c.cols; j += kSide) _mm_prefetch(c.at(i, j), _MM_HINT_T1);
}

// The product of a panel of A and one of B: p is its part of C. With several parts, the smaller products come before an
// addend.
template <std::size_t kParts>
SEPPO_AMX_CODE void multiply_and_put(const Product& p, const Word* a, const Word* b, Packer<kParts>& next) {
  const bool is_whole = p.m() == kPanel && p.n() == kPanel;
  if (is_whole && (kParts == 1 || !p.addend.data)) {  // rereading the sum would wait for stores
    multiply_panels(k_blocks(p.k()), a, b, p.addend, p.c.data, p.c.stride, next);
  } else {
    alignas(kLine) real sum[kPanel * kPanel];
    multiply_panels(k_blocks(p.k()), a, b, {}, sum, kPanel, next);
    put_sum(p, sum, kPanel);
  }
}

// The numbers in a block of the operand that stays, about: at two bytes a part, they fill half of an L2 of 2 MiB,
// through which much other data passes.
constexpr std::size_t stays_of(std::size_t parts) { return 3 * 320 * 512 / parts; }

// The terms of a block: half the maximum, if that makes all rows fit into one block.
std::size_t terms_of_block(std::size_t rows, std::size_t k, std::size_t stays) {
  constexpr std::size_t kMost = 512, kHalf = 256;
  const std::size_t most = std::min(k, kMost);
  return rows * most > stays && rows * kHalf <= stays ? kHalf : most;
}

// The rows of a block: all, or equal parts, as few as possible, since each part packs the other operand again.
std::size_t rows_of_block(std::size_t rows, std::size_t terms, std::size_t stays) {
  const std::size_t parts = (rows * terms + stays - 1) / stays;
  return (panels(rows) + parts - 1) / parts * kPanel;
}

// A large product. Operands are [rows, k] both: A, and B transposed.
template <std::size_t kParts>
class LargeProduct {
 public:
  explicit LargeProduct(const Product& p)
      : p_(p),
        a_streams_(p.m() >= p.n()),
        c_exceeds_l2_(p.m() * p.n() > 256 * 256),
        stays_(a_streams_ ? b() : a()),
        streams_(a_streams_ ? a() : b()),
        terms_(terms_of_block(stays_.rows(), p.k(), stays_of(kParts))),
        rows_(rows_of_block(stays_.rows(), terms_, stays_of(kParts))) {
    const std::size_t panel_size = k_blocks(terms_) * kBlockSize<kParts>;
    packed_panel_ = scratch_memory(panel_size * (2 + panels(rows_)) * sizeof(Word)).as<Word>();
    next_panel_ = packed_panel_ + panel_size;
    packed_block_ = next_panel_ + panel_size;
  }

  SEPPO_AMX_CODE void compute() {
    for (std::size_t term = 0; term < p_.k(); term += terms_)
      for (std::size_t row = 0; row < stays_.rows(); row += rows_) multiply_block(row, term);
  }

 private:
  Operand a() const { return {p_.a, Factor::left}; }
  Operand b() const { return {transposed(p_.b), Factor::right}; }

  // All panels of the operand that streams, by a block of the other one from the given row and term on.
  SEPPO_AMX_CODE void multiply_block(std::size_t row, std::size_t term) {
    Packer<kParts>(packed_block_, stays_.block(row, rows_, term, terms_)).pack_all();
    Packer<kParts>(packed_panel_, streams_.block(0, kPanel, term, terms_)).pack_all();
    const Product sum = p_.terms(term, count(term, p_.k(), terms_));
    for (std::size_t panel = 0; panel < streams_.rows(); panel += kPanel) {
      Packer<kParts> next(next_panel_, streams_.block(panel + kPanel, kPanel, term, terms_));
      multiply_panel(sum, panel, row, next);
      next.pack_all();
      std::swap(packed_panel_, next_panel_);
    }
  }

  // The packed panel, which begins at row `panel` of its operand, by each panel of the packed block.
  SEPPO_AMX_CODE void multiply_panel(const Product& sum, std::size_t panel, std::size_t first,
                                     Packer<kParts>& next) const {
    const std::size_t end = std::min(first + rows_, stays_.rows());
    const Word* block_panel = packed_block_;
    for (std::size_t row = first; row < end; row += kPanel) {
      const Product part = part_of(sum, panel, row);
      const bool is_last = row + kPanel >= end;
      const Product following = part_of(sum, is_last ? panel + kPanel : panel, is_last ? first : row + kPanel);
      if (c_exceeds_l2_) prefetch(kParts > 1 ? part.c : following.c);  // one part's sums begin with C
      if (a_streams_)
        multiply_and_put(part, packed_panel_, block_panel, next);
      else
        multiply_and_put(part, block_panel, packed_panel_, next);
      block_panel += k_blocks(sum.k()) * kBlockSize<kParts>;
    }
  }

  // The product of two panels.
  SEPPO_AMX_INLINE Product part_of(const Product& sum, std::size_t panel, std::size_t stays) const {
    const std::size_t row = a_streams_ ? panel : stays, col = a_streams_ ? stays : panel;
    return sum.rows(row, count(row, sum.m(), kPanel)).columns(col, count(col, sum.n(), kPanel));
  }

  const Product& p_;
  bool a_streams_, c_exceeds_l2_;
  Operand stays_, streams_;
  std::size_t terms_, rows_;  // of a block of the operand that stays
  Word *packed_panel_, *next_panel_, *packed_block_;
};

template <std::size_t kParts>
SEPPO_AMX_CODE void large_product(const Product& p) {
  LargeProduct<kParts> product(p);  // may throw: it allocates
  configure_tiles();
  product.compute();
  _tile_release();
}

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
  with_parts([&](auto parts) { large_product<parts>(p); });
}

}  // namespace amx
}  // namespace SEPPO_ABI
}  // namespace seppo

#endif
