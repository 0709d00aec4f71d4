// Panels for products of bfloat16 numbers: how operands are packed into them, and sums come out. Each number is split
// into kParts of bfloat16, in the order in which AMX loads tiles; AVX-512 BF16 reads the same tiles as vectors.
//
// A product C = A B is computed from the rows of A and the columns of B. Both are packed in panels of kPanel of them,
// and each panel in blocks along k:
//
//   panel 0: k-block 0, k-block 1, ...   panel 1: k-block 0, k-block 1, ...
//
// A k-block holds kBlockDepth terms of each row of A, or column of B, as kParts planes: the first bfloat16 parts of its
// numbers, the second, and the third. A plane consists of one or two tiles.
#pragma once

#include "product.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 finds its own headers guilty (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#define SEPPO_BFLOAT16_CODE __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")))
#define SEPPO_BFLOAT16_INLINE SEPPO_BFLOAT16_CODE inline __attribute__((always_inline))

namespace seppo {
inline namespace SEPPO_ABI {
namespace bfloat16 {
namespace {

using Word = std::uint32_t;  // two bfloat16 numbers

// A tile: kSide rows of one cache line each, which holds kSide numbers of C or twice as many bfloat16 numbers.
constexpr std::size_t kSide = 16;
constexpr std::size_t kTile = kSide * kSide;  // words
constexpr std::size_t kLine = 64;             // bytes

constexpr std::size_t kPanel = 2 * kSide;       // rows of A, or columns of B
constexpr std::size_t kBlockDepth = 2 * kSide;  // terms
template <std::size_t kParts>
constexpr std::size_t kBlockSize = kParts * 2 * kTile;  // words

inline std::size_t k_blocks(std::size_t k) { return (k + kBlockDepth - 1) / kBlockDepth; }
inline std::size_t panels(std::size_t rows) { return (rows + kPanel - 1) / kPanel; }
// The number of elements before `end`, among `most` from `first` on.
inline std::size_t count(std::size_t first, std::size_t end, std::size_t most) {
  return first < end ? std::min(most, end - first) : 0;
}

// The upper half of each word, rounded half up. A NaN may become another number, but what is left of it does not.
SEPPO_BFLOAT16_INLINE __m512i round_up(__m512 x) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  return _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000)), upper);
}
SEPPO_BFLOAT16_INLINE __m512i truncate(__m512 x) {
  return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(static_cast<int>(0xffff0000)));
}
SEPPO_BFLOAT16_INLINE __m512 rest(__m512 x, __m512i part) { return _mm512_sub_ps(x, _mm512_castsi512_ps(part)); }

// Words of two bfloat16 numbers: from the upper halves of two words, or rounded to nearest even.
SEPPO_BFLOAT16_INLINE __m512i words(__m512i low, __m512i high) {
  return _mm512_mask_mov_epi16(_mm512_srli_epi32(low, 16), 0xaaaaaaaa, high);
}
SEPPO_BFLOAT16_INLINE __m512i rounded_words(__m512 low, __m512 high) {
  alignas(kLine) static constexpr std::uint16_t kInTurns[] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                              21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                              11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const auto numbers = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  return _mm512_permutexvar_epi16(_mm512_load_si512(kInTurns), numbers);
}

// The words of each part of numbers for their lower and upper halves: x = x0, x0 + x1, or x0 + x1 + x2. Of three parts,
// x0 is rounded and x1 truncated, which leaves 8 bits for x2.
SEPPO_BFLOAT16_INLINE void split(__m512i (&part)[1], __m512 low, __m512 high) { part[0] = rounded_words(low, high); }
SEPPO_BFLOAT16_INLINE void split(__m512i (&part)[2], __m512 low, __m512 high) {
  const __m512i x0 = round_up(low), y0 = round_up(high);
  part[0] = words(x0, y0);
  part[1] = rounded_words(rest(low, x0), rest(high, y0));
}
SEPPO_BFLOAT16_INLINE void split(__m512i (&part)[3], __m512 low, __m512 high) {
  const __m512i x0 = round_up(low), y0 = round_up(high);
  const __m512 x = rest(low, x0), y = rest(high, y0);
  const __m512i x1 = truncate(x), y1 = truncate(y);
  part[0] = words(x0, y0);
  part[1] = words(x1, y1);
  part[2] = words(_mm512_castps_si512(rest(x, x1)), _mm512_castps_si512(rest(y, y1)));
}

