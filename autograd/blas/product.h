// A product as the files behind gemm() pass it on, and what each of them computes; for amx.cpp see amx.h.
#pragma once

#include "../core/kernel.h"
#include "../core/memory.h"

#include <cstddef>

namespace seppo {
inline namespace SEPPO_ABI {

// A matrix with any strides, so that its transpose is free; one of them is 1.
struct MatrixView {
  const real* data;
  std::size_t row, col;
  MatrixView at(std::size_t i, std::size_t j) const { return {data + i * row + j * col, row, col}; }
  MatrixView transposed() const { return {data, col, row}; }
};

// What a product is added to: nothing (null), what C holds, or one row for all rows (ld = 0).
struct Addend {
  const real* data = nullptr;
  std::size_t ld = 0;
  Addend at(std::size_t i, std::size_t j) const { return {data ? data + i * ld + j : nullptr, ld}; }
};

// C[m,n] = addend + A[m,k] B[k,n]
struct Product {
  std::size_t m, n, k;
  MatrixView a, b;
  Addend addend;
  real* c;
  std::size_t ldc;

  Product rows(std::size_t first, std::size_t count) const {
    return {count, n, k, a.at(first, 0), b, addend.at(first, 0), c + first * ldc, ldc};
  }
  Product columns(std::size_t first, std::size_t count) const {
    return {m, count, k, a, b.at(0, first), addend.at(0, first), c + first, ldc};
  }
  // A part of the sum; those after the first add to C.
  Product terms(std::size_t first, std::size_t count) const {
    return {m, n, count, a.at(0, first), b.at(first, 0), first == 0 ? addend : Addend{c, ldc}, c, ldc};
  }
};

namespace openblas {

// On one thread, with kernels for this processor.
void gemm(const Product& p);

}  // namespace openblas

namespace kernels {

extern Kernel<void(const Product& p)> small_gemm;
// For at most four rows, with A's rows and B's columns dense: reads B once.
extern Kernel<void(const Product& p)> dot_rows;
// For at most kFewRows rows, of which pack_few_rows() has made A, and with B's columns dense: reads B once.
constexpr std::size_t kFewRows = 64;
extern Kernel<void(const Product& p)> few_rows;
// Into k columns of few_rows_ld(m) elements.
extern Kernel<MatrixView(real* to, const real* a, std::size_t lda, std::size_t m, std::size_t k)> pack_few_rows;
constexpr std::size_t kLine = 64 / sizeof(real);  // of a cache
constexpr std::size_t few_rows_ld(std::size_t m) { return (m + kLine - 1) / kLine * kLine; }

}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
