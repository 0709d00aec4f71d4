// Products with a compact weight.
#pragma once

#include "../core/compact_matrix.h"
#include "product.h"

#include <cstddef>
#include <cstdint>

namespace seppo {
inline namespace SEPPO_ABI {

// C = A W^T, with row[c.cols], if it is not null, added to each row, for a weight W [c.cols, a.cols]. Sums are floats
// in double precision too. Up to four rows of A are multiplied by what is stored: bfloat16 numbers by floats, 8-bit
// integers by 8-bit integers, which A's numbers are rounded to, with a scale for each 32. More rows are multiplied by
// the numbers that it stands for, but
// - in q8 on processors with AVX-512 VNNI, where integers are faster for all;
// - in bf16 with AMX in medium precision, which rounds up to 64 rows to bfloat16 numbers and multiplies what is stored.
void multiply_compact(const MatrixOut& c, const MatrixView& a, const CompactRows& weight, const real* row);

// C[m,n] = addend + A[m,k] W[n,k]^T
struct CompactProduct {
  MatrixOut c;
  MatrixView a;
  CompactRows w;
  Addend addend;

  std::size_t m() const { return c.rows; }
  std::size_t n() const { return c.cols; }
  std::size_t k() const { return a.cols; }

  CompactProduct columns(std::size_t first, std::size_t count) const {
    return {c.block(0, first, m(), count), a, w.rows(first, count), addend.from(0, first)};
  }
};

// By the engine that suits it (engine.cpp), on idle threads too.
void compute(const CompactProduct& p);
// Expands some rows of W at a time, and multiplies by these.
void compute_expanded(const CompactProduct& p);

// A block of 32 columns of some rows of A: the number in column t of row r is scale[r] * q[t / 4][r][t % 4], of which
// the largest is 127. The offset makes up for the 128 in each of W's: -128 times the sum of the row's q.
template <std::size_t kRows>
struct QuantizedRows {
  std::int8_t q[QuantizedPanel::kQuads][kRows][4];
  std::int32_t offset[kRows];
  float scale[kRows];
};
// A is packed in tiles of as many rows, the last of those that are left: QuantizedRows, block after block.
constexpr std::size_t kTileRows = 8;
// Of a row of A, as pack_for_compact() packs it.
inline std::size_t packed_row_bytes(const CompactMatrix& w) {
  constexpr std::size_t kFloats = CompactMatrix::kBlock * sizeof(float), kQuantized = sizeof(QuantizedRows<1>);
  return w.blocks() * (w.format() == WeightFormat::q8 ? kQuantized : kFloats);
}

namespace kernels {

// For at most kVeryFewRows rows, of which pack_for_compact() has made `a`, of packed_row_bytes() each.
extern Kernel<void(const CompactProduct& p, const std::byte* a)> compact_dot_rows;
extern Kernel<void(std::byte* to, const CompactProduct& p)> pack_for_compact;

}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
