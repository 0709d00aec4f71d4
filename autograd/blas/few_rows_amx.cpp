// Products of few rows, as in decoding, on the matrix unit (amx-inl.h): C^T = B A^T, which takes B as it lies. B is
// read and packed once, a slice at a time, so that what is packed stays in the first-level cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/blas/few_rows_amx.cpp"
#include <hwy/foreach_target.h>

#include "amx-inl.h"

#include <cstdlib>

#if defined(SEPPO_AMX) && HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

// Tiles 0 and 1 sum x0 y0, and 2 and 3 the other products, whose digits would be lost among those of x0 y0; 4 is a part
// of B's lines, 5 and 6 of A's. One tile of A's lines does without 1, 3 and 6.
SEPPO_AMX_INLINE void load_b(const Word* slice, std::size_t part) { _tile_loadd(4, slice + part * kTile, kLine); }
template <std::size_t kTiles>
SEPPO_AMX_INLINE void load_a(const Word* slice, std::size_t part) {
  _tile_loadd(5, slice + part * 2 * kTile, kLine);
  if constexpr (kTiles == 2) _tile_loadd(6, slice + part * 2 * kTile + kTile, kLine);
}
template <std::size_t kTiles>
SEPPO_AMX_INLINE void multiply_largest() {
  _tile_dpbf16ps(0, 4, 5);
  if constexpr (kTiles == 2) _tile_dpbf16ps(1, 4, 6);
}
template <std::size_t kTiles>
SEPPO_AMX_INLINE void multiply_others() {
  _tile_dpbf16ps(2, 4, 5);
  if constexpr (kTiles == 2) _tile_dpbf16ps(3, 4, 6);
}

// B's slices, packed in the order they are multiplied in: those of the first lines, as many as a tile has rows, then of
// the next. Vectors pack some of a later one between the matrix unit's instructions.
class Slices {
 public:
  explicit Slices(const Lines& b) : b_(b) {
    for (std::size_t i = 0; i < kAhead; ++i) {
      begin_next();
      while (rows_ > 0) pack_some();
    }
  }

  const Word* take() {
    const Word* const slice = ring_[(begun_ - kAhead) % kRing];
    begin_next();
    return slice;
  }
  HWY_INLINE void pack_some() {
    if (rows_ == 0) return;
    const std::size_t ld = b_.from.row;
    pack_rows<1>(to_, from_, from_ + kSide, ld);
    for (std::size_t i = kSide; i < kSide + kRows; ++i) {  // into the second-level cache
      _mm_prefetch(from_ + i * ld, _MM_HINT_T1);
      _mm_prefetch(from_ + i * ld + kSide, _MM_HINT_T1);
    }
    rows_ -= kRows, to_ += kRows * kSide, from_ += kRows * ld;
  }

 private:
  static constexpr std::size_t kAhead = 2, kRing = 4;  // what was just stored cannot be loaded into a tile at once

  void begin_next() {
    const Lines slice = b_.part(line_, kSide, term_, kStep);
    to_ = ring_[begun_++ % kRing], from_ = slice.from.data;
    rows_ = slice.lines == kSide && slice.terms == kStep ? kSide : 0;
    if (rows_ == 0) Packer<1>(to_, slice).all();
    term_ += kStep;
    if (term_ >= b_.terms) line_ += kSide, term_ = 0;
  }

  alignas(kLine) Word ring_[kRing][slice_size(1)];
  const Lines b_;
  std::size_t line_ = 0, term_ = 0;  // of the slice to begin next
  std::size_t begun_ = 0;            // slices
  Word* to_ = nullptr;               // of the rows that remain to be packed
  const real* from_ = nullptr;
  std::size_t rows_ = 0;
};

// sums[2][kTiles] of so many slices. Within another function's loops its own would lack registers.
template <std::size_t kTiles>
HWY_NOINLINE SEPPO_AMX void multiply_lines(std::size_t slices, const Word* a, Slices& b, real* sums) {
  _tile_zero(0);
  _tile_zero(2);
  if constexpr (kTiles == 2) {
    _tile_zero(1);
    _tile_zero(3);
  }
  for (const Word* const end = a + slices * kSlice; a < end; a += kSlice) {
    const Word* const now = b.take();
    load_b(now, 0);
    load_a<kTiles>(a, 2);
    multiply_others<kTiles>();
    b.pack_some();
    load_a<kTiles>(a, 1);
    multiply_others<kTiles>();
    b.pack_some();
    load_b(now, 1);
    multiply_others<kTiles>();
    b.pack_some();
    load_a<kTiles>(a, 0);
    multiply_others<kTiles>();
    b.pack_some();
    load_b(now, 2);
    multiply_others<kTiles>();
    load_b(now, 0);
    multiply_largest<kTiles>();
  }
  _tile_stored(0, sums, kLine);
  _tile_stored(2, sums + kTiles * kTile, kLine);
  if constexpr (kTiles == 2) {
    _tile_stored(1, sums + kTile, kLine);
    _tile_stored(3, sums + 3 * kTile, kLine);
  }
}

