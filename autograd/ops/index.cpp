// Reading and adding at indices: embeddings, one-hot rows, gather, scatter and selection.
#include "op.h"
#include "slices.h"
#include "walk.h"

#include <algorithm>

namespace seppo::inline SEPPO_ABI {
namespace {

// `rule` ends the message: what the indices count.
template <class... Rule>
void check_indices(const char* op, const char* noun, std::span<const int> indices, std::size_t n, const Rule&... rule) {
  for (std::size_t i = 0; i < indices.size(); ++i)
    check<IndexError>(indices[i] >= 0 && static_cast<std::size_t>(indices[i]) < n, op, ": ", noun, " ", indices[i],
                      " at position ", i, " is not in 0..", static_cast<std::int64_t>(n) - 1, rule...);
}

}  // namespace

Tensor embedding(const Tensor& table, List<int> ids, const EmbeddingOptions& options) {
  check(table.rank() == 2, "embedding: the table must be [vocabulary, d], got ", table);
  check_indices("embedding", "id", ids, table.rows(), ", the rows of table ", table);
  const Tensor positions = options.positions;
  if (positions.defined()) {
    check(positions.rank() == 2 && positions.size(1) == table.size(1), "embedding: positions ", positions,
          " must have the width of table ", table);
    check(options.position_ids.size() == ids.size(), "embedding: ", options.position_ids.size(), " position ids for ",
          ids.size(), " ids");
    check_indices("embedding", "id", options.position_ids, positions.rows(), ", the rows of table ", positions);
  }
  Tape& t = tape();
  Tensor y = t.create({static_cast<int>(ids.size()), table.size(1)});
  const std::size_t d = y.cols();
  const real scale = options.scale;
  const auto kept_ids = t.keep(ids), kept_positions = t.keep(options.position_ids);
  const auto row = [d](auto* base, int id) { return base + static_cast<std::size_t>(id) * d; };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    kernels::scale(y.data() + i * d, row(table.data(), ids[i]), scale, d);
    if (positions.defined()) kernels::axpy(y.data() + i * d, 1, row(positions.data(), kept_positions[i]), 1, d);
  }
  record("embedding", y, {table, positions}, [=, padding = options.padding_idx] {
    if (real* const dtable = grad_if_required(table))
      for (std::size_t i = 0; i < kept_ids.size(); ++i)
        if (kept_ids[i] != padding) kernels::axpy(row(dtable, kept_ids[i]), 1, grad_of(y) + i * d, scale, d);
    if (real* const dpositions = grad_if_required(positions))
      for (std::size_t i = 0; i < kept_ids.size(); ++i)
        kernels::axpy(row(dpositions, kept_positions[i]), 1, grad_of(y) + i * d, 1, d);
  });
  return y;
}

Tensor one_hot(List<int> ids, int classes) {
  check<ArgumentError>(classes > 0, "one_hot: ", classes, " classes");
  check_indices("one_hot", "id", ids, static_cast<std::size_t>(classes), ", the classes");
  Tensor y = zeros({static_cast<int>(ids.size()), classes});
  for (std::size_t i = 0; i < ids.size(); ++i) y.data()[i * y.cols() + static_cast<std::size_t>(ids[i])] = 1;
  return y;
}

namespace {

// Index i, whose element in `source` has the same coordinates, points to the element of `target` whose coordinate
// along the axis is indices[i], the others those of i.
class Pointing {
 public:
  Pointing(const char* op, const Tensor& target, int axis, const Indices& indices, const Shape& source)
      : walk_(indices.shape, {strides(op, target, axis, indices), strides_within(source, source)}),
        indices_(tape().keep(indices.values)),
        step_(strides_of(target.shape())[static_cast<std::size_t>(target.shape().axis(axis))]) {}

  // Calls f(element of the target, element of the source) for each index.
  template <class F>
  void for_each(const F& f) const {
    const int* index = indices_.data();
    const std::size_t n = walk_.n(), target_step = walk_.step(0), source_step = walk_.step(1);
    walk_.for_each_run([&](const auto& at) {
      for (std::size_t i = 0; i < n; ++i)
        f(at[0] + i * target_step + static_cast<std::size_t>(*index++) * step_, at[1] + i * source_step);
    });
  }

