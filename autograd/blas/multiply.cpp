// The entrance to products: checks that the sizes of the views fit together.
#include "multiply.h"

#include "../core/check.h"
#include "product.h"

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

void check_sizes(const MatrixOut& c, const MatrixView& a, const MatrixView& b) {
  check(a.cols == b.rows, "multiply: inner sizes differ: A [", a.rows, ",", a.cols, "], B [", b.rows, ",", b.cols, "]");
  check(c.rows == a.rows && c.cols == b.cols, "multiply: C [", c.rows, ",", c.cols, "] is not the product of A [",
        a.rows, ",", a.cols, "] and B [", b.rows, ",", b.cols, "]");
}

}  // namespace

void multiply(const MatrixOut& c, const MatrixView& a, const MatrixView& b, Accumulate accumulate) {
  check_sizes(c, a, b);
  const Addend addend = accumulate == Accumulate::yes ? Addend{c.data, c.stride} : Addend{};
  compute({c, a, b, addend});
}

void multiply_plus_row(const MatrixOut& c, const MatrixView& a, const MatrixView& b, const real* row) {
  check_sizes(c, a, b);
  compute({c, a, b, {row, 0}});
}

}  // namespace SEPPO_ABI
}  // namespace seppo