// c[rows, columns] = addend + sums^T
template <std::size_t kTiles>
void put_lines(real* c, std::size_t ldc, real* sums, Addend addend, std::size_t rows, std::size_t columns) {
  alignas(kLine) real transposed[kTile];
  for (std::size_t t = 0; t < kTiles; ++t, sums += kTile) {
    for (std::size_t i = 0; i < kTile; i += kSide)
      hn::Store(hn::Add(hn::Load(D(), sums + i), hn::Load(D(), sums + kTiles * kTile + i)), D(), sums + i);
    Transpose(transposed, kSide, sums, kSide, kSide, kSide);
    for (std::size_t i = 0; i < count(t * kSide, rows, kSide); ++i) {
      const V sum = hn::Load(D(), transposed + i * kSide);
      const std::size_t row = t * kSide + i;
      store(addend.data ? hn::Add(sum, load(addend.at(row, 0).data, columns)) : sum, c + row * ldc, columns);
    }
  }
}

// For as many rows of A as kTiles tiles have columns.
template <std::size_t kTiles>
void Multiply(std::size_t m, std::size_t n, std::size_t k, const Word* a, const Lines& b, Addend addend, real* c,
              std::size_t ldc) {
  alignas(kLine) real sums[2 * kTiles * kTile];
  Slices packed(b);
  for (std::size_t j = 0; j < n; j += kSide) {
    multiply_lines<kTiles>(slices(k), a, packed, sums);
    put_lines<kTiles>(c + j, ldc, sums, addend.at(0, j), m, count(j, n, kSide));
  }
}

SEPPO_AMX void AmxFewRows(std::size_t m, std::size_t n, std::size_t k, const Word* a, const real* b, std::size_t ldb,
                          Addend addend, real* c, std::size_t ldc) {
  const Lines lines = {{b, ldb, 1}, n, k, true};
  configure_tiles<7>();
  for (std::size_t i = 0; i < m; i += kSpan, a += slices(k) * kSlice) {
    const std::size_t rows = count(i, m, kSpan);
    const auto multiply = rows <= kSide ? Multiply<1> : Multiply<2>;
    multiply(rows, n, k, a, lines, addend.at(i, 0), c + i * ldc, ldc);
  }
  _tile_release();
}

void AmxPackRows(Word* to, std::size_t m, std::size_t k, const real* a, std::size_t lda) {
  const Lines lines = {{a, lda, 1}, m, k, false};
  for (std::size_t i = 0; i < m; i += kSpan, to += slices(k) * kSlice) Packer(to, lines.part(i, kSpan, 0, k)).all();
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {
#ifdef SEPPO_AMX

std::size_t amx_packed_rows(std::size_t m, std::size_t k) {
  return N_AVX3::spans(m) * N_AVX3::slices(k) * N_AVX3::kSlice * sizeof(std::uint32_t);
}

void amx_pack_rows(std::uint32_t* packed, std::size_t m, std::size_t k, const real* a, std::size_t lda) {
  N_AVX3::AmxPackRows(packed, m, k, a, lda);
}

void amx_few_rows(std::size_t m, std::size_t n, std::size_t k, const std::uint32_t* packed, const real* b,
                  std::size_t ldb, Addend addend, real* c, std::size_t ldc) {
  N_AVX3::AmxFewRows(m, n, k, packed, b, ldb, addend, c, ldc);
}

#else  // has_amx() is false: nobody may call these

std::size_t amx_packed_rows(std::size_t, std::size_t) { std::abort(); }
void amx_pack_rows(std::uint32_t*, std::size_t, std::size_t, const real*, std::size_t) { std::abort(); }
void amx_few_rows(std::size_t, std::size_t, std::size_t, const std::uint32_t*, const real*, std::size_t, Addend, real*,
                  std::size_t) {
  std::abort();
}

#endif
}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
