// Reading and adding at indices: embeddings, one-hot rows, gather, scatter and selection.
#include "op.h"
#include "slices.h"
#include "walk.h"

#include <algorithm>
#include <utility>

namespace seppo::inline SEPPO_ABI {
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

// An index selects an element of x: it is the coordinate along the axis, its position gives the other coordinates.
struct Pointing {
  Walk<3> walk;                  // over x without that axis, over what is read or added, and over the indices
  std::span<const int> indices;  // kept on the tape
  std::size_t step;              // of x along the axis

  // One index for each element of the shape, or for each of its slices along the axis.
  Pointing(const char* op, const Tensor& x, int axis, List<int> values, const Shape& shape, const Shape& other)
      : walk(shape, {}), indices(tape().keep<int>(values)) {
    axis = x.shape().axis(axis, op);
    check_indices(op, "index", values, Slices(x.shape(), axis).n, ", dim ", axis, " of x ", x);
    const auto at = static_cast<std::size_t>(axis);
    Strides of_x = strides_of(x.shape()), of_indices = strides_of(shape);
    step = std::exchange(of_x[at], 0);
    if (std::ssize(values) != shape.numel()) of_indices = {}, of_indices[at] = 1;
    walk = {shape, {of_x, strides_of(other), of_indices}};
  }

  // Calls f(element of x, element of the other, 1) for each index, or once for a run of contiguous elements.
  template <class F>
  void for_each(const F& f) const {
    const std::size_t n = walk.n(), x_step = walk.step(0), other_step = walk.step(1), index_step = walk.step(2);
    const bool is_run = n > 0 && index_step == 0 && x_step == 1 && other_step == 1;
    walk.for_each_run([&](const auto& at) {
      const auto place = [&](std::size_t i) {
        return at[0] + static_cast<std::size_t>(indices[at[2] + i * index_step]) * step;
      };
      if (is_run) return f(place(0), at[1], n);
      for (std::size_t i = 0; i < n; ++i) f(place(i) + i * x_step, at[1] + i * other_step, std::size_t{1});
    });
  }
};

void add(real* to, const real* from, std::size_t n) {
  if (n == 1)
    *to += *from;
  else
    kernels::axpy(to, 1, from, 1, n);
}

Tensor read(const char* op, const Tensor& x, const Shape& shape, const Pointing& pointing) {
  Tensor y = tape().create(shape);
  pointing.for_each([to = y.data(), from = x.data()](std::size_t ix, std::size_t iy, std::size_t n) {
    if (n == 1)
      to[iy] = from[ix];
    else
      std::copy_n(from + ix, n, to + iy);
  });
  record(op, y, {x}, [=] {
    pointing.for_each([dx = grad_of(x), dy = grad_of(y)](std::size_t ix, std::size_t iy, std::size_t n) {
      add(dx + ix, dy + iy, n);
    });
  });
  return y;
}

Tensor add_at(const char* op, const Tensor& x, const Tensor& source, const Pointing& pointing) {
  Tensor y = tape().create(x.shape());
  std::copy_n(x.data(), x.numel(), y.data());
  pointing.for_each([to = y.data(), from = source.data()](std::size_t iy, std::size_t is, std::size_t n) {
    add(to + iy, from + is, n);
  });
  record(op, y, {x, source}, [=] {
    const real* const dy = grad_of(y);
    add_grad(x, dy);
    if (real* const dsource = grad_if_required(source))
      pointing.for_each([=](std::size_t iy, std::size_t is, std::size_t n) { add(dsource + is, dy + iy, n); });
  });
  return y;
}

// Checks that x is at least as large as the indices along the other axes, or along all.
void check_fits(const char* op, const char* role, const Tensor& x, const Indices& indices, int but_for) {
  const Shape& shape = indices.shape;
  check(shape.rank() == x.rank(), op, ": indices ", shape, " and ", role, " ", x, " differ in rank");
  check(std::ssize(indices.values) == shape.numel(), op, ": indices ", shape, " has ", shape.numel(), " elements, ",
        indices.values.size(), " values given");
  for (int a = 0; a < x.rank(); ++a)
    check(a == but_for || shape[a] <= x.size(a), op, ": indices ", shape, " dim ", a, " = ", shape[a], " is more than ",
          role, " ", x, " dim ", a, " = ", x.size(a));
}

// x with one slice for each index.
Shape selected_shape(const char* op, const Tensor& x, int axis, List<int> index) {
  check(x.rank() > 0 || index.size() == 1, op, ": of the scalar x ", x, " there is one element, not ", index.size());
  return x.shape().with(x.shape().axis(axis, op), static_cast<int>(index.size()));
}

}  // namespace

Tensor gather(const Tensor& x, int axis, const Indices& indices) {
  check_fits("gather", "x", x, indices, x.shape().axis(axis, "gather"));
  return read("gather", x, indices.shape, {"gather", x, axis, indices.values, indices.shape, indices.shape});
}

Tensor scatter_add(const Tensor& x, int axis, const Indices& indices, const Tensor& source) {
  check_fits("scatter_add", "x", x, indices, x.shape().axis(axis, "scatter_add"));
  check_fits("scatter_add", "source", source, indices, -1);
  return add_at("scatter_add", x, source, {"scatter_add", x, axis, indices.values, indices.shape, source.shape()});
}

Tensor index_select(const Tensor& x, int axis, List<int> index) {
  const Shape shape = selected_shape("index_select", x, axis, index);
  return read("index_select", x, shape, {"index_select", x, axis, index, shape, shape});
}

Tensor index_add(const Tensor& x, int axis, List<int> index, const Tensor& source) {
  const Shape shape = selected_shape("index_add", x, axis, index);
  check(source.shape() == shape, "index_add: source ", source, " is not ", shape, ", x ", x, " with ", index.size(),
        " slices along dim ", axis);
  return add_at("index_add", x, source, {"index_add", x, axis, index, shape, shape});
}

}  // namespace seppo::inline SEPPO_ABI
