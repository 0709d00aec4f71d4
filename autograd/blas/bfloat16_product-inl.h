// Large products of bfloat16 numbers, whatever multiplies them: tiles of AMX (amx.cpp) or vectors (avx512_bf16.cpp).
//
// The smaller operand is packed in blocks that fill half of L2, and stays there. The other streams past each block in
// panels of 32 rows. Idle threads help with both: the block is packed once, in memory that they share, and each thread
// packs those panels that it multiplies. What an element of C is the sum of, and in which order, does not depend on who
// helps.
#pragma once

#include "../core/memory.h"
#include "../core/parallel.h"
#include "bfloat16_panels-inl.h"
#include "product.h"

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace bfloat16 {
namespace {

// Into L2, as stores would wait for memory.
SEPPO_BFLOAT16_CODE void prefetch(const MatrixOut& c) {
  for (std::size_t i = 0; i < c.rows; ++i)
    for (std::size_t j = 0; j < c.cols; j += kSide) _mm_prefetch(c.at(i, j), _MM_HINT_T1);
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

// The block that stays: of the thread that owns the product, as long as others help.
Word* block_memory(std::size_t words) {
  static thread_local Memory memory;  // not scratch_memory(), which the panels use
  return at_least(memory, words * sizeof(Word)).as<Word>();
}

// Operands are [rows, k] both: A, and B transposed. Panels::multiply(k_blocks, a, b, addend, sum, stride, next) is
// sum[kPanel, kPanel], with rows `stride` apart, = addend + the sum over all k-blocks of two panels, and may pack some
// of the next panel meanwhile; a thread calls it while it has a Panels::Use.
template <std::size_t kParts, class Panels>
class LargeProduct {
 public:
  explicit LargeProduct(const Product& p)
      : p_(p),
        a_streams_(p.m() >= p.n()),
        c_exceeds_l2_(p.m() * p.n() > 256 * 256),
        stays_(a_streams_ ? b() : a()),
        streams_(a_streams_ ? a() : b()),
        terms_(terms_of_block(stays_.rows(), p.k(), stays_of(kParts))),
        rows_(rows_of_block(stays_.rows(), terms_, stays_of(kParts))),
        panel_size_(k_blocks(terms_) * kBlockSize<kParts>),
        packed_block_(block_memory(panel_size_ * panels(rows_))) {}

  void compute() {
    for (std::size_t term = 0; term < p_.k(); term += terms_)
      for (std::size_t row = 0; row < stays_.rows(); row += rows_) {
        pack_block(stays_.block(row, rows_, term, terms_));
        multiply_block(row, term);
      }
  }

 private:
  Operand a() const { return {p_.a, Factor::left}; }
  Operand b() const { return {transposed(p_.b), Factor::right}; }

  void pack_block(const Operand& block) {
    constexpr std::size_t kAtOnce = 4;  // panels
    const std::size_t size = k_blocks(block.k()) * kBlockSize<kParts>;
    parallel_range(0, panels(block.rows()), kAtOnce, [&](std::size_t first, std::size_t end) {
      const Operand some = block.block(first * kPanel, (end - first) * kPanel, 0, block.k());
      Packer<kParts>(packed_block_ + first * size, some).pack_all();
    });
  }

  // All panels of the operand that streams, by the block of the other one from the given row and term on.
  void multiply_block(std::size_t row, std::size_t term) const {
    const std::size_t all = panels(streams_.rows());
    const std::size_t multiplications = kPanel * std::min(rows_, stays_.rows()) * terms_;  // of a panel
    parallel_range(0, all, panels_at_once(all, multiplications), [&](std::size_t first, std::size_t end) {
      multiply_panels(first * kPanel, std::min(end * kPanel, streams_.rows()), row, term);
    });
  }

  // A thirty-second part, or about 4 us of work if that is more.
  static std::size_t panels_at_once(std::size_t all, std::size_t multiplications) {
    constexpr std::size_t kPieces = 32, kLeast = std::size_t{1} << 20;
    return std::max((all + kPieces - 1) / kPieces, (kLeast + multiplications - 1) / multiplications);
  }

  // The panels of rows [first, end) of the operand that streams.
  SEPPO_BFLOAT16_CODE void multiply_panels(std::size_t first, std::size_t end, std::size_t row,
                                           std::size_t term) const {
    [[maybe_unused]] const typename Panels::Use use;
    const Product sum = p_.terms(term, count(term, p_.k(), terms_));
    const auto panel_from = [&](std::size_t i) { return streams_.block(i, count(i, end, kPanel), term, terms_); };
    Word* packed = scratch_memory(2 * panel_size_ * sizeof(Word)).as<Word>();
    Word* next_packed = packed + panel_size_;
    Packer<kParts>(packed, panel_from(first)).pack_all();
    for (std::size_t panel = first; panel < end; panel += kPanel) {
      Packer<kParts> next(next_packed, panel_from(panel + kPanel));
      multiply_panel(sum, packed, panel, row, next);
      next.pack_all();
      std::swap(packed, next_packed);
    }
  }

  // The packed panel, which begins at row `panel` of its operand, by each panel of the packed block.
  SEPPO_BFLOAT16_CODE void multiply_panel(const Product& sum, const Word* packed, std::size_t panel, std::size_t first,
                                          Packer<kParts>& next) const {
    const std::size_t end = std::min(first + rows_, stays_.rows());
    const Word* block_panel = packed_block_;
    for (std::size_t row = first; row < end; row += kPanel) {
      const Product part = part_of(sum, panel, row);
      const bool is_last = row + kPanel >= end;
      const Product following = part_of(sum, is_last ? panel + kPanel : panel, is_last ? first : row + kPanel);
      if (c_exceeds_l2_) prefetch(kParts > 1 ? part.c : following.c);  // one part's sums begin with C
      if (a_streams_)
        multiply_and_put(part, packed, block_panel, next);
      else
        multiply_and_put(part, block_panel, packed, next);
      block_panel += k_blocks(sum.k()) * kBlockSize<kParts>;
    }
  }

  // The product of two panels.
  SEPPO_BFLOAT16_INLINE Product part_of(const Product& sum, std::size_t panel, std::size_t stays) const {
    const std::size_t row = a_streams_ ? panel : stays, col = a_streams_ ? stays : panel;
    return sum.rows(row, count(row, sum.m(), kPanel)).columns(col, count(col, sum.n(), kPanel));
  }

  // The product of a panel of A and one of B: p is its part of C. With several parts, the smaller products come before
  // an addend.
  SEPPO_BFLOAT16_CODE void multiply_and_put(const Product& p, const Word* a, const Word* b,
                                            Packer<kParts>& next) const {
    const bool is_whole = p.m() == kPanel && p.n() == kPanel;
    if (is_whole && (kParts == 1 || !p.addend.data)) {  // rereading the sum would wait for stores
      Panels::multiply(k_blocks(p.k()), a, b, p.addend, p.c.data, p.c.stride, next);
    } else {
      alignas(kLine) real sum[kPanel * kPanel];
      Panels::multiply(k_blocks(p.k()), a, b, {}, sum, kPanel, next);
      put_sum(p, sum, kPanel);
    }
  }

  const Product& p_;
  bool a_streams_, c_exceeds_l2_;
  Operand stays_, streams_;
  std::size_t terms_, rows_;  // of a block of the operand that stays
  std::size_t panel_size_;    // words
  Word* packed_block_;
};

}  // namespace
}  // namespace bfloat16
}  // namespace SEPPO_ABI
}  // namespace seppo
