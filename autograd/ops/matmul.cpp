// Matrix products of tensors, in batches: for each pair of matrices, or for all rows at once where B repeats.
#include "../blas/multiply.h"
#include "../core/arena.h"
#include "op.h"
#include "term_sums.h"
#include "walk.h"

#include <type_traits>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

Shape matmul_shape(const Tensor& a, const Tensor& b) {
  check(a.rank() >= 1 && b.rank() >= 1, "matmul: both operands need at least one axis: lhs ", a, ", rhs ", b);
  check(a.size(-1) == b.size(-2), "matmul: inner sizes differ: lhs ", a, " dim ", a.rank() - 1, " = ", a.size(-1),
        ", rhs ", b, " dim ", b.rank() - 2, " = ", b.size(-2));
  Shape shape = broadcast_shape("matmul", {{"lhs", a}, {"rhs", b}}, 2);
  shape.append(a.size(-2));
  shape.append(b.size(-1));
  return shape;
}

// The leading axes, which count matrices.
Shape batch_of(const Shape& shape) { return Shape(shape.sizes().first(static_cast<std::size_t>(shape.rank() - 2))); }

// The products of a batched matmul.
struct Batches {
  std::size_t m, n, k;
  Walk<3> walk;  // over the matrices of Y, A and B

  Batches(const Shape& y, const Shape& a, const Shape& b)
      : m(static_cast<std::size_t>(y[-2])),
        n(static_cast<std::size_t>(y[-1])),
        k(static_cast<std::size_t>(a[-1])),
        walk(broadcast(batch_of(y), batch_of(a), batch_of(b))) {}

  // Calls f(m, first element of Y, of A, of B) for each product. If B repeats, the matrices of a run form one
  // product with all their rows.
  template <class F>
  void for_each(const F& f) const {
    const bool b_repeats = walk.stride(1) == 1 && walk.stride(2) == 0;
    walk.for_each_run([&](const auto& at) {
      if (b_repeats) {
        f(m * walk.n(), at[0] * m * n, at[1] * m * k, at[2] * k * n);
        return;
      }
      for (std::size_t i = 0; i < walk.n(); ++i) {
        const std::size_t a = at[1] + i * walk.stride(1);
        const std::size_t b = at[2] + i * walk.stride(2);
        f(m, (at[0] + i) * m * n, a * m * k, b * k * n);
      }
    });
  }
};

// How many products of y = matmul(...) each matrix of an operand takes part in.
std::size_t products_of_one(const Tensor& y, const Tensor& operand) {
  const std::int64_t matrices = batch_of(operand.shape()).numel();
  return static_cast<std::size_t>(matrices == 0 ? 0 : batch_of(y.shape()).numel() / matrices);
}

// Adds the product of two matrices to the elements from `first` on.
void add_product(const TermSums& sums, std::size_t first, const MatrixView& a, const MatrixView& b) {
  sums.at(first, [&]<class Sum>(Sum* to) {
    if constexpr (std::is_same_v<Sum, real>) {
      multiply({to, a.rows, b.cols}, a, b, Accumulate::yes);
    } else {
      const RecycledArray product(tape().arena(), a.rows * b.cols);
      multiply({product.data(), a.rows, b.cols}, a, b);
      kernels::axpy_wide(to, product.data(), 1, a.rows * b.cols);
    }
  });
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.rank() == 1) return squeeze(matmul(unsqueeze(a, 0), b), b.rank() == 1 ? 0 : -2);
  if (b.rank() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);
  Tensor y = tape().create(matmul_shape(a, b));
  const Batches batches(y.shape(), a.shape(), b.shape());
  const std::size_t n = batches.n;
  const std::size_t k = batches.k;
  batches.for_each([&](std::size_t m, std::size_t iy, std::size_t ia, std::size_t ib) {
    multiply({y.data() + iy, m, n}, {a.data() + ia, m, k}, {b.data() + ib, k, n});
  });
  // dA = dY B^T, dB = A^T dY
  record("matmul", y, {a, b}, [=] {
    const TermSums da(grad_if_required(a), a.numel(), products_of_one(y, a));
    const TermSums db(grad_if_required(b), b.numel(), products_of_one(y, b));
    const real* const dy = grad_of(y);
    batches.for_each([&](std::size_t m, std::size_t iy, std::size_t ia, std::size_t ib) {
      const MatrixView left(a.data() + ia, m, k);
      const MatrixView right(b.data() + ib, k, n);
      const MatrixView slope(dy + iy, m, n);
      if (da) add_product(da, ia, slope, transposed(right));
      if (db) add_product(db, ib, transposed(left), slope);
    });
    da.finish();
    db.finish();
  });
  return y;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
