// Reading and adding at indices: embeddings, one-hot rows, gather, scatter and selection.
#include "../core/arena.h"
#include "op.h"
#include "slices.h"
#include "term_sums.h"
#include "walk.h"
#include "weights.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Adds factor rows[i] to row ids[i] of a table [., d], for each id but `skipped`.
void add_rows_at(const Tensor& table, std::span<const int> ids, const real* rows, real factor, int skipped) {
  real* const to = grad_if_required(table);
  if (!to) return;
  const std::size_t d = table.cols();
  const SliceSums sums(ids, table.rows(), d, ids.size());
  const auto row = [=](int id) { return to + static_cast<std::size_t>(id) * d; };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == skipped) continue;
    if (double* const wide = sums.of(ids[i]))
      kernels::axpy_wide(wide, rows + i * d, factor, d);
    else
      kernels::axpy(row(ids[i]), 1, rows + i * d, factor, d);
  }
  sums.for_each([&](int id, const double* wide) {
    for (std::size_t j = 0; j < d; ++j) row(id)[j] += static_cast<real>(wide[j]);
  });
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
  const auto kept_ids = t.keep(ids);
  const auto kept_positions = t.keep(options.position_ids);
  TableRows rows(table);
  for (std::size_t i = 0; i < ids.size(); ++i) kernels::scale(y.data() + i * d, rows.at(ids[i]), scale, d);
  if (positions.defined()) {
    TableRows places(positions);
    for (std::size_t i = 0; i < ids.size(); ++i) kernels::axpy(y.data() + i * d, 1, places.at(kept_positions[i]), 1, d);
  }
  record("embedding", y, {table, positions}, [=, padding = options.padding_idx] {
    add_rows_at(table, kept_ids, grad_of(y), scale, padding);
    if (positions.defined()) add_rows_at(positions, kept_positions, grad_of(y), 1, -1);
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
  Slices slices;                 // of x along the axis
  Walk<4> walk;                  // over x without that axis, what is read or added, the indices, and a slice of x
  std::span<const int> indices;  // kept on the tape, counted from the start of the axis
  std::size_t most;              // indices that can select the same element

  // A run of elements.
  struct Run {
    std::size_t x;       // the first of x
    std::size_t other;   // and of what is read or added
    std::size_t within;  // and within the slice
    int index;           // of the slice
    std::size_t size;
  };

  // One index for each element of the shape, or for each of its slices along the axis.
  Pointing(const char* op, const Tensor& x, int axis, List<int> values, const Shape& shape, const Shape& other)
      : slices(x.shape(), axis, op), walk(shape, {}), indices(keep(op, x, axis, values)) {
    const auto at = static_cast<std::size_t>(x.shape().axis(axis));
    Strides of_x = strides_of(x.shape());
    Strides of_slice = strides_of(x.shape().with(axis, 1));
    of_x[at] = 0;
    of_slice[at] = 0;
    Strides of_indices = strides_of(shape);
    if (std::ssize(values) != shape.numel()) {
      of_indices = {};
      of_indices[at] = 1;
    }
    walk = {shape, {of_x, strides_of(other), of_indices, of_slice}};
    most = shape.rank() == 0 ? 1 : static_cast<std::size_t>(shape[axis]);
  }

  // Calls f(run) for each index, or once for a run of contiguous elements.
  template <class F>
  void for_each(const F& f) const {
    const std::size_t n = walk.n();
    const bool is_run = n > 0 && walk.stride(0) == 1 && walk.stride(1) == 1 && walk.stride(2) == 0;
    walk.for_each_run([&](const auto& at) {
      if (is_run)
        f(run(at, 0, n));
      else
        for (std::size_t i = 0; i < n; ++i) f(run(at, i, 1));
    });
  }

  // From the i-th element on of the walk's run that begins at `at`.
  Run run(const Walk<4>::At& at, std::size_t i, std::size_t size) const {
    const int index = indices[at[2] + i * walk.stride(2)];
    return {.x = at[0] + i * walk.stride(0) + static_cast<std::size_t>(index) * slices.inner,
            .other = at[1] + i * walk.stride(1),
            .within = at[3] + i * walk.stride(3),
            .index = index,
            .size = size};
  }

  // x[...] += other[...], where `to` and `from` are their elements.
  void add(real* to, const real* from) const {
    const SliceSums sums(indices, slices.n, slices.outer * slices.inner, most);
    if (sums.empty()) return for_each([=](const Run& run) { add_run(to + run.x, from + run.other, run.size); });
    for_each([&](const Run& run) {
      if (double* const wide = sums.of(run.index))
        kernels::axpy_wide(wide + run.within, from + run.other, 1, run.size);
      else
        add_run(to + run.x, from + run.other, run.size);
    });
    sums.for_each([&](int index, const double* wide) {
      for (std::size_t i = 0; i < slices.outer; ++i) {
        real* const row = to + i * slices.block() + static_cast<std::size_t>(index) * slices.inner;
        const double* const sums_of_row = wide + i * slices.inner;
        for (std::size_t j = 0; j < slices.inner; ++j) row[j] += static_cast<real>(sums_of_row[j]);
      }
    });
  }

  static void add_run(real* to, const real* from, std::size_t n) {
    if (n == 1)
      *to += *from;
    else
      kernels::axpy(to, 1, from, 1, n);
  }

 private:
  // Checks the indices; negative ones count from the end.
  static std::span<const int> keep(const char* op, const Tensor& x, int axis, List<int> values) {
    const int at = x.shape().axis(axis, op);
    const int n = static_cast<int>(Slices(x.shape(), at).n);
    int* const kept = tape().allocate<int>(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      check<IndexError>(values[i] >= -n && values[i] < n, op, ": index ", values[i], " at position ", i, " is not in ",
                        -n, "..", n - 1, ", dim ", at, " of x ", x);
      kept[i] = values[i] < 0 ? values[i] + n : values[i];
    }
    return {kept, values.size()};
  }
};

Tensor read(const char* op, const Tensor& x, const Shape& shape, const Pointing& pointing) {
  Tensor y = tape().create(shape);
  pointing.for_each([to = y.data(), from = x.data()](const Pointing::Run& run) {
    if (run.size == 1)
      to[run.other] = from[run.x];
    else
      std::copy_n(from + run.x, run.size, to + run.other);
  });
  record(op, y, {x}, [=] { pointing.add(grad_of(x), grad_of(y)); });
  return y;
}

Tensor add_at(const char* op, const Tensor& x, const Tensor& source, const Pointing& pointing) {
  Tensor y = tape().create(x.shape());
  std::copy_n(x.data(), x.numel(), y.data());
  pointing.add(y.data(), source.data());
  record(op, y, {x, source}, [=] {
    const real* const dy = grad_of(y);
    add_grad(x, dy);
    if (real* const dsource = grad_if_required(source))
      pointing.for_each(
          [=](const Pointing::Run& run) { Pointing::add_run(dsource + run.other, dy + run.x, run.size); });
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

// No elements of x, in this shape. Its gradient is 0.
Tensor nothing_of(const char* op, const Tensor& x, int axis, const Shape& shape) {
  x.shape().axis(axis, op);  // throws if it is out of range
  Tensor y = tape().create(shape);
  record(op, y, {x}, [=] { grad_of(x); });  // zeros
  return y;
}

// x with one slice for each index.
Shape selected_shape(const char* op, const Tensor& x, int axis, List<int> index) {
  check(x.rank() > 0 || index.size() == 1, op, ": of the scalar x ", x, " there is one element, not ", index.size());
  return x.shape().with(x.shape().axis(axis, op), static_cast<int>(index.size()));
}

// The same, which is the shape that the source must have.
Shape checked_source(const char* op, const Tensor& x, int axis, List<int> index, const Tensor& source) {
  const Shape shape = selected_shape(op, x, axis, index);
  check(source.shape() == shape, op, ": source ", source, " is not ", shape, ", x ", x, " with ", index.size(),
        " slices along dim ", axis);
  return shape;
}

}  // namespace

Tensor gather(const Tensor& x, int axis, const Indices& indices) {
  if (indices.values.empty() && indices.shape.numel() == 0) return nothing_of("gather", x, axis, indices.shape);
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
  const Shape shape = checked_source("index_add", x, axis, index, source);
  return add_at("index_add", x, source, {"index_add", x, axis, index, shape, shape});
}

Tensor index_amax(const Tensor& x, int axis, List<int> index, const Tensor& source) {
  const Shape shape = checked_source("index_amax", x, axis, index, source);
  const Pointing pointing("index_amax", x, axis, index, shape, shape);
  Tensor y = tape().create(x.shape());
  std::copy_n(x.data(), x.numel(), y.data());
  const auto for_each_pair = [=](const auto& f) {  // f(element of y, element of source)
    pointing.for_each([&](const Pointing::Run& run) {
      for (std::size_t i = 0; i < run.size; ++i) f(run.x + i, run.other + i);
    });
  };
  for_each_pair([top = y.data(), from = source.data()](std::size_t iy, std::size_t i) {
    if (from[i] > top[iy] || std::isnan(from[i])) top[iy] = from[i];
  });
  record("index_amax", y, {x, source}, [=, top = y.data()] {
    const real* const from = source.data();  // as parameters may have moved
    const RecycledArray<real> shares(tape().arena(), y.numel());
    real* const share = shares.data();
    for (std::size_t i = 0; i < y.numel(); ++i) share[i] = static_cast<real>(x.data()[i] == top[i]);
    for_each_pair([=](std::size_t iy, std::size_t i) { share[iy] += static_cast<real>(from[i] == top[iy]); });
    const real* const dy = grad_of(y);
    for (std::size_t i = 0; i < y.numel(); ++i) share[i] = dy[i] / share[i];
    if (real* const dx = grad_if_required(x))
      for (std::size_t i = 0; i < y.numel(); ++i) dx[i] += x.data()[i] == top[i] ? share[i] : 0;
    if (real* const dsource = grad_if_required(source))
      for_each_pair([=](std::size_t iy, std::size_t i) { dsource[i] += from[i] == top[iy] ? share[iy] : 0; });
  });
  return y;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
