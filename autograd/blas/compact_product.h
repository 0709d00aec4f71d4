// Products with a compact weight.
#pragma once

#include "../core/compact_matrix.h"
#include "product.h"

#include <cstddef>
#include <cstdint>

namespace seppo {
inline namespace SEPPO_ABI {

// C = A W^T, with row[c.cols], if it is not null, added to each row, for a weight W [c.cols, a.cols]. Up to four rows
// of A are multiplied by what is stored: bfloat16 numbers by floats, 8-bit integers by 16-bit ones, with a scale for
// each 32 numbers of A, and the sums are floats in double precision too. More rows are multiplied by the numbers that
// it stands for.
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

namespace kernels {

// 32 numbers of a row of A, scale * q[i].
struct ShortBlock {
  float scale;
  std::int16_t q[CompactMatrix::kBlock];
};

// For at most kVeryFewRows rows, of which pack_for_compact() has made `a`, in compact_size(p) bytes.
extern Kernel<void(const CompactProduct& p, const std::byte* a)> compact_dot_rows;
extern Kernel<void(std::byte* to, const CompactProduct& p)> pack_for_compact;
inline std::size_t compact_size(const CompactProduct& p) {
  const bool is_float = p.w.matrix->format() == WeightFormat::bf16;
  return p.m() * p.w.matrix->blocks() * (is_float ? CompactMatrix::kBlock * sizeof(float) : sizeof(ShortBlock));
}

}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
