// Products of few rows with bf16 weights on AMX, in medium precision: C^T = W A^T. Rows of the weight are rows of tiles
// as they are stored, so that only A is packed: for each 32 of its rows, k-block after k-block, two tiles, whose words
// hold adjacent terms.
#include "amx.h"

#ifdef SEPPO_BFLOAT16

#include "amx_tiles-inl.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace amx {
namespace {

constexpr std::size_t kWordsOfBlock = kBlockSize<1>;
static_assert(kPanel == CompactMatrix::kPaddedRows && kBlockDepth == CompactMatrix::kBlock);

SEPPO_BFLOAT16_INLINE __mmask16 first_lanes(std::size_t n) {
  return static_cast<__mmask16>((1u << std::min(n, kSide)) - 1);
}

// A tile of 16 rows of A, from the given row and term on, with zeros beyond its end.
SEPPO_BFLOAT16_CODE void pack_tile(Word* to, const MatrixView& a, std::size_t row, std::size_t term) {
  const std::size_t rows = count(row, a.rows, kSide), terms = count(term, a.cols, kBlockDepth);
  alignas(kLine) real words[kSide][kSide] = {};
  for (std::size_t r = 0; r < rows; ++r) {
    const real* const from = a.at(row + r, term);
    const __m512 low = _mm512_maskz_loadu_ps(first_lanes(terms), from);
    const __m512 high = _mm512_maskz_loadu_ps(first_lanes(terms - std::min(terms, kSide)), from + kSide);
    _mm512_store_si512(words[r], reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)));
  }
  for (std::size_t word = 0; word < kSide; word += kQuad) {
    __m512 of_all_rows[kQuad];
    load_transposed(of_all_rows, words[0] + word, kSide);
    for (std::size_t i = 0; i < kQuad; ++i) _mm512_store_ps(to + (word + i) * kSide, of_all_rows[i]);
  }
}

// Tiles 0, 1, 5 and 6 are C^T, 2 and 3 rows of the weight, 4 and 7 rows of A.
SEPPO_BFLOAT16_CODE void multiply_panel(const std::uint16_t* w, std::size_t blocks, const Word* a,
                                        real (&sums)[4][kTile]) {
  const std::size_t row = blocks * kBlockDepth;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(5);
  _tile_zero(6);
  for (std::size_t block = 0; block < blocks; ++block) {
    _tile_loadd(2, w, row * sizeof *w);
    _tile_loadd(3, w + kSide * row, row * sizeof *w);
    _tile_loadd(4, a, kLine);
    _tile_loadd(7, a + kTile, kLine);
    _tile_dpbf16ps(0, 2, 4);
    _tile_dpbf16ps(1, 3, 4);
    _tile_dpbf16ps(5, 2, 7);
    _tile_dpbf16ps(6, 3, 7);
    w += kBlockDepth;
    a += kWordsOfBlock;
  }
  _tile_stored(0, sums[0], kLine);
  _tile_stored(1, sums[1], kLine);
  _tile_stored(5, sums[2], kLine);
  _tile_stored(6, sums[3], kLine);
}

// Up to 16 rows of C = addend + sum^T, in those of 16 columns whose bits are set. `column` is that of the first.
SEPPO_BFLOAT16_CODE void put_transposed(const CompactProduct& p, const real (&sum)[kTile], std::size_t row,
                                        std::ptrdiff_t column, __mmask16 columns) {
  const std::size_t end = std::min(p.m(), row + kSide);
  for (std::size_t i = row; i < end; i += kQuad) {
    __m512 rows[kQuad];
    load_transposed(rows, sum + (i - row), kSide);
    for (std::size_t r = 0; r < std::min(kQuad, end - i); ++r) {
      if (p.addend.data)
        rows[r] = _mm512_add_ps(rows[r], _mm512_maskz_loadu_ps(columns, p.addend.at(i + r, 0) + column));
      _mm512_mask_storeu_ps(p.c.at(i + r, 0) + column, columns, rows[r]);
    }
  }
}

// Those of 16 rows of the weight, from `first` on, that are asked for.
__mmask16 asked_for(const CompactProduct& p, std::size_t first) {
  const std::size_t begin = std::max(p.w.first, first), end = std::min(p.w.first + p.n(), first + kSide);
  return begin < end ? static_cast<__mmask16>((1u << (end - first)) - (1u << (begin - first))) : __mmask16{0};
}

}  // namespace

bool suits_few_rows(const CompactProduct& p) {
  return p.w.matrix->format() == WeightFormat::bf16 && matmul_precision() == MatmulPrecision::medium &&
         p.m() <= kernels::kFewRows && p.a.col_stride == 1 &&
         p.m() * p.n() * p.k() >= least_size(/*has_full_tiles=*/false).multiplications && is_available();
}

std::size_t few_rows_size(const CompactProduct& p) {
  return panels(p.m()) * p.w.matrix->blocks() * kWordsOfBlock * sizeof(Word);
}

void pack_few_rows(std::uint32_t* packed, const CompactProduct& p) {
  for (std::size_t row = 0; row < p.m(); row += kPanel)
    for (std::size_t term = 0; term < p.k(); term += kBlockDepth)
      for (std::size_t tile = 0; tile < kPanel; tile += kSide, packed += kTile)
        pack_tile(packed, p.a, row + tile, term);
}

void few_rows(const CompactProduct& p, const std::uint32_t* packed) {
  const std::size_t blocks = p.w.matrix->blocks();
  configure_tiles();
  for (std::size_t w = p.w.first / kPanel * kPanel; w < p.w.first + p.n(); w += kPanel) {
    const Word* a = packed;
    for (std::size_t row = 0; row < p.m(); row += kPanel, a += blocks * kWordsOfBlock) {
      alignas(kLine) real sums[4][kTile];
      multiply_panel(p.w.matrix->bfloat16_row(w), blocks, a, sums);
      for (std::size_t tile = 0; tile < 4; ++tile) {
        const std::size_t first = w + tile % 2 * kSide;
        const auto column = static_cast<std::ptrdiff_t>(first) - static_cast<std::ptrdiff_t>(p.w.first);
        put_transposed(p, sums[tile], row + tile / 2 * kSide, column, asked_for(p, first));
      }
    }
  }
  release_tiles();
}

}  // namespace amx
}  // namespace SEPPO_ABI
}  // namespace seppo

#endif
