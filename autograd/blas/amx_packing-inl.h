// How operands are packed for AMX: each number is split into three bfloat16 numbers, in the order in which tiles are
// loaded. Included by amx.cpp alone.
#pragma once

#include "product.h"

#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#define SEPPO_AMX_CODE __attribute__((target("avx512f,avx512bw,avx512vl,amx-tile,amx-bf16")))
#define SEPPO_AMX_INLINE SEPPO_AMX_CODE inline __attribute__((always_inline))

namespace seppo {
inline namespace SEPPO_ABI {
namespace amx {
namespace {

using Word = std::uint32_t;  // two bfloat16 numbers

// A tile: kSide rows of one cache line each, which holds kSide numbers of C or twice as many bfloat16 numbers.
constexpr std::size_t kSide = 16, kTile = kSide * kSide, kLine = 64;
// Lines are packed in spans one or two tiles wide, and each span in slices of kStep terms, which hold the tiles side by
// side for each of the three parts.
constexpr std::size_t kSpan = 2 * kSide, kStep = 2 * kSide, kParts = 3;
constexpr std::size_t slice_size(std::size_t tiles) { return kParts * tiles * kTile; }
constexpr std::size_t kSlice = slice_size(2);

std::size_t slices(std::size_t terms) { return (terms + kStep - 1) / kStep; }
std::size_t spans(std::size_t lines) { return (lines + kSpan - 1) / kSpan; }
// The number of elements before `end`, among `most` from `first` on.
std::size_t count(std::size_t first, std::size_t end, std::size_t most) {
  return first < end ? std::min(most, end - first) : 0;
}

// x = x0 + x1 + x2, each in the upper half of a word: x0 is rounded and x1 truncated, which leaves 8 bits for x2. The
// lower half of x2's word is arbitrary.
SEPPO_AMX_INLINE void split(__m512 x, __m512i (&part)[kParts]) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000)), half = _mm512_set1_epi32(0x8000);
  part[0] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), upper);
  const __m512 rest = _mm512_sub_ps(x, _mm512_castsi512_ps(part[0]));
  part[1] = _mm512_and_si512(_mm512_castps_si512(rest), upper);
  part[2] = _mm512_castps_si512(_mm512_sub_ps(rest, _mm512_castsi512_ps(part[1])));
}

constexpr std::size_t kRows = 4, kQuads = kSide / kRows;  // rows of a tile that are packed at once

// Packs rows of words for each part, from the numbers for their lower and upper halves.
template <std::size_t kTiles>
SEPPO_AMX_INLINE void pack_words(Word* to, const __m512 (&low)[kRows], const __m512 (&high)[kRows]) {
  for (std::size_t i = 0; i < kRows; ++i) {
    __m512i x[kParts], y[kParts];
    split(low[i], x);
    split(high[i], y);
    for (std::size_t p = 0; p < kParts; ++p)  // x's upper half below y's
      _mm512_store_si512(to + p * kTiles * kTile + i * kSide,
                         _mm512_mask_mov_epi16(_mm512_srli_epi32(x[p], 16), 0xaaaaaaaa, y[p]));
  }
}

