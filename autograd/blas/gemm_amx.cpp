// Large products in single precision on the matrix unit (amx-inl.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/blas/gemm_amx.cpp"
#include <hwy/foreach_target.h>

#include "amx-inl.h"
#include "scratch.h"

#include <utility>

#ifdef SEPPO_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(SEPPO_AMX) && HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

// Of the factor with fewer lines a block of about so many numbers is packed at a time: in six bytes each they fill half
// of the second-level cache, which sees much else pass by.
constexpr std::size_t kBlock = 320 * 512;
// A C of more numbers is not taken to be in that cache.
constexpr std::size_t kNearC = 256 * 256;

// The terms of a block: half as many as could be, if all lines fit in then.
std::size_t block_terms(std::size_t lines, std::size_t k) {
  const std::size_t most = std::min<std::size_t>(k, 512), half = 256;
  return lines * most > kBlock && lines * half <= kBlock ? half : most;
}

// The lines of a block: all of them, or the parts are alike, for the other factor is packed again for each.
std::size_t block_lines(std::size_t lines, std::size_t terms) {
  const std::size_t parts = (lines * terms + kBlock - 1) / kBlock;
  return (spans(lines) + parts - 1) / parts * kSpan;
}

// ---- multiplying --------------------------------------------------------------------------------

// Tiles 0 and 1 are C, 2 and 3 a part of A's rows, 4 the same part of B's columns, a tile's width of them. Wide blocks
// have in 5 and 6 more of C and in 7 more of B, and so load less. But a core that also runs another thread has few
// registers for tiles: with all eight in use each instruction waits for the one before, and narrow blocks are almost
// twice as fast. Both add up the same numbers in the same order.
using Blocks = AmxBlocks;

SEPPO_AMX void configure(Blocks blocks) { blocks == Blocks::narrow ? configure_tiles<5>() : configure_tiles<8>(); }

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
SEPPO_AMX_INLINE void multiply_parts(Packer<>& next) {
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
                                           Packer<>& next) {
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
                    Packer<>& next) {
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

// While a block is multiplied its place in C comes into the second-level cache: stores of tiles would wait for it.
HWY_INLINE void fetch_block(const real* c, std::size_t ldc, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; j += kSide) _mm_prefetch(c + i * ldc + j, _MM_HINT_T1);
}

// The factor with fewer lines is packed in blocks. The other's spans pass by each block one after another.
SEPPO_AMX void AmxGemm(Blocks blocks, std::size_t m, std::size_t n, std::size_t k, Factor a, Factor b, Addend addend,
                       real* c, std::size_t ldc) {
  const Lines rows = {a, m, k, true}, columns = {{b.data, b.col, b.row}, n, k, false};
  const bool rows_pass = m >= n;
  const Lines &staying = rows_pass ? columns : rows, &passing = rows_pass ? rows : columns;
  const std::size_t terms = block_terms(staying.lines, k), lines = block_lines(staying.lines, terms);
  const std::size_t most = slices(terms) * kSlice;  // of a span
  Word* const memory = packing_memory(most * (2 + spans(lines)) * sizeof(Word)).as<Word>();
  Word *const here = memory + 2 * most, *now = memory, *then = memory + most;
  const bool is_far = m * n > kNearC;
  configure(blocks);
  for (std::size_t p = 0; p < k; p += terms, addend = {c, ldc}) {
    const std::size_t depth = slices(count(p, k, terms));
    for (std::size_t first = 0; first < staying.lines; first += lines) {
      const std::size_t end = std::min(first + lines, staying.lines);
      for (std::size_t i = first; i < end; i += kSpan)
        Packer(here + (i - first) / kSpan * depth * kSlice, staying.part(i, kSpan, p, terms)).all();
      Packer(now, passing.part(0, kSpan, p, terms)).all();
      for (std::size_t j = 0; j < passing.lines; j += kSpan, std::swap(now, then)) {
        Packer next(then, passing.part(j + kSpan, kSpan, p, terms));
        for (std::size_t i = first; i < end; i += kSpan) {
          const Word* const stays = here + (i - first) / kSpan * depth * kSlice;
          const std::size_t row = rows_pass ? j : i, col = rows_pass ? i : j;
          const Word *const left = rows_pass ? now : stays, *const right = rows_pass ? stays : now;
          real* const to = c + row * ldc + col;
          const std::size_t height = count(row, m, kSpan), width = count(col, n, kSpan);
          if (is_far) fetch_block(to, ldc, height, width);
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
  Packer<> nothing;
  configure(blocks);
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
