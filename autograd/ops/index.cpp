// Embedding look-up, slices, concatenation and splitting.
#include "../kernels/kernels.h"
#include "../ops.h"
#include "slices.h"

#include <algorithm>
#include <limits>

namespace seppo::inline SEPPO_ABI {
namespace {

void check_ids(std::span<const int> ids, const Tensor& table) {
  const int n = table.size(0);
  for (std::size_t i = 0; i < ids.size(); ++i)
    check<IndexError>(ids[i] >= 0 && ids[i] < n, "embedding: id ", ids[i], " at position ", i, " is not in 0..", n - 1,
                      ", the rows of table ", table);
}

}  // namespace

Tensor embedding(const Tensor& table, std::span<const int> ids, const EmbeddingOptions& options) {
  check(table.rank() == 2, "embedding: the table must be [vocabulary, d], got ", table);
  check_ids(ids, table);
  const Tensor positions = options.positions;
  if (positions.defined()) {
    check(positions.rank() == 2 && positions.size(1) == table.size(1), "embedding: positions ", positions,
          " must have the width of table ", table);
    check(options.position_ids.size() == ids.size(), "embedding: ", options.position_ids.size(), " position ids for ",
          ids.size(), " ids");
    check_ids(options.position_ids, positions);
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
  const auto backward = [=, padding = options.padding_idx] {
    if (table.requires_grad()) {
      real* const dtable = grad_of(table);
      for (std::size_t i = 0; i < kept_ids.size(); ++i)
        if (kept_ids[i] != padding) kernels::axpy(row(dtable, kept_ids[i]), 1, grad_of(y) + i * d, scale, d);
    }
    if (positions.defined() && positions.requires_grad()) {
      real* const dpositions = grad_of(positions);
      for (std::size_t i = 0; i < kept_ids.size(); ++i)
        kernels::axpy(row(dpositions, kept_positions[i]), 1, grad_of(y) + i * d, 1, d);
    }
  };
  if (positions.defined())
    record("embedding", y, {table, positions}, backward);
  else
    record("embedding", y, {table}, backward);
  return y;
}

namespace {

// Elements in one step of `axis`, and how many such blocks the tensor has before it.
std::size_t block(const Shape& shape, int axis) {
  std::size_t size = 1;
  for (int i = axis; i < shape.rank(); ++i) size *= static_cast<std::size_t>(shape[i]);
  return size;
}
std::size_t blocks(const Shape& shape, int axis) {
  std::size_t count = 1;
  for (int i = 0; i < axis; ++i) count *= static_cast<std::size_t>(shape[i]);
  return count;
}
}  // namespace

Tensor slice(const Tensor& x, int axis, int begin, int end) {
  axis = x.shape().axis(axis);
  check<IndexError>(0 <= begin && begin <= end && end <= x.size(axis), "slice: ", begin, "..", end, " is not within 0..",
                    x.size(axis), ", dim ", axis, " of ", x);
  const Shape shape = with_size(x.shape(), axis, end - begin);
  const std::size_t first = block(x.shape(), axis + 1) * static_cast<std::size_t>(begin);
  if (axis == 0) return tape().view(x, shape, static_cast<std::ptrdiff_t>(first));
  Tensor y = tape().create(shape);
  const std::size_t rows = blocks(shape, axis), from = block(x.shape(), axis), to = block(shape, axis);
  kernels::copy_rows(y.data(), to, x.data() + first, from, rows, to);
  record("slice", y, {x}, [=] { kernels::add_rows(grad_of(x) + first, from, grad_of(y), to, rows, to); });
  return y;
}

Tensor concat(std::span<const Tensor> tensors, int axis) {
  check<ArgumentError>(!tensors.empty(), "concat: no tensors given");
  const Tensor& head = tensors.front();
  axis = head.shape().axis(axis);
  std::int64_t total = 0;
  for (const Tensor& x : tensors) {
    check(x.rank() == head.rank(), "concat: ranks differ: ", head, " and ", x);
    for (int i = 0; i < x.rank(); ++i)
      check(i == axis || x.size(i) == head.size(i), "concat: sizes differ outside axis ", axis, ": ", head, " dim ", i,
            " = ", head.size(i), ", ", x, " dim ", i, " = ", x.size(i));
    total += x.size(axis);
  }
  check(total <= std::numeric_limits<int>::max(), "concat: the sizes of dim ", axis, " add up to ", total,
        ", more than an axis can have");
  Tape& t = tape();
  const auto parts = t.keep(tensors);
  Tensor y = t.create(with_size(head.shape(), axis, static_cast<int>(total)));
  const std::size_t rows = blocks(y.shape(), axis), to = block(y.shape(), axis);
  std::size_t first = 0;
  for (const Tensor& x : parts) {
    const std::size_t from = block(x.shape(), axis);
    kernels::copy_rows(y.data() + first, to, x.data(), from, rows, from);
    first += from;
  }
  t.record("concat", y, parts, [=] {
    std::size_t begin = 0;
    for (const Tensor& x : parts) {
      const std::size_t from = block(x.shape(), axis);
      if (x.requires_grad()) kernels::add_rows(grad_of(x), from, grad_of(y) + begin, to, rows, from);
      begin += from;
    }
  });
  return y;
}

Tensor concat(std::initializer_list<Tensor> tensors, int axis) {
  return concat(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

Tensor stack(std::span<const Tensor> tensors, int axis) {
  check<ArgumentError>(!tensors.empty(), "stack: no tensors given");
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) {
    check(x.shape() == tensors.front().shape(), "stack: shapes differ: ", tensors.front(), " and ", x);
    parts.push_back(unsqueeze(x, axis));
  }
  return concat(parts, axis);
}

Tensor stack(std::initializer_list<Tensor> tensors, int axis) {
  return stack(std::span<const Tensor>(tensors.begin(), tensors.size()), axis);
}

std::vector<Tensor> split(const Tensor& x, std::span<const int> sizes, int axis) {
  axis = x.shape().axis(axis);
  std::int64_t total = 0;
  for (const int size : sizes) {
    check(size >= 0, "split: negative size ", size, " for dim ", axis, " of ", x);
    total += size;
  }
  check(total == x.size(axis), "split: the sizes add up to ", total, ", not to dim ", axis, " = ", x.size(axis), " of ",
        x);
  std::vector<Tensor> parts;
  int begin = 0;
  for (const int size : sizes) {
    parts.push_back(slice(x, axis, begin, begin + size));
    begin += size;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::initializer_list<int> sizes, int axis) {
  return split(x, std::span<const int>(sizes.begin(), sizes.size()), axis);
}

std::vector<Tensor> split(const Tensor& x, int size, int axis) {
  check<ArgumentError>(size > 0, "split: size ", size, " is not positive");
  std::vector<int> sizes;
  for (int rest = x.size(axis); rest > 0; rest -= size) sizes.push_back(std::min(size, rest));
  if (sizes.empty()) sizes.push_back(0);
  return split(x, sizes, axis);
}

std::vector<Tensor> chunk(const Tensor& x, int chunks, int axis) {
  check<ArgumentError>(chunks > 0, "chunk: ", chunks, " chunks");
  return split(x, std::max(1, (x.size(axis) + chunks - 1) / chunks), axis);
}

}  // namespace seppo::inline SEPPO_ABI
