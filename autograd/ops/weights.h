// What ops read of weights, whose values may be compact: their products and their rows.
#pragma once

#include "../blas/compact_product.h"
#include "../core/compact_matrix.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// y = x W^T + row, if that is not null, for a weight [out, in].
inline void multiply_by_weight(const MatrixOut& y, const MatrixView& x, const Tensor& weight, const real* row) {
  if (const auto rows = compact_rows(weight)) return multiply_compact(y, x, *rows, row);
  multiply_plus_row(y, x, transposed({weight.data(), weight.rows(), weight.cols()}), row);
}

// The rows of a table [rows, d].
class TableRows {
 public:
  explicit TableRows(const Tensor& table)
      : compact_(compact_rows(table)), data_(compact_ ? nullptr : table.data()), cols_(table.cols()) {
    if (compact_) row_.resize(cols_);
  }

  // Valid until the next call.
  const real* at(int id) {
    const auto row = static_cast<std::size_t>(id);
    if (!compact_) return data_ + row * cols_;
    compact_->matrix->expand(compact_->first + row, row_.data());
    return row_.data();
  }

 private:
  std::optional<CompactRows> compact_;
  const real* data_;
  std::size_t cols_;
  std::vector<real> row_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
