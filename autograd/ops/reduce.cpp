// Sums and means.
#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/ops.h>

#include <algorithm>

namespace seppo::inline SEPPO_ABI {
namespace {

Tensor scaled_sum(const Tensor& x, real factor) {
  Tensor y = tape().create({});
  *y.data() = static_cast<real>(kernels::sum(x.data(), x.size())) * factor;
  record(y, {x}, [=] {
    real* const dx = x.grad();
    const real dy = *y.grad() * factor;
    for (std::size_t i = 0; i < x.size(); ++i) dx[i] += dy;
  });
  return y;
}

// x as [outer, n, inner] -> [outer, inner]
Tensor scaled_sum(const Tensor& x, int axis, bool keep_dim, real factor) {
  std::size_t outer = 1, inner = 1;
  const auto n = static_cast<std::size_t>(x.dim(axis));
  int sizes[Shape::kMaxRank], rank = 0;
  for (int i = 0; i < x.rank(); ++i) {
    if (i < axis) outer *= static_cast<std::size_t>(x.dim(i));
    if (i > axis) inner *= static_cast<std::size_t>(x.dim(i));
    if (i != axis || keep_dim) sizes[rank++] = i == axis ? 1 : x.dim(i);
  }
  Tensor y = zeros(Shape(std::span<const int>(sizes, static_cast<std::size_t>(rank))));
  for (std::size_t i = 0; i < outer; ++i) {
    real* const to = y.data() + i * inner;
    const real* const from = x.data() + i * n * inner;
    if (inner == 1)
      *to = static_cast<real>(kernels::sum(from, n));
    else
      for (std::size_t j = 0; j < n; ++j) kernels::axpy(to, 1, from + j * inner, 1, inner);
    kernels::scale(to, to, factor, inner);
  }
  record(y, {x}, [=] {
    real* const dx = x.grad();
    for (std::size_t i = 0; i < outer; ++i)
      for (std::size_t j = 0; j < n; ++j)
        kernels::axpy(dx + (i * n + j) * inner, 1, y.grad() + i * inner, factor, inner);
  });
  return y;
}

}  // namespace

Tensor sum(const Tensor& x) { return scaled_sum(x, 1); }

Tensor sum(const Tensor& x, int axis, bool keep_dim) { return scaled_sum(x, x.shape().axis(axis), keep_dim, 1); }

Tensor mean(const Tensor& x) {
  check(x.size() > 0, "mean: of no elements, ", x);
  return scaled_sum(x, 1 / static_cast<real>(x.size()));
}

Tensor mean(const Tensor& x, int axis, bool keep_dim) {
  axis = x.shape().axis(axis);
  check(x.dim(axis) > 0, "mean: of no elements, ", x, " dim ", axis, " = 0");
  return scaled_sum(x, axis, keep_dim, 1 / static_cast<real>(x.dim(axis)));
}

}  // namespace seppo::inline SEPPO_ABI
