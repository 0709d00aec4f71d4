// Scaled additions, copies and sums of arrays and of matrices, row by row. Plain loops where the compiler vectorises
// them as well as we would.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/arrays.cpp"
#include <hwy/foreach_target.h>

#include "../core/simd-inl.h"
#include "kernels.h"

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

void axpy(real* y, real beta, const real* x, real factor, std::size_t n) {
  if (beta == 0)
    for (std::size_t i = 0; i < n; ++i) y[i] = factor * x[i];
  else
    for (std::size_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

// A strip of columns one vector wide at a time, down all rows.
void add_column_sums(real* sums, const real* x, std::size_t rows, std::size_t cols) {
  for_each(cols, [&](std::size_t j, std::size_t count) HWY_ATTR {
    V total = hn::Zero(D());
    for (std::size_t i = 0; i < rows; ++i) total = hn::Add(total, load(x + i * cols + j, count));
    accumulate(total, 1, sums + j, count);
  });
}

void copy_rows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for_each(cols, [&](std::size_t j, std::size_t n) HWY_ATTR { store(load(x + i * ldx + j, n), y + i * ldy + j, n); });
}

void add_rows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) y[i * ldy + j] += x[i * ldx + j];
}

double sum(const real* x, std::size_t n) {
  DoubleSum sum;
  for_each(n, [&](std::size_t i, std::size_t count) HWY_ATTR { sum.add(load(x + i, count)); });
  return sum.total();
}

double squared_norm(const real* x, std::size_t n) {
  DoubleSum sum;
  for_each(n, [&](std::size_t i, std::size_t count) HWY_ATTR { sum.add_square(load(x + i, count)); });
  return sum.total();
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {
SEPPO_KERNEL(axpy);
SEPPO_KERNEL(add_column_sums);
SEPPO_KERNEL(copy_rows);
SEPPO_KERNEL(add_rows);
SEPPO_KERNEL(sum);
SEPPO_KERNEL(squared_norm);
}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
