// A product as multiply() passes it on, and the engines that compute it: a kernel for small products, kernels for few
// rows, AMX (amx.h), and OpenBLAS.
#pragma once

#include "../core/kernel.h"
#include "../core/memory.h"
#include "multiply.h"

#include <cstddef>

namespace seppo {
inline namespace SEPPO_ABI {

// What a product is added to: nothing (null), what C holds, or one row for all rows (stride 0).
struct Addend {
  const real* data = nullptr;
  std::size_t stride = 0;

  const real* at(std::size_t row, std::size_t col) const { return data + row * stride + col; }
  Addend from(std::size_t row, std::size_t col) const { return data ? Addend{at(row, col), stride} : Addend{}; }
};

// C[m,n] = addend + A[m,k] B[k,n]
struct Product {
  MatrixOut c;
  MatrixView a, b;
  Addend addend;

  std::size_t m() const { return c.rows; }
  std::size_t n() const { return c.cols; }
  std::size_t k() const { return a.cols; }

  Product rows(std::size_t first, std::size_t count) const {
    return {c.block(first, 0, count, n()), a.block(first, 0, count, k()), b, addend.from(first, 0)};
  }
  Product columns(std::size_t first, std::size_t count) const {
    return {c.block(0, first, m(), count), a, b.block(0, first, k(), count), addend.from(0, first)};
  }
  // A part of the sum; those after the first add to C.
  Product terms(std::size_t first, std::size_t count) const {
    const Addend sum_so_far = first == 0 ? addend : Addend{c.data, c.stride};
    return {c, a.block(0, first, m(), count), b.block(first, 0, count, n()), sum_so_far};
  }
};

// By the engine that suits it (engine.cpp), on idle threads too.
void compute(const Product& p);

namespace openblas {

// On one thread, with kernels for this processor.
void gemm(const Product& p);

}  // namespace openblas

namespace kernels {

extern Kernel<void(const Product& p)> small_gemm;
// For at most kVeryFewRows rows, with A's rows and B's columns dense: reads B once.
constexpr std::size_t kVeryFewRows = 4;
extern Kernel<void(const Product& p)> dot_rows;
// For at most kFewRows rows, of which pack_few_rows() has made A, and with B's columns dense: reads B once.
constexpr std::size_t kFewRows = 64;
extern Kernel<void(const Product& p)> few_rows;
constexpr std::size_t kLine = 64 / sizeof(real);  // elements of a cache line
constexpr std::size_t few_rows_stride(std::size_t rows) { return (rows + kLine - 1) / kLine * kLine; }
// A's columns, one after another, few_rows_stride(rows) elements apart; returns the same matrix there.
extern Kernel<MatrixView(real* to, const MatrixView& a)> pack_few_rows;

}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