constexpr std::size_t kQuad = 4;               // rows of a tile that are packed at once
constexpr std::size_t kQuads = kSide / kQuad;  // of a tile

// Packs four tile rows of each plane, from the numbers for the lower and upper halves of their words.
template <std::size_t kParts, std::size_t kTiles>
SEPPO_BFLOAT16_INLINE void pack_words(Word* to, const __m512 (&low)[kQuad], const __m512 (&high)[kQuad]) {
  for (std::size_t i = 0; i < kQuad; ++i) {
    __m512i part[kParts];
    split(part, low[i], high[i]);
    for (std::size_t plane = 0; plane < kParts; ++plane)
      _mm512_store_si512(to + plane * kTiles * kTile + i * kSide, part[plane]);
  }
}

// Loads four columns of 16 rows, transposing squares of 4 x 4 within 128-bit blocks.
SEPPO_BFLOAT16_INLINE void load_transposed(__m512 (&v)[kQuad], const real* x, std::size_t stride) {
  for (std::size_t r = 0; r < kQuad; ++r) {
    v[r] = _mm512_castps128_ps512(_mm_loadu_ps(x + r * stride));
    v[r] = _mm512_insertf32x4(v[r], _mm_loadu_ps(x + (r + 4) * stride), 1);
    v[r] = _mm512_insertf32x4(v[r], _mm_loadu_ps(x + (r + 8) * stride), 2);
    v[r] = _mm512_insertf32x4(v[r], _mm_loadu_ps(x + (r + 12) * stride), 3);
  }
  const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(v[0], v[1]));
  const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(v[0], v[1]));
  const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(v[2], v[3]));
  const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(v[2], v[3]));
  v[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
  v[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
  v[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
  v[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
}

// The factor of tiles that an operand is. The rows of a left factor are the rows of its tiles; the columns of a right
// factor are the columns of its tiles.
enum class Factor { left, right };

// An operand that is to be packed: x[rows, k], which is A itself, or B transposed.
struct Operand {
  MatrixView x;
  Factor factor;

  std::size_t rows() const { return x.rows; }
  std::size_t k() const { return x.cols; }

  // Up to most_rows rows and most_terms terms, from the given ones on.
  Operand block(std::size_t row, std::size_t most_rows, std::size_t term, std::size_t most_terms) const {
    return {x.block(row, term, count(row, rows(), most_rows), count(term, k(), most_terms)), factor};
  }
};

// Packs panels of kTiles tiles one after another, a few rows of a tile at a time; after kRing k-blocks it wraps around
// to the beginning. A word holds terms p and p + kSide of a row.
template <std::size_t kParts, std::size_t kTiles = 2, std::size_t kRing = 0>
class Packer {
 public:
  Packer(Word* to, const Operand& from)
      : begin_(to),
        to_(to),
        from_(from),
        is_left_(from.factor == Factor::left),
        across_(is_left_ ? from.x.row_stride : from.x.col_stride),
        along_(is_left_ ? from.x.col_stride : from.x.row_stride) {}

  // Packs the next four rows of a tile, if there are any left; numbers of one part pass so fast that a whole tile is
  // packed at once.
  SEPPO_BFLOAT16_INLINE void pack_some() {
    if (row_ >= from_.rows()) return;
    Word* const to = to_ + tile_ * kTile + tile_row_ * kSide;
    const std::size_t row = row_ + tile_ * kSide;
    const real* const at = from_.x.at(row, term_) + tile_row_ * across_;
    const bool is_whole = row + kSide <= from_.rows() && term_ + kBlockDepth <= from_.k();
    for (std::size_t i = 0; i < kAtOnce; i += kQuad) {
      __m512 low[kQuad], high[kQuad];
      if (is_whole) {
        load(low, high, at + i * across_);
      } else {
        copy(low, row, term_, tile_row_ + i);
        copy(high, row, term_ + kSide, tile_row_ + i);
      }
      pack_words<kParts, kTiles>(to + i * kSide, low, high);
    }
    advance();
  }
  SEPPO_BFLOAT16_CODE void pack_all() {
    while (row_ < from_.rows()) pack_some();
  }
  // Prefetches a quarter of the next tile, but of the panel after this one, into L2: memory would be slower than AMX.
  SEPPO_BFLOAT16_INLINE void fetch_some(std::size_t quarter) const {
    const real* const at = from_.x.at(row_ + (kTiles + tile_) * kSide, term_);
    const std::size_t line = along_ == 1 ? across_ : along_;
    for (std::size_t i = 0; i < kQuad; ++i) {
      const real* const now = at + (quarter * kQuad + i) * line;
      _mm_prefetch(now, _MM_HINT_T1);
      _mm_prefetch(now + kSide * from_.x.col_stride, _MM_HINT_T1);
    }
  }

 private:
  static constexpr std::size_t kAtOnce = kParts == 1 && kRing == 0 ? kSide : kQuad;  // rows of a tile

  // Four tile rows: their terms p, and their terms p + kSide.
  SEPPO_BFLOAT16_INLINE void load(__m512 (&low)[kQuad], __m512 (&high)[kQuad], const real* at) const {
    const std::size_t half = kSide * from_.x.col_stride;
    if (along_ != 1) {
      load_transposed(low, at, along_);
      load_transposed(high, at + half, along_);
    } else {
      for (std::size_t i = 0; i < kQuad; ++i) {
        low[i] = _mm512_loadu_ps(at + i * across_);
        high[i] = _mm512_loadu_ps(at + i * across_ + half);
        if constexpr (kRing > 0)  // prefetches the next panel into L2
          for (const real* const next : {at, at + half}) _mm_prefetch(next + (kSide + i) * across_, _MM_HINT_T1);
      }
    }
  }

  // Copies four tile rows at the end of the operand, padded with zeros.
  SEPPO_BFLOAT16_CODE __attribute__((noinline)) void copy(__m512 (&to)[kQuad], std::size_t row, std::size_t term,
                                                          std::size_t tile_row) const {
    (is_left_ ? row : term) += tile_row;
    const std::size_t rows = count(row, from_.rows(), is_left_ ? kQuad : kSide);
    const std::size_t terms = count(term, from_.k(), is_left_ ? kSide : kQuad);
    alignas(kLine) real tile_rows[kQuad][kSide] = {};
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t p = 0; p < terms; ++p)
        (is_left_ ? tile_rows[i][p] : tile_rows[p][i]) = *from_.x.at(row + i, term + p);
    for (std::size_t i = 0; i < kQuad; ++i) to[i] = _mm512_load_ps(tile_rows[i]);
  }

  // From four rows of a tile to the next, to the next tile, k-block and panel.
  SEPPO_BFLOAT16_INLINE void advance() {
    tile_row_ += kAtOnce;
    if (tile_row_ < kSide) return;
    tile_row_ = 0;
    ++tile_;
    if (tile_ < kTiles) return;
    tile_ = 0;
    to_ += kParts * kTiles * kTile;
    ++blocks_;
    if (blocks_ == kRing) {
      blocks_ = 0;
      to_ = begin_;
    }
    term_ += kBlockDepth;
    if (term_ < from_.k()) return;
    term_ = 0;
    row_ += kTiles * kSide;
  }

  Word* begin_;
  Word* to_;
  Operand from_;
  bool is_left_;
  std::size_t across_, along_;           // strides from row to row of a tile, and within a row
  std::size_t row_ = 0, term_ = 0;       // the position in the operand,
  std::size_t tile_ = 0, tile_row_ = 0;  // and in the k-block
  std::size_t blocks_ = 0;               // since the beginning of the ring
};

// p.c = p.addend + sum, for those rows and columns of two panels that lie within C
SEPPO_BFLOAT16_CODE inline void put_sum(const Product& p, const real* sum, std::size_t stride) {
  for (std::size_t i = 0; i < p.m(); ++i)
    for (std::size_t j = 0; j < p.n(); j += kSide) {
      const auto lanes = static_cast<__mmask16>((1u << count(j, p.n(), kSide)) - 1);
      __m512 s = _mm512_load_ps(sum + i * stride + j);
      if (p.addend.data) s = _mm512_add_ps(s, _mm512_maskz_loadu_ps(lanes, p.addend.at(i, j)));
      _mm512_mask_storeu_ps(p.c.at(i, j), lanes, s);
    }
}

}  // namespace
}  // namespace bfloat16
}  // namespace SEPPO_ABI
}  // namespace seppo
