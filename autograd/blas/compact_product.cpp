// The entrance to products with compact weights, and the way without kernels of their own.
#include "compact_product.h"

#include "../core/check.h"
#include "../core/parallel.h"

namespace seppo {
inline namespace SEPPO_ABI {

void multiply_compact(const MatrixOut& c, const MatrixView& a, const CompactRows& weight, const real* row) {
  const std::size_t k = weight.matrix->cols();
  check(a.cols == k && c.rows == a.rows && c.cols == weight.count, "multiply: C [", c.rows, ",", c.cols,
        "] is not the product of A [", a.rows, ",", a.cols, "] and a weight [", weight.count, ",", k, "]");
  compute(CompactProduct{c, a, weight, {row, 0}});
}

// The pieces are always the same: the bytes of their products may depend on how many rows are expanded.
void compute_expanded(const CompactProduct& p) {
  constexpr std::size_t kRows = 256;
  parallel_for(0, p.n(), kRows, [&](std::size_t first, std::size_t last) {
    static thread_local Memory memory;  // not scratch_memory(), which the product uses
    real* const expanded = at_least(memory, kRows * p.k() * sizeof(real)).as<real>();
    const CompactProduct part = p.columns(first, last - first);
    for (std::size_t i = 0; i < part.n(); ++i) part.w.matrix->expand(part.w.first + i, expanded + i * p.k());
    compute(Product{part.c, part.a, transposed({expanded, part.n(), p.k()}), part.addend});
  });
}

}  // namespace SEPPO_ABI
}  // namespace seppo
