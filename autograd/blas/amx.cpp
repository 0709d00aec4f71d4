// Large products in single precision on AMX, the tile multiplier of x86 processors. It multiplies bfloat16 numbers, of
// 8 significant bits, and adds in single precision, at many times the rate of vectors. Each number is split into three
// of them, x = x0 + x1 + x2, and the six largest of the nine products in a b are summed; the omitted ones are below
// 2^-22 |a b| at worst and mostly about 2^-26 (Henry, Tang and Heinecke 2019). The split has no infinity: it turns
// infinite numbers, and those from 3.39e38 on, into NaN.
//
// The operand with fewer lines (A's rows, B's columns) is packed in blocks that fill half of L2. The lines of the other
// pass by each block 32 at a time, while vector code packs the next ones between AMX's instructions.
#include "amx.h"

#ifdef SEPPO_AMX

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 finds its own headers guilty (GCC bug 105593)
#endif
#include "amx_packing-inl.h"

#include <cpuid.h>
#include <hwy/targets.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace amx {
namespace {

// The tile configuration that the processor loads: eight tiles of kSide rows.
struct alignas(kLine) TileShapes {
  std::uint8_t palette = 1, reserved[15] = {};
  std::uint16_t bytes[16] = {kLine, kLine, kLine, kLine, kLine, kLine, kLine, kLine};  // bytes per row
  std::uint8_t rows[16] = {kSide, kSide, kSide, kSide, kSide, kSide, kSide, kSide};
};

SEPPO_AMX_CODE void configure_tiles() {
  static constexpr TileShapes shapes;  // static, as the compiler assumes that only eight bytes are read
  _tile_loadconfig(&shapes);
}

// Tiles 0, 1, 5 and 6 are C, 2 and 3 a part of A's rows, 4 and 7 the same part of B's columns.
SEPPO_AMX_INLINE void load_rows(const Word* slice, std::size_t part) {
  _tile_loadd(2, slice + part * 2 * kTile, kLine);
  _tile_loadd(3, slice + part * 2 * kTile + kTile, kLine);
}
SEPPO_AMX_INLINE void load_columns(const Word* slice, std::size_t part) {
  _tile_loadd(4, slice + part * 2 * kTile, kLine);
  _tile_loadd(7, slice + part * 2 * kTile + kTile, kLine);
}
SEPPO_AMX_INLINE void multiply_parts(Packer<>& next) {
  _tile_dpbf16ps(0, 2, 4);
  _tile_dpbf16ps(1, 3, 4);
  _tile_dpbf16ps(5, 2, 7);
  _tile_dpbf16ps(6, 3, 7);
  next.some();
}

// sum[kSpan, kSpan], with rows ld apart, over `slices` slices. The smaller products come first: each would be rounded
// if it were added to the larger ones. Inlined into the loops of another function, its own loops would spill registers.
SEPPO_AMX_CODE __attribute__((noinline)) void multiply_spans(std::size_t slices, const Word* a, const Word* b,
                                                             real* sum, std::size_t ld, Packer<>& next) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(5);
  _tile_zero(6);
  for (const Word *rows = a, *columns = b; rows < a + slices * kSlice; rows += kSlice, columns += kSlice) {
    load_rows(rows, 0);
    load_columns(columns, 2);
    multiply_parts(next);
    load_columns(columns, 1);
    multiply_parts(next);
    load_rows(rows, 1);
    multiply_parts(next);
    load_columns(columns, 0);
    multiply_parts(next);
    load_rows(rows, 2);
    multiply_parts(next);
  }
  for (const Word *rows = a, *columns = b; rows < a + slices * kSlice; rows += kSlice, columns += kSlice) {
    load_rows(rows, 0);
    load_columns(columns, 0);
    multiply_parts(next);
  }
  const std::size_t row = ld * sizeof(real);
  _tile_stored(0, sum, row);
  _tile_stored(1, sum + kSide * ld, row);
  _tile_stored(5, sum + kSide, row);
  _tile_stored(6, sum + kSide * ld + kSide, row);
}

