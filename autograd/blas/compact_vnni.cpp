// Products with q8 weights by AVX-512 VNNI, one of whose instructions adds 64 products of 8-bit integers to 16 sums of
// 32 bits: four times the multiplications of floats.
#include "compact_vnni.h"

#ifdef SEPPO_VNNI

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 finds its own headers guilty (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include <cpuid.h>
#include <hwy/targets.h>
#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace seppo {
inline namespace SEPPO_ABI {
namespace vnni {
namespace {

#define SEPPO_VNNI_CODE __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define SEPPO_VNNI_INLINE SEPPO_VNNI_CODE inline __attribute__((always_inline))

constexpr std::size_t kColumns = QuantizedPanel::kRows;  // of C, which a panel of W yields

// A row's four 8-bit integers, in all lanes.
SEPPO_VNNI_INLINE __m512i quad(const std::int8_t (&q)[4]) {
  int bits;
  std::memcpy(&bits, q, sizeof bits);
  return _mm512_set1_epi32(bits);
}

// Where a panel comes from. It stays in the cache while further tiles of A pass.
enum class Read { from_memory, from_cache };

// The sums of some rows of A and a panel's columns, one vector for each row.
template <std::size_t kRows>
struct TileSums {
  __m512 of[kRows];

  SEPPO_VNNI_INLINE TileSums(const QuantizedPanel* w, const QuantizedRows<kRows>* a, std::size_t blocks, Read read) {
    for (__m512& sum : of) sum = _mm512_setzero_ps();
    for (std::size_t b = 0; b < blocks; ++b) {
      if (read == Read::from_memory) fetch_ahead(w + b);
      add(w[b], a[b]);
    }
  }

  // With the addend, into those columns of C whose bits are set. `column` is of the panel's first.
  SEPPO_VNNI_INLINE void store(const CompactProduct& p, std::size_t row, std::ptrdiff_t column, __mmask16 columns) {
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::ptrdiff_t to = static_cast<std::ptrdiff_t>((row + r) * p.c.stride) + column;
      if (p.addend.data) {
        const real* const row_of_addend = p.addend.at(row + r, 0) + column;
        of[r] = _mm512_add_ps(of[r], _mm512_maskz_loadu_ps(columns, row_of_addend));
      }
      _mm512_mask_storeu_ps(p.c.data + to, columns, of[r]);
    }
  }

 private:
  SEPPO_VNNI_INLINE static void fetch_ahead(const QuantizedPanel* w) {
    constexpr std::size_t kAhead = 1536, kLine = 64;  // bytes
    const char* const at = reinterpret_cast<const char*>(w) + kAhead;
    for (std::size_t line = 0; line < sizeof *w; line += kLine) _mm_prefetch(at + line, _MM_HINT_T0);
  }

  SEPPO_VNNI_INLINE void add(const QuantizedPanel& w, const QuantizedRows<kRows>& a) {
    __m512i products[kRows];
    for (std::size_t r = 0; r < kRows; ++r) products[r] = _mm512_set1_epi32(a.offset[r]);
    for (std::size_t t = 0; t < QuantizedPanel::kQuads; ++t) {
      const __m512i weights = _mm512_loadu_si512(w.q[t]);
      for (std::size_t r = 0; r < kRows; ++r) products[r] = _mm512_dpbusd_epi32(products[r], weights, quad(a.q[t][r]));
    }
    const __m512 scales = _mm512_loadu_ps(w.scale);
    for (std::size_t r = 0; r < kRows; ++r) {
      const __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(a.scale[r]));
      of[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products[r]), scale, of[r]);
    }
  }
};

// The rows of A whose sums are in registers, from `row` on, with a panel.
template <std::size_t kRows = kTileRows>
SEPPO_VNNI_CODE void multiply_tile(const CompactProduct& p, const QuantizedPanel* w, const std::byte* a,
                                   std::size_t row, std::ptrdiff_t column, __mmask16 columns) {
  if constexpr (kRows > 1)
    if (p.m() - row < kRows) return multiply_tile<kRows - 1>(p, w, a, row, column, columns);
  const auto* const rows = reinterpret_cast<const QuantizedRows<kRows>*>(a);
  const Read read = row == 0 ? Read::from_memory : Read::from_cache;
  TileSums<kRows>(w, rows, p.w.matrix->blocks(), read).store(p, row, column, columns);
}

bool is_available() {
  static const bool is = [] {
    constexpr unsigned kBit = 1u << 11;
    unsigned a, b, c = 0, d;
    return (hwy::SupportedTargets() & HWY_AVX3_DL) && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & kBit);
  }();
  return is;
}

}  // namespace

bool suits(const CompactProduct& p) { return p.w.matrix->format() == WeightFormat::q8 && is_available(); }

// At both ends, a panel may have columns of W that are not asked for.
void multiply(const CompactProduct& p, const std::byte* a) {
  const std::size_t begin = p.w.first, end = begin + p.n();
  const std::size_t row_bytes = packed_row_bytes(*p.w.matrix);
  for (std::size_t panel = begin / kColumns * kColumns; panel < end; panel += kColumns) {
    const std::size_t first = std::max(panel, begin) - panel, last = std::min(panel + kColumns, end) - panel;
    const auto columns = static_cast<__mmask16>((1u << last) - (1u << first));
    const auto column = static_cast<std::ptrdiff_t>(panel) - static_cast<std::ptrdiff_t>(begin);
    for (std::size_t row = 0; row < p.m(); row += kTileRows)
      multiply_tile(p, p.w.matrix->panels_of(panel), a + row * row_bytes, row, column, columns);
  }
}

}  // namespace vnni
}  // namespace SEPPO_ABI
}  // namespace seppo

#endif
