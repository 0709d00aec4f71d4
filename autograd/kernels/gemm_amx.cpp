// Large products in single precision on the matrix unit of x86 processors, AMX. It multiplies bfloat16 numbers, which
// have 8 significant bits, and adds in single precision, many times as many at once as vectors do. Each number is split
// into three of them, x = x0 + x1 + x2, and of the nine products in a b the six largest are summed: what is left out is
// below 2^-22 |a b| at worst and about 2^-26 mostly (Henry, Tang and Heinecke 2019). The split has no infinity: it
// makes NaN of infinite numbers and of those from 3.39e38 on.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "seppo/autograd/kernels/gemm_amx.cpp"
#include <hwy/foreach_target.h>

#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/kernels/scratch.h>
#include <seppo/autograd/kernels/transpose-inl.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#if defined(__x86_64__) && defined(__linux__) && !defined(SEPPO_FLOAT64)
#define SEPPO_AMX __attribute__((target(HWY_TARGET_STR ",amx-tile,amx-bf16")))
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(SEPPO_AMX) && HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

using Words = hn::RebindToUnsigned<D>;
using Word = std::uint32_t;  // two bfloat16 numbers

// A tile: kSide rows of a cache line each, which is kSide numbers of C or twice as many bfloat16 numbers.
constexpr std::size_t kSide = 16, kTile = kSide * kSide, kLine = 64;
// The lines of a factor are A's rows or B's columns. They are packed in spans of two tiles' width, each span in slices
// of kStep terms: for each of the three parts two tiles.
constexpr std::size_t kSpan = 2 * kSide, kStep = 2 * kSide, kParts = 3, kSlice = kParts * 2 * kTile;
// Of the factor with fewer lines a block of this size is packed at a time, for the second-level cache.
constexpr std::size_t kBlockLines = 512, kBlockTerms = 512;

std::size_t slices(std::size_t terms) { return (terms + kStep - 1) / kStep; }
std::size_t spans(std::size_t lines) { return (lines + kSpan - 1) / kSpan; }
// How many of `most` from `first` on lie before `end`.
HWY_INLINE std::size_t count(std::size_t first, std::size_t end, std::size_t most) {
  return first < end ? std::min(most, end - first) : 0;
}

// ---- packing ------------------------------------------------------------------------------------

// x = x0 + x1 + x2, each in the upper half of a word: x0 is rounded and x1 cut off, which leaves 8 bits for x2.
struct Parts {
  hn::Vec<Words> part[kParts];

  HWY_INLINE explicit Parts(V x) {
    const auto bits = [](V v) HWY_ATTR { return hn::BitCast(Words(), v); };
    const auto upper = hn::Set(Words(), 0xffff0000), half = hn::Set(Words(), 0x8000);
    part[0] = hn::And(hn::Add(bits(x), half), upper);
    const V rest = hn::Sub(x, hn::BitCast(D(), part[0]));
    part[1] = hn::And(bits(rest), upper);
    part[2] = hn::And(bits(hn::Sub(rest, hn::BitCast(D(), part[1]))), upper);
  }
};

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

// Packs a span, a few rows of its tiles at a time: vectors do it while the matrix unit multiplies the span before. A
// word holds terms p and p + kSide of a line.
class Packer {
 public:
  Packer() = default;
  Packer(Word* to, const Lines& from)
      : to_(to),
        from_(from),
        end_(spans(from.lines) * slices(from.terms) * 2 * kQuads),
        across_(from.are_rows ? from.from.row : from.from.col),
        along_(from.are_rows ? from.from.col : from.from.row) {}

  HWY_INLINE void some() {
    if (done_ == end_) return;
    const std::size_t tile = done_ / kQuads, row = done_ % kQuads * kRows;
    const std::size_t line = tile % 2 * kSide, term = tile / 2 * kStep, other = kSide * from_.from.col;
    ++done_;
    Word* const to = to_ + tile / 2 * kSlice + tile % 2 * kTile + row * kSide;
    const real* const at = from_.from.at(line, term).data;
    const bool is_whole = line + kSide <= from_.lines && term + kStep <= from_.terms;
    if (is_whole && along_ == 1) return pack(to, at + row * across_, at + row * across_ + other, across_);
    alignas(kLine) real low[kRows * kSide], high[kRows * kSide];
    if (is_whole) {
      transpose_rows(D(), low, kSide, at + row, along_);
      transpose_rows(D(), high, kSide, at + row + other, along_);
    } else {
      copy(low, line, term, row);
      copy(high, line, term + kSide, row);
    }
    pack(to, low, high, kSide);
  }
  void all() {
    while (done_ < end_) some();
  }

 private:
  static constexpr std::size_t kRows = 4, kQuads = kSide / kRows;

