// What products on the matrix unit of x86 processors, AMX, have in common. It multiplies bfloat16 numbers, which have 8
// significant bits, and adds in single precision, many times as many at once as vectors do. Each number is split into
// three of them, x = x0 + x1 + x2, and of the nine products in a b the six largest are summed: what is left out is
// below 2^-22 |a b| at worst and about 2^-26 mostly (Henry, Tang and Heinecke 2019). The split has no infinity: it
// makes NaN of infinite numbers and of those from 3.39e38 on. Included once per instruction set, of which one has AMX.
#if defined(SEPPO_AMX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SEPPO_AMX_INL_H
#undef SEPPO_AMX_INL_H
#else
#define SEPPO_AMX_INL_H
#endif

#include "../kernels/kernels.h"
#include "transpose-inl.h"

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__) && defined(__linux__) && !defined(SEPPO_FLOAT64) && !defined(SEPPO_AMX)
#define SEPPO_AMX __attribute__((target(HWY_TARGET_STR ",amx-tile,amx-bf16")))
#define SEPPO_AMX_INLINE SEPPO_AMX inline __attribute__((always_inline))
#include <immintrin.h>
#endif

#if defined(SEPPO_AMX) && HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

using Words = hn::RebindToUnsigned<D>;
using Word = std::uint32_t;  // two bfloat16 numbers

// A tile: kSide rows of a cache line each, which is kSide numbers of C or twice as many bfloat16 numbers.
constexpr std::size_t kSide = 16, kTile = kSide * kSide, kLine = 64;
// The lines of a factor are A's rows or B's columns. They are packed in spans as wide as one tile or two, each span in
// slices of kStep terms: for each of the three parts the tiles side by side.
constexpr std::size_t kStep = 2 * kSide, kParts = 3;
constexpr std::size_t slice_size(std::size_t tiles) { return kParts * tiles * kTile; }
constexpr std::size_t kSpan = 2 * kSide, kSlice = slice_size(2);

inline std::size_t slices(std::size_t terms) { return (terms + kStep - 1) / kStep; }
inline std::size_t spans(std::size_t lines) { return (lines + kSpan - 1) / kSpan; }
// How many of `most` from `first` on lie before `end`.
HWY_INLINE std::size_t count(std::size_t first, std::size_t end, std::size_t most) {
  return first < end ? std::min(most, end - first) : 0;
}

// ---- packing ------------------------------------------------------------------------------------

// x = x0 + x1 + x2, each in the upper half of a word: x0 is rounded and x1 cut off, which leaves 8 bits for x2. Below x2
// other bits may be set.
struct Parts {
  hn::Vec<Words> part[kParts];

  HWY_INLINE explicit Parts(V x) {
    const auto bits = [](V v) HWY_ATTR { return hn::BitCast(Words(), v); };
    const auto upper = hn::Set(Words(), 0xffff0000), half = hn::Set(Words(), 0x8000);
    part[0] = hn::And(hn::Add(bits(x), half), upper);
    const V rest = hn::Sub(x, hn::BitCast(D(), part[0]));
    part[1] = hn::And(bits(rest), upper);
    part[2] = bits(hn::Sub(rest, hn::BitCast(D(), part[1])));
  }
};

constexpr std::size_t kRows = 4, kQuads = kSide / kRows;  // of a tile, packed at once

// Rows of words, for each part: the lower halves and the upper ones. The tiles of a slice's part are side by side.
template <std::size_t kTiles>
HWY_INLINE void pack_rows(Word* to, const real* low, const real* high, std::size_t ld) {
  for (std::size_t i = 0; i < kRows; ++i) {
    const Parts x(hn::LoadU(D(), low + i * ld)), y(hn::LoadU(D(), high + i * ld));
    for (std::size_t p = 0; p < kParts; ++p)
      hn::Store(hn::OrAnd(hn::ShiftRight<16>(x.part[p]), y.part[p], hn::Set(Words(), 0xffff0000)), Words(),
                to + p * kTiles * kTile + i * kSide);
  }
}

// Some lines and terms of a factor.
struct Lines {
  Factor from;  // at(line, term)
  std::size_t lines, terms;
  bool are_rows;  // of tiles: A's lines are, for B terms are

  // At most so many from a line and a term on.
  Lines part(std::size_t line, std::size_t most_lines, std::size_t term, std::size_t most_terms) const {
    return {from.at(line, term), count(line, lines, most_lines), count(term, terms, most_terms), are_rows};
  }
};

// Packs a span, a few rows of its tiles at a time: vectors do it while the matrix unit multiplies what is packed. A
// word holds terms p and p + kSide of a line.
template <std::size_t kTiles = 2>
class Packer {
 public:
  Packer() = default;
  Packer(Word* to, const Lines& from)
      : to_(to),
        from_(from),
        end_(from.lines > 0 ? slices(from.terms) * kTiles * kQuads : 0),
        across_(from.are_rows ? from.from.row : from.from.col),
        along_(from.are_rows ? from.from.col : from.from.row) {}

  HWY_INLINE void some() {
    if (done_ == end_) return;
    const std::size_t tile = done_ / kQuads, row = done_ % kQuads * kRows;
    const std::size_t line = tile % kTiles * kSide, term = tile / kTiles * kStep, other = kSide * from_.from.col;
    ++done_;
    Word* const to = to_ + tile / kTiles * slice_size(kTiles) + tile % kTiles * kTile + row * kSide;
    const real* const at = from_.from.at(line, term).data;
    const bool is_whole = line + kSide <= from_.lines && term + kStep <= from_.terms;
    if (is_whole && along_ == 1) return pack_rows<kTiles>(to, at + row * across_, at + row * across_ + other, across_);
    alignas(kLine) real low[kRows * kSide], high[kRows * kSide];
    if (is_whole) {
      transpose_rows(D(), low, kSide, at + row, along_);
      transpose_rows(D(), high, kSide, at + row + other, along_);
    } else {
      copy(low, line, term, row);
      copy(high, line, term + kSide, row);
    }
    pack_rows<kTiles>(to, low, high, kSide);
  }
  void all() {
    while (done_ < end_) some();
  }

 private:
  // Rows where the factor ends, with zeros beyond.
  HWY_NOINLINE void copy(real* to, std::size_t line, std::size_t term, std::size_t row) const {
    (from_.are_rows ? line : term) += row;
    const std::size_t lines = count(line, from_.lines, from_.are_rows ? kRows : kSide);
    const std::size_t terms = count(term, from_.terms, from_.are_rows ? kSide : kRows);
    std::fill_n(to, kRows * kSide, real{0});
    for (std::size_t i = 0; i < lines; ++i)
      for (std::size_t p = 0; p < terms; ++p)
        to[from_.are_rows ? i * kSide + p : p * kSide + i] = *from_.from.at(line + i, term + p).data;
  }

  Word* to_ = nullptr;
  Lines from_ = {};
  std::size_t end_ = 0, done_ = 0;      // in fours of rows
  std::size_t across_ = 0, along_ = 0;  // strides from row to row of a tile, and within a row
};

// ---- tiles --------------------------------------------------------------------------------------

struct alignas(kLine) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {};
  std::uint8_t rows[16] = {};

  constexpr explicit TileShapes(std::size_t tiles) {
    std::fill_n(bytes, tiles, kLine);
    std::fill_n(rows, tiles, kSide);
  }
};

// Tiles that are not configured need no registers.
template <std::size_t kTiles>
SEPPO_AMX_INLINE void configure_tiles() {
  static constexpr TileShapes shapes(kTiles);  // static, since the compiler believes that eight bytes are read
  _tile_loadconfig(&shapes);
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // per-target guard
