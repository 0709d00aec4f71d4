// What both kinds of products on AMX have in common: tiles, how many parts numbers have, and storing sums.
#pragma once

#include "../core/matmul_precision.h"
#include "amx_packing-inl.h"
#include "product.h"

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace seppo {
inline namespace SEPPO_ABI {
namespace amx {
namespace {

// The size from which on AMX is worth its packing, which takes longer than that for vector code: the more parts, the
// longer, and longest for tiles that are not full.
struct LeastSize {
  std::size_t side, multiplications;
};
LeastSize least_size(bool has_full_tiles) {
  if (matmul_precision() == MatmulPrecision::medium) return {32, std::size_t{1} << (has_full_tiles ? 16 : 18)};
  return {64, std::size_t{1} << 21};
}

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

// p.c = p.addend + sum, for those rows and columns of two panels that lie within C
SEPPO_AMX_CODE void put_sum(const Product& p, const real* sum, std::size_t stride) {
  for (std::size_t i = 0; i < p.m(); ++i)
    for (std::size_t j = 0; j < p.n(); j += kSide) {
      const auto lanes = static_cast<__mmask16>((1u << count(j, p.n(), kSide)) - 1);
      __m512 s = _mm512_load_ps(sum + i * stride + j);
      if (p.addend.data) s = _mm512_add_ps(s, _mm512_maskz_loadu_ps(lanes, p.addend.at(i, j)));
      _mm512_mask_storeu_ps(p.c.at(i, j), lanes, s);
    }
}

// Calls f with the number of parts, a compile-time constant.
template <class F>
void with_parts(const F& f) {
  switch (matmul_precision()) {
    case MatmulPrecision::highest:
      return f(std::integral_constant<std::size_t, 3>());
    case MatmulPrecision::high:
      return f(std::integral_constant<std::size_t, 2>());
    case MatmulPrecision::medium:
      return f(std::integral_constant<std::size_t, 1>());
  }
}

}  // namespace
}  // namespace amx
}  // namespace SEPPO_ABI
}  // namespace seppo