  // Rows of words, for each part: the lower halves and the upper ones.
  static HWY_INLINE void pack(Word* to, const real* low, const real* high, std::size_t ld) {
    for (std::size_t i = 0; i < kRows; ++i) {
      const Parts x(hn::LoadU(D(), low + i * ld)), y(hn::LoadU(D(), high + i * ld));
      for (std::size_t p = 0; p < kParts; ++p)
        hn::Store(hn::Or(hn::ShiftRight<16>(x.part[p]), y.part[p]), Words(), to + p * 2 * kTile + i * kSide);
    }
  }

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

// ---- multiplying --------------------------------------------------------------------------------

// Tiles 0 and 1 are C, 2 and 3 a part of A's rows, 4 the same part of B's columns, a tile's width of them. Wide blocks
// have in 5 and 6 more of C and in 7 more of B, and so load less. But a core that also runs another thread has few
// registers for tiles: with all eight in use each instruction waits for the one before, and narrow blocks are almost
// twice as fast. Both add up the same numbers in the same order.
using Blocks = AmxBlocks;

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
SEPPO_AMX void configure_tiles(Blocks blocks) {
  static constexpr TileShapes few(5), all(8);  // static, since the compiler believes that eight bytes are read
  if (blocks == Blocks::narrow)
    _tile_loadconfig(&few);
  else
    _tile_loadconfig(&all);
}

#define SEPPO_AMX_INLINE SEPPO_AMX inline __attribute__((always_inline))

SEPPO_AMX_INLINE void load_rows(const Word* slice, std::size_t part) {
  _tile_loadd(2, slice + part * 2 * kTile, kLine);
  _tile_loadd(3, slice + part * 2 * kTile + kTile, kLine);
}
template <Blocks kBlocks>
SEPPO_AMX_INLINE void load_columns(const Word* slice, std::size_t part) {
  _tile_loadd(4, slice + part * 2 * kTile, kLine);
  if constexpr (kBlocks == Blocks::wide) _tile_loadd(7, slice + part * 2 * kTile + kTile, kLine);
}
template <Blocks kBlocks>
SEPPO_AMX_INLINE void multiply_parts(Packer& next) {
  _tile_dpbf16ps(0, 2, 4);
  _tile_dpbf16ps(1, 3, 4);
  if constexpr (kBlocks == Blocks::wide) {
    _tile_dpbf16ps(5, 2, 7);
    _tile_dpbf16ps(6, 3, 7);
  }
  next.some();
}

// The sum of so many slices. Its smaller parts come first: added to the larger ones each would be rounded to their
// digits. Within another function's loops its own would lack registers.
template <Blocks kBlocks>
HWY_NOINLINE SEPPO_AMX void multiply_block(std::size_t slices, const Word* a, const Word* b, real* sum, std::size_t ld,
                                           Packer& next) {
  constexpr bool kWide = kBlocks == Blocks::wide;
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (kWide) {
    _tile_zero(5);
    _tile_zero(6);
  }
  for (const Word *rows = a, *columns = b; rows < a + slices * kSlice; rows += kSlice, columns += kSlice) {
    load_rows(rows, 0);
    load_columns<kBlocks>(columns, 2);
    multiply_parts<kBlocks>(next);
    load_columns<kBlocks>(columns, 1);
    multiply_parts<kBlocks>(next);
    load_rows(rows, 1);
    multiply_parts<kBlocks>(next);
    load_columns<kBlocks>(columns, 0);
    multiply_parts<kBlocks>(next);
    load_rows(rows, 2);
    multiply_parts<kBlocks>(next);
  }
  for (const Word *rows = a, *columns = b; rows < a + slices * kSlice; rows += kSlice, columns += kSlice) {
    load_rows(rows, 0);
    load_columns<kBlocks>(columns, 0);
    multiply_parts<kBlocks>(next);
  }
  const std::size_t row = ld * sizeof(real);
  _tile_stored(0, sum, row);
  _tile_stored(1, sum + kSide * ld, row);
  if constexpr (kWide) {
    _tile_stored(5, sum + kSide, row);
    _tile_stored(6, sum + kSide * ld + kSide, row);
  }
}

// sum[kSpan, kSpan], its rows ld apart
void multiply_spans(Blocks blocks, std::size_t slices, const Word* a, const Word* b, real* sum, std::size_t ld,
                    Packer& next) {
  if (blocks == Blocks::wide) return multiply_block<Blocks::wide>(slices, a, b, sum, ld, next);
  multiply_block<Blocks::narrow>(slices, a, b, sum, ld, next);
  multiply_block<Blocks::narrow>(slices, a, b + kTile, sum + kSide, ld, next);
}

// c = addend + sum, for the rows and columns that C has of a span
void put_block(real* c, std::size_t ldc, const real* sum, Addend addend, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for_each(cols, [&](std::size_t j, std::size_t n) HWY_ATTR {
      const V s = load(sum + i * kSpan + j, n);
      store(addend.data ? hn::Add(s, load(addend.data + i * addend.ld + j, n)) : s, c + i * ldc + j, n);
    });
}

// The factor with fewer lines is packed in blocks. The other's spans pass by each block one after another.
SEPPO_AMX void AmxGemm(Blocks blocks, std::size_t m, std::size_t n, std::size_t k, Factor a, Factor b, Addend addend,
                       real* c, std::size_t ldc) {
  const Lines rows = {a, m, k, true}, columns = {{b.data, b.col, b.row}, n, k, false};
  const bool rows_pass = m >= n;
  const Lines &staying = rows_pass ? columns : rows, &passing = rows_pass ? rows : columns;
  const std::size_t most = slices(std::min(k, kBlockTerms)) * kSlice;  // of a span
  Word* const memory =
      packing_memory(most * (2 + spans(std::min(staying.lines, kBlockLines))) * sizeof(Word)).as<Word>();
  Word *const here = memory + 2 * most, *now = memory, *then = memory + most;
  configure_tiles(blocks);
  for (std::size_t p = 0; p < k; p += kBlockTerms, addend = {c, ldc}) {
    const std::size_t depth = slices(count(p, k, kBlockTerms));
    for (std::size_t first = 0; first < staying.lines; first += kBlockLines) {
      const std::size_t end = std::min(first + kBlockLines, staying.lines);
      for (std::size_t i = first; i < end; i += kSpan)
        Packer(here + (i - first) / kSpan * depth * kSlice, staying.part(i, kSpan, p, kBlockTerms)).all();
      Packer(now, passing.part(0, kSpan, p, kBlockTerms)).all();
      for (std::size_t j = 0; j < passing.lines; j += kSpan, std::swap(now, then)) {
        Packer next(then, passing.part(j + kSpan, kSpan, p, kBlockTerms));
        for (std::size_t i = first; i < end; i += kSpan) {
          const Word* const stays = here + (i - first) / kSpan * depth * kSlice;
          const std::size_t row = rows_pass ? j : i, col = rows_pass ? i : j;
          const Word *const left = rows_pass ? now : stays, *const right = rows_pass ? stays : now;
          real* const to = c + row * ldc + col;
          const std::size_t height = count(row, m, kSpan), width = count(col, n, kSpan);
          if (!addend.data && height == kSpan && width == kSpan) {  // reading a sum just stored would wait
            multiply_spans(blocks, depth, left, right, to, ldc, next);
          } else {
            alignas(kLine) real sum[kSpan * kSpan];
            multiply_spans(blocks, depth, left, right, sum, kSpan, next);
            put_block(to, ldc, sum, addend.at(row, col), height, width);
          }
        }
        next.all();
      }
    }
  }
  _tile_release();
}

// ---- which blocks -------------------------------------------------------------------------------

// The ticks of the clock that some products of zeros take.
double time_blocks(Blocks blocks) {
  alignas(kLine) static constexpr Word zeros[2 * kSlice] = {};
  alignas(kLine) real sum[kSpan * kSpan];
  Packer nothing;
  configure_tiles(blocks);
  multiply_spans(blocks, 2, zeros, zeros, sum, kSpan, nothing);  // brings the zeros into the cache
  const auto start = __rdtsc();
  for (int i = 0; i < 4; ++i) multiply_spans(blocks, 2, zeros, zeros, sum, kSpan, nothing);
  return static_cast<double>(__rdtsc() - start);
}

SEPPO_AMX Blocks FasterBlocks() {
  constexpr unsigned long long kAgain = 1 << 22;  // about two milliseconds; trying takes ten microseconds
  constexpr double kBenefit = 1.2;                // narrow blocks need it, for they load more
  static thread_local unsigned long long last = 0;
  static thread_local Blocks faster = Blocks::wide;
  if (__rdtsc() - last < kAgain) return faster;
  faster = time_blocks(Blocks::wide) > kBenefit * time_blocks(Blocks::narrow) ? Blocks::narrow : Blocks::wide;
  _tile_release();
  last = __rdtsc();
  return faster;
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {
#ifdef SEPPO_AMX

bool has_amx() {
  static const bool has = [] {
    constexpr unsigned kBfloat16 = 1u << 22, kTiles = 1u << 24;
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl: the system saves tiles if asked to
    unsigned a, b, c, d = 0;
    const bool cpu_has = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kBfloat16) && (d & kTiles);
    const bool may_use_newest = (hwy::SupportedTargets() & HWY_AVX3_DL) != 0;  // the first processors with AMX have it
    return cpu_has && may_use_newest && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return has;
}

AmxBlocks faster_amx_blocks() { return N_AVX3::FasterBlocks(); }

void amx_gemm(AmxBlocks blocks, std::size_t m, std::size_t n, std::size_t k, Factor a, Factor b, Addend addend, real* c,
              std::size_t ldc) {
  N_AVX3::AmxGemm(blocks, m, n, k, a, b, addend, c, ldc);
}

#else

bool has_amx() { return false; }
AmxBlocks faster_amx_blocks() { return AmxBlocks::wide; }

void amx_gemm(AmxBlocks, std::size_t m, std::size_t n, std::size_t k, Factor a, Factor b, Addend addend, real* c,
              std::size_t ldc) {
  own_gemm(m, n, k, a, b, addend, c, ldc);
}

#endif
}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