// p.c = p.addend + sum, for the rows and columns of a span that lie within C
SEPPO_AMX_CODE void put_block(const Product& p, const real* sum, std::size_t ld) {
  for (std::size_t i = 0; i < p.m; ++i)
    for (std::size_t j = 0; j < p.n; j += kSide) {
      const auto lanes = static_cast<__mmask16>((1u << count(j, p.n, kSide)) - 1);
      __m512 s = _mm512_load_ps(sum + i * ld + j);
      if (p.addend.data) s = _mm512_add_ps(s, _mm512_maskz_loadu_ps(lanes, p.addend.at(i, j).data));
      _mm512_mask_storeu_ps(p.c + i * p.ldc + j, lanes, s);
    }
}

// The numbers in a packed block of the staying operand, about: at six bytes each, they fill half of an L2 of 2 MiB,
// through which much other data passes.
constexpr std::size_t kBlock = 320 * 512;

// The terms of a block: half the maximum, if that makes all lines fit into one block.
std::size_t block_terms(std::size_t lines, std::size_t k) {
  const std::size_t most = std::min<std::size_t>(k, 512), half = 256;
  return lines * most > kBlock && lines * half <= kBlock ? half : most;
}

// The lines of a block: all, or equal parts, as few as possible, since each part packs the other operand again.
std::size_t block_lines(std::size_t lines, std::size_t terms) {
  const std::size_t parts = (lines * terms + kBlock - 1) / kBlock;
  return (spans(lines) + parts - 1) / parts * kSpan;
}

// Few rows: C^T = B^T A^T, whose tiles have B's dense columns as rows. These are read and packed once, a slice at a
// time, so that packed slices remain in L1.
using Ring = Packer<1, 4>;
constexpr std::size_t kAhead = 2;  // slices: data just stored cannot be loaded into a tile at once

// Tiles 0 and 1 sum x0 y0, and 2 and 3 the other products, which would lose digits if they were added to x0 y0; 4 is a
// part of B's columns, 5 and 6 of A's rows.
SEPPO_AMX_INLINE void load_b(const Word* slice, std::size_t part) { _tile_loadd(4, slice + part * kTile, kLine); }
SEPPO_AMX_INLINE void load_a(const Word* slice, std::size_t part) {
  _tile_loadd(5, slice + part * 2 * kTile, kLine);
  _tile_loadd(6, slice + part * 2 * kTile + kTile, kLine);
}
SEPPO_AMX_INLINE void multiply_others(Ring& next) {
  _tile_dpbf16ps(2, 4, 5);
  _tile_dpbf16ps(3, 4, 6);
  next.some();
}

// sums[2][2] over `slices` slices: of the largest products, and of the others.
SEPPO_AMX_CODE __attribute__((noinline)) void multiply_lines(std::size_t slices, const Word* a, const Word* ring,
                                                             std::size_t first, Ring& next, real (&sums)[4][kTile]) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::size_t s = first; s < first + slices; ++s, a += kSlice) {
    const Word* const b = ring + s % 4 * slice_size(1);
    load_b(b, 0);
    load_a(a, 2);
    multiply_others(next);
    load_a(a, 1);
    multiply_others(next);
    load_b(b, 1);
    multiply_others(next);
    load_a(a, 0);
    multiply_others(next);
    load_b(b, 2);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 6);
    load_b(b, 0);
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 6);
  }
  _tile_stored(0, sums[0], kLine);
  _tile_stored(1, sums[1], kLine);
  _tile_stored(2, sums[2], kLine);
  _tile_stored(3, sums[3], kLine);
}

