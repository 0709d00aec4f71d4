// What both kinds of products on AMX have in common: tiles, and how many parts numbers have.
#pragma once

#include "../core/matmul_precision.h"
#include "bfloat16_panels-inl.h"
#include "product.h"

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace seppo {
inline namespace SEPPO_ABI {
namespace amx {
namespace {

using namespace bfloat16;

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

SEPPO_BFLOAT16_CODE void configure_tiles() {
  static constexpr TileShapes shapes;  // static, as the compiler assumes that only eight bytes are read
  _tile_loadconfig(&shapes);
}
SEPPO_BFLOAT16_CODE void release_tiles() { _tile_release(); }

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
