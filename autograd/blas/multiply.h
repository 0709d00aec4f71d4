// Matrix products by views, the only door to BLAS: a kernel of our own computes small ones and those of few rows, AMX
// large ones where there is AMX, AVX-512 BF16 those in medium precision, OpenBLAS the rest (engine.cpp). OpenBLAS runs
// on one thread here, whatever its environment variables say: parallelism is ours (parallel.h), so results do not
// depend on thread counts.
//
//   const real x[2 * 3] = {1, 2, 3, 4, 5, 6};       // [2, 3]
//   const real weight[2 * 3] = {1, 0, 0, 0, 1, 0};  // [out, in] = [2, 3]
//   real y[2 * 2];
//   multiply({y, 2, 2}, {x, 2, 3}, transposed({weight, 2, 3}));  // y = x weight^T = {1, 2, 4, 5}
#pragma once

#include "../core/real.h"

#include <cstddef>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {

// A matrix that a product reads. The elements of a row are dense, or of a column if it is transposed; rows, or columns,
// begin `stride` elements apart.
struct MatrixView {
  const real* data;
  std::size_t rows, cols;
  std::size_t row_stride, col_stride;  // from one row to the next, and from one column; one of them is 1

  MatrixView(const real* x, std::size_t n_rows, std::size_t n_cols) : MatrixView(x, n_rows, n_cols, n_cols) {}
  MatrixView(const real* x, std::size_t n_rows, std::size_t n_cols, std::size_t stride)
      : MatrixView(x, n_rows, n_cols, stride, 1) {}
  MatrixView(const real* x, std::size_t n_rows, std::size_t n_cols, std::size_t by_row, std::size_t by_col)
      : data(x), rows(n_rows), cols(n_cols), row_stride(by_row), col_stride(by_col) {}

  const real* at(std::size_t row, std::size_t col) const { return data + row * row_stride + col * col_stride; }
  MatrixView block(std::size_t row, std::size_t col, std::size_t n_rows, std::size_t n_cols) const {
    return {at(row, col), n_rows, n_cols, row_stride, col_stride};
  }
};

// The same elements with rows and columns exchanged; nothing is copied.
inline MatrixView transposed(const MatrixView& x) { return {x.data, x.cols, x.rows, x.col_stride, x.row_stride}; }

// A matrix that a product writes, with dense rows that begin `stride` elements apart.
struct MatrixOut {
  real* data;
  std::size_t rows, cols;
  std::size_t stride;

  MatrixOut(real* x, std::size_t n_rows, std::size_t n_cols) : MatrixOut(x, n_rows, n_cols, n_cols) {}
  MatrixOut(real* x, std::size_t n_rows, std::size_t n_cols, std::size_t row_stride)
      : data(x), rows(n_rows), cols(n_cols), stride(row_stride) {}

  real* at(std::size_t row, std::size_t col) const { return data + row * stride + col; }
  MatrixOut block(std::size_t row, std::size_t col, std::size_t n_rows, std::size_t n_cols) const {
    return {at(row, col), n_rows, n_cols, stride};
  }
};

enum class Accumulate { no, yes };

// C = A B, or C += A B. Without accumulation, C may be uninitialised. Sizes of zero are allowed. NaN spoils its row or
// column of C; so does an infinite number, which may become NaN there. Throws ShapeError for sizes that do not fit
// together, and where OpenBLAS is to compute with sizes beyond its 32-bit integers.
void multiply(const MatrixOut& c, const MatrixView& a, const MatrixView& b, Accumulate accumulate = Accumulate::no);

// C = A B, with row[c.cols], if it is not null, added to each row.
void multiply_plus_row(const MatrixOut& c, const MatrixView& a, const MatrixView& b, const real* row);

// What computes products on this processor, and what a lower precision (core/matmul_precision.h) means on it:
//   "AMX, own kernels, OpenBLAS; high has two bfloat16 parts; medium has one"
//   "AVX-512 BF16, own kernels, OpenBLAS; high is highest; medium has one bfloat16 part"
//   "own kernels, OpenBLAS; high is highest; medium is highest"
std::string blas_description();

}  // namespace SEPPO_ABI
}  // namespace seppo