// 16 columns of C = addend + sums^T
SEPPO_AMX_CODE void put_lines(const Product& p, const real (&sums)[4][kTile]) {
  alignas(kLine) real rows[kSpan][kSide];
  for (std::size_t i = 0; i < kSpan; i += kRows) {
    __m512 large[kRows], others[kRows];
    load_transposed(large, sums[i / kSide] + i % kSide, kSide);
    load_transposed(others, sums[2 + i / kSide] + i % kSide, kSide);
    for (std::size_t r = 0; r < kRows; ++r) _mm512_store_ps(rows[i + r], _mm512_add_ps(large[r], others[r]));
  }
  put_block(p, rows[0], kSide);
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

// Packing takes longer than for vector code.
constexpr std::size_t kWorthPacking = std::size_t{1} << 21;  // multiplications

bool suits(const Product& p) {
  return std::min({p.m, p.n, p.k}) >= 64 && p.m * p.n * p.k >= kWorthPacking && is_available();
}

bool suits_few_rows(const Product& p) { return p.m * p.n * p.k >= kWorthPacking && is_available(); }
std::size_t few_rows_size(const Product& p) { return spans(p.m) * slices(p.k) * kSlice * sizeof(Word); }
void pack_few_rows(std::uint32_t* packed, const Product& p) { Packer(packed, {p.a, p.m, p.k, false}).all(); }

SEPPO_AMX_CODE void gemm(const Product& p) {
  const Lines rows = {p.a, p.m, p.k, true}, columns = {{p.b.data, p.b.col, p.b.row}, p.n, p.k, false};
  const bool rows_pass = p.m >= p.n, is_far = p.m * p.n > 256 * 256;  // C exceeds L2
  const Lines &staying = rows_pass ? columns : rows, &passing = rows_pass ? rows : columns;
  const std::size_t terms = block_terms(staying.lines, p.k), lines = block_lines(staying.lines, terms);
  const std::size_t most = slices(terms) * kSlice;  // words per span
  Word* const memory = scratch_memory(most * (2 + spans(lines)) * sizeof(Word)).as<Word>();
  Word *const here = memory + 2 * most, *now = memory, *then = memory + most;
  configure_tiles();
  for (std::size_t t = 0; t < p.k; t += terms) {
    const Product sum = p.terms(t, count(t, p.k, terms));
    const std::size_t depth = slices(sum.k);
    for (std::size_t first = 0; first < staying.lines; first += lines) {
      const std::size_t end = std::min(first + lines, staying.lines);
      Packer(here, staying.part(first, lines, t, terms)).all();
      Packer(now, passing.part(0, kSpan, t, terms)).all();
      for (std::size_t j = 0; j < passing.lines; j += kSpan, std::swap(now, then)) {
        Packer next(then, passing.part(j + kSpan, kSpan, t, terms));
        for (std::size_t i = first; i < end; i += kSpan) {
          const Word* const stays = here + (i - first) / kSpan * depth * kSlice;
          const std::size_t row = rows_pass ? j : i, col = rows_pass ? i : j;
          const Word *const left = rows_pass ? now : stays, *const right = rows_pass ? stays : now;
          const Product block = sum.rows(row, count(row, p.m, kSpan)).columns(col, count(col, p.n, kSpan));
          for (std::size_t r = 0; is_far && r < block.m; ++r)  // into L2: tile stores would wait for it
            for (std::size_t c = 0; c < block.n; c += kSide) _mm_prefetch(block.c + r * p.ldc + c, _MM_HINT_T1);
          if (!block.addend.data && block.m == kSpan && block.n == kSpan) {  // rereading the sum would wait for stores
            multiply_spans(depth, left, right, block.c, p.ldc, next);
          } else {
            alignas(kLine) real numbers[kSpan * kSpan];
            multiply_spans(depth, left, right, numbers, kSpan, next);
            put_block(block, numbers, kSpan);
          }
        }
        next.all();
      }
    }
  }
  _tile_release();
}

SEPPO_AMX_CODE void few_rows(const Product& p, const std::uint32_t* packed) {
  const std::size_t depth = slices(p.k);
  configure_tiles();
  for (std::size_t i = 0; i < p.m; i += kSpan, packed += depth * kSlice) {
    alignas(kLine) Word ring[4 * slice_size(1)];
    Ring next(ring, {{p.b.data, p.b.col, p.b.row}, p.n, p.k, true});
    for (std::size_t s = 0; s < kAhead * kQuads; ++s) next.some();
    for (std::size_t j = 0; j < p.n; j += kSide) {
      alignas(kLine) real sums[4][kTile];
      multiply_lines(depth, packed, ring, j / kSide * depth, next, sums);
      put_lines(p.rows(i, count(i, p.m, kSpan)).columns(j, count(j, p.n, kSide)), sums);
    }
  }
  _tile_release();
}

}  // namespace amx
}  // namespace SEPPO_ABI
}  // namespace seppo

#endif
