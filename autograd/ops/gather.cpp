// Reading and adding at indices along an axis.
#include "../kernels/kernels.h"
#include "../ops.h"
#include "slices.h"

#include <algorithm>

namespace seppo::inline SEPPO_ABI {
namespace {

// Where the elements of an index tensor point to: element i of it meets element at(i) of `other`, whose
// index along `axis` is the one given.
struct Pointing {
  std::span<const int> index;  // kept on the tape
  Shape shape, other;
  int axis;

  // Calls f(i, element of `other`, element of `source`) for each index i; the coordinates in `source` are those of i.
  template <class F>
  void for_each(const Shape& source, const F& f) const {
    int at[Shape::kMaxRank] = {};
    for (std::size_t i = 0; i < index.size(); ++i) {
      std::size_t to = 0, from = 0;
      for (int a = 0; a < shape.rank(); ++a) {
        to = to * static_cast<std::size_t>(other[a]) + static_cast<std::size_t>(a == axis ? index[i] : at[a]);
        from = from * static_cast<std::size_t>(source[a]) + static_cast<std::size_t>(at[a]);
      }
      f(to, from);
      for (int a = shape.rank() - 1; a >= 0 && ++at[a] == shape[a]; --a) at[a] = 0;
    }
  }
};

Pointing point(const char* op, const Tensor& x, int axis, const Indices& indices) {
  axis = x.shape().axis(axis);
  const Shape& shape = indices.shape;
  check(shape.rank() == x.rank(), op, ": indices ", shape, " and x ", x, " differ in rank");
  check(static_cast<std::size_t>(shape.numel()) == indices.values.size(), op, ": indices ", shape, " has ", shape.numel(),
        " elements, ", indices.values.size(), " values given");
  for (int a = 0; a < x.rank(); ++a)
    check(a == axis || shape[a] <= x.size(a), op, ": indices ", shape, " dim ", a, " = ", shape[a], " is more than x ",
          x, " dim ", a, " = ", x.size(a));
  for (std::size_t i = 0; i < indices.values.size(); ++i)
    check<IndexError>(indices.values[i] >= 0 && indices.values[i] < x.size(axis), op, ": index ", indices.values[i],
                      " at position ", i, " is not in 0..", x.size(axis) - 1, ", dim ", axis, " of x ", x);
  return {tape().keep(indices.values), shape, x.shape(), axis};
}

}  // namespace

Tensor gather(const Tensor& x, int axis, const Indices& indices) {
  const Pointing pointing = point("gather", x, axis, indices);
  Tensor y = tape().create(indices.shape);
  pointing.for_each(y.shape(), [&](std::size_t ix, std::size_t iy) { y.data()[iy] = x.data()[ix]; });
  record("gather", y, {x}, [=] {
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    pointing.for_each(y.shape(), [&](std::size_t ix, std::size_t iy) { dx[ix] += dy[iy]; });
  });
  return y;
}

Tensor scatter_add(const Tensor& x, int axis, const Indices& indices, const Tensor& source) {
  const Pointing pointing = point("scatter_add", x, axis, indices);
  check(source.rank() == x.rank(), "scatter_add: source ", source, " and x ", x, " differ in rank");
  for (int a = 0; a < x.rank(); ++a)
    check(indices.shape[a] <= source.size(a), "scatter_add: indices ", indices.shape, " dim ", a, " = ",
          indices.shape[a], " is more than source ", source, " dim ", a, " = ", source.size(a));
  Tensor y = tape().create(x.shape());
  std::copy_n(x.data(), x.numel(), y.data());
  pointing.for_each(source.shape(), [&](std::size_t to, std::size_t from) { y.data()[to] += source.data()[from]; });
  record("scatter_add", y, {x, source}, [=] {
    const real* const dy = grad_of(y);
    if (x.requires_grad()) {
      const auto [dx, beta] = grad_target(x);
      kernels::axpy(dx, beta, dy, 1, x.numel());
    }
    if (source.requires_grad()) {
      real* const dsource = grad_of(source);
      pointing.for_each(source.shape(), [&](std::size_t to, std::size_t from) { dsource[from] += dy[to]; });
    }
  });
  return y;
}

Tensor index_select(const Tensor& x, int axis, std::span<const int> index) {
  axis = x.shape().axis(axis);
  for (std::size_t i = 0; i < index.size(); ++i)
    check<IndexError>(index[i] >= 0 && index[i] < x.size(axis), "index_select: index ", index[i], " at position ", i,
                      " is not in 0..", x.size(axis) - 1, ", dim ", axis, " of x ", x);
  const Slices slices(x.shape(), axis);
  const auto kept = tape().keep(index);
  Tensor y = tape().create(with_size(x.shape(), axis, static_cast<int>(index.size())));
  // Calls f(first element of y, first element of x) for each run of `inner` elements.
  const auto each = [=](const auto& f) {
    for (std::size_t i = 0; i < slices.outer; ++i)
      for (std::size_t k = 0; k < kept.size(); ++k)
        f((i * kept.size() + k) * slices.inner, (i * slices.n + static_cast<std::size_t>(kept[k])) * slices.inner);
  };
  each([&](std::size_t iy, std::size_t ix) { std::copy_n(x.data() + ix, slices.inner, y.data() + iy); });
  record("index_select", y, {x}, [=] {
    real* const dx = grad_of(x);
    const real* const dy = grad_of(y);
    each([&](std::size_t iy, std::size_t ix) { kernels::axpy(dx + ix, 1, dy + iy, 1, slices.inner); });
  });
  return y;
}

}  // namespace seppo::inline SEPPO_ABI