 private:
  // Of the target, without the axis that is indexed.
  static Strides strides(const char* op, const Tensor& x, int axis, const Indices& indices) {
    axis = x.shape().axis(axis);
    const Shape& shape = indices.shape;
    check(shape.rank() == x.rank(), op, ": indices ", shape, " and x ", x, " differ in rank");
    check(static_cast<std::size_t>(shape.numel()) == indices.values.size(), op, ": indices ", shape, " has ",
          shape.numel(), " elements, ", indices.values.size(), " values given");
    for (int a = 0; a < x.rank(); ++a)
      check(a == axis || shape[a] <= x.size(a), op, ": indices ", shape, " dim ", a, " = ", shape[a],
            " is more than x ", x, " dim ", a, " = ", x.size(a));
    check_indices(op, "index", indices.values, Slices(x.shape(), axis).n, ", dim ", axis, " of x ", x);
    Strides strides = strides_of(x.shape());
    strides[static_cast<std::size_t>(axis)] = 0;
    return strides;
  }

  Walk<2> walk_;
  std::span<const int> indices_;  // kept on the tape
  std::size_t step_;
};

}  // namespace

Tensor gather(const Tensor& x, int axis, const Indices& indices) {
  const Pointing pointing("gather", x, axis, indices, indices.shape);
  Tensor y = tape().create(indices.shape);
  pointing.for_each([to = y.data(), from = x.data()](std::size_t ix, std::size_t iy) { to[iy] = from[ix]; });
  record("gather", y, {x}, [=] {
    pointing.for_each([dx = grad_of(x), dy = grad_of(y)](std::size_t ix, std::size_t iy) { dx[ix] += dy[iy]; });
  });
  return y;
}

Tensor scatter_add(const Tensor& x, int axis, const Indices& indices, const Tensor& source) {
  const Pointing pointing("scatter_add", x, axis, indices, source.shape());
  check(source.rank() == x.rank(), "scatter_add: source ", source, " and x ", x, " differ in rank");
  for (int a = 0; a < x.rank(); ++a)
    check(indices.shape[a] <= source.size(a), "scatter_add: indices ", indices.shape, " dim ", a, " = ",
          indices.shape[a], " is more than source ", source, " dim ", a, " = ", source.size(a));
  Tensor y = tape().create(x.shape());
  std::copy_n(x.data(), x.numel(), y.data());
  pointing.for_each([to = y.data(), from = source.data()](std::size_t iy, std::size_t is) { to[iy] += from[is]; });
  record("scatter_add", y, {x, source}, [=] {
    const real* const dy = grad_of(y);
    add_grad(x, dy);
    if (real* const dsource = grad_if_required(source))
      pointing.for_each([=](std::size_t iy, std::size_t is) { dsource[is] += dy[iy]; });
  });
  return y;
}

Tensor index_select(const Tensor& x, int axis, List<int> index) {
  axis = x.shape().axis(axis);
  const Slices slices(x.shape(), axis);
  check_indices("index_select", "index", index, slices.n, ", dim ", axis, " of x ", x);
  check(x.rank() > 0 || index.size() == 1, "index_select: of the scalar x ", x, " there is one element, not ",
        index.size());
  const auto kept = tape().keep(index);
  Tensor y = tape().create(x.shape().with(axis, static_cast<int>(index.size())));
  // Calls f(first element of y, first element of x) for each run of `inner` elements.
  const auto each = [=](const auto& f) {
    for (std::size_t i = 0; i < slices.outer; ++i)
      for (std::size_t k = 0; k < kept.size(); ++k)
        f((i * kept.size() + k) * slices.inner, (i * slices.n + static_cast<std::size_t>(kept[k])) * slices.inner);
  };
  each([&](std::size_t iy, std::size_t ix) { std::copy_n(x.data() + ix, slices.inner, y.data() + iy); });
  record("index_select", y, {x}, [=] {
    each([&, dx = grad_of(x), dy = grad_of(y)](std::size_t iy, std::size_t ix) {
      kernels::axpy(dx + ix, 1, dy + iy, 1, slices.inner);
    });
  });
  return y;
}

}  // namespace seppo::inline SEPPO_ABI