// Loads four columns of 16 rows, transposing squares of 4 x 4 within 128-bit blocks.
SEPPO_AMX_INLINE void load_transposed(__m512 (&v)[kRows], const real* x, std::size_t ld) {
  for (std::size_t r = 0; r < kRows; ++r) {
    v[r] = _mm512_castps128_ps512(_mm_loadu_ps(x + r * ld));
    v[r] = _mm512_insertf32x4(v[r], _mm_loadu_ps(x + (r + 4) * ld), 1);
    v[r] = _mm512_insertf32x4(v[r], _mm_loadu_ps(x + (r + 8) * ld), 2);
    v[r] = _mm512_insertf32x4(v[r], _mm_loadu_ps(x + (r + 12) * ld), 3);
  }
  const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(v[0], v[1])),
                high01 = _mm512_castps_pd(_mm512_unpackhi_ps(v[0], v[1])),
                low23 = _mm512_castps_pd(_mm512_unpacklo_ps(v[2], v[3])),
                high23 = _mm512_castps_pd(_mm512_unpackhi_ps(v[2], v[3]));
  v[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
  v[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
  v[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
  v[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
}

// Some lines and terms of an operand.
struct Lines {
  MatrixView from;  // at(line, term)
  std::size_t lines, terms;
  bool are_rows;  // A's lines are rows of tiles; for B, terms are

  // Up to most_lines lines and most_terms terms, from the given ones on.
  Lines part(std::size_t line, std::size_t most_lines, std::size_t term, std::size_t most_terms) const {
    return {from.at(line, term), count(line, lines, most_lines), count(term, terms, most_terms), are_rows};
  }
};

// Packs spans of kTiles tiles one after another, a few rows of a tile at a time; after kRing slices it wraps around to
// the beginning. A word holds terms p and p + kSide of a line.
template <std::size_t kTiles = 2, std::size_t kRing = 0>
class Packer {
 public:
  Packer(Word* to, const Lines& from)
      : begin_(to),
        to_(to),
        from_(from),
        across_(from.are_rows ? from.from.row : from.from.col),
        along_(from.are_rows ? from.from.col : from.from.row) {}

  SEPPO_AMX_INLINE void some() {
    if (line_ >= from_.lines) return;
    const std::size_t line = line_ + tile_ * kSide, other = kSide * from_.from.col;
    const real* const at = from_.from.at(line, term_).data + row_ * across_;
    const bool is_whole = line + kSide <= from_.lines && term_ + kStep <= from_.terms;
    __m512 low[kRows], high[kRows];
    if (is_whole && along_ != 1) {
      load_transposed(low, at, along_);
      load_transposed(high, at + other, along_);
    } else if (is_whole) {
      for (std::size_t i = 0; i < kRows; ++i) {
        low[i] = _mm512_loadu_ps(at + i * across_);
        high[i] = _mm512_loadu_ps(at + i * across_ + other);
        if constexpr (kRing > 0)  // prefetches the next span into L2
          for (const real* const next : {at, at + other}) _mm_prefetch(next + (kSide + i) * across_, _MM_HINT_T1);
      }
    } else {
      copy(low, line, term_);
      copy(high, line, term_ + kSide);
    }
    pack_words<kTiles>(to_ + tile_ * kTile + row_ * kSide, low, high);
    if ((row_ += kRows) < kSide) return;
    row_ = 0;
    if (++tile_ < kTiles) return;
    tile_ = 0, to_ += slice_size(kTiles);
    if (++slices_ == kRing) slices_ = 0, to_ = begin_;
    if ((term_ += kStep) < from_.terms) return;
    term_ = 0, line_ += kTiles * kSide;
  }
  SEPPO_AMX_CODE void all() {
    while (line_ < from_.lines) some();
  }

 private:
  // Copies rows at the end of the operand, padded with zeros.
  SEPPO_AMX_CODE __attribute__((noinline)) void copy(__m512 (&to)[kRows], std::size_t line, std::size_t term) const {
    (from_.are_rows ? line : term) += row_;
    const std::size_t lines = count(line, from_.lines, from_.are_rows ? kRows : kSide);
    const std::size_t terms = count(term, from_.terms, from_.are_rows ? kSide : kRows);
    alignas(kLine) real rows[kRows][kSide] = {};
    for (std::size_t i = 0; i < lines; ++i)
      for (std::size_t p = 0; p < terms; ++p)
        (from_.are_rows ? rows[i][p] : rows[p][i]) = *from_.from.at(line + i, term + p).data;
    for (std::size_t i = 0; i < kRows; ++i) to[i] = _mm512_load_ps(rows[i]);
  }

  Word *begin_, *to_;
  Lines from_;
  std::size_t across_, along_;  // strides from row to row of a tile, and within a row
  std::size_t line_ = 0, term_ = 0, tile_ = 0, row_ = 0, slices_ = 0;  // the position
};

}  // namespace
}  // namespace amx
}  // namespace SEPPO_ABI
}  // namespace seppo
