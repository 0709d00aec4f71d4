// Parts of tensors and tensors of parts: slices, concatenation, splitting.
#include "op.h"
#include "slices.h"

#include <algorithm>
#include <limits>

namespace seppo {
inline namespace SEPPO_ABI {

Tensor slice(const Tensor& x, int axis, int begin, int end) {
  axis = x.shape().axis(axis, "slice");
  const int n = x.size(axis);
  const int first_index = begin < 0 ? begin + n : begin;
  const int end_index = end < 0 ? end + n : end;
  check<IndexError>(0 <= first_index && first_index <= end_index && end_index <= n, "slice: ", begin, "..", end,
                    " is not within 0..", n, ", dim ", axis, " of ", x);
  const Shape shape = x.shape().with(axis, end_index - first_index);
  const Slices of_x(x.shape(), axis);
  const Slices of_y(shape, axis);
  const std::size_t first = of_x.inner * static_cast<std::size_t>(first_index);
  if (axis == 0) return tape().view(x, shape, static_cast<std::ptrdiff_t>(first));
  Tensor y = tape().create(shape);
  const std::size_t rows = of_y.outer;
  const std::size_t from = of_x.block();
  const std::size_t to = of_y.block();
  kernels::copy_rows(y.data(), to, x.data() + first, from, rows, to);
  record("slice", y, {x}, [=] { kernels::add_rows(grad_of(x) + first, from, grad_of(y), to, rows, to); });
  return y;
}

namespace {

// The shape of the tensors in a row along the axis, along which alone their sizes may differ.
Shape concat_shape(List<Tensor> tensors, int axis) {
  const Tensor& head = tensors.front();
  std::int64_t total = 0;
  for (const Tensor& x : tensors) {
    check(x.rank() == head.rank(), "concat: ranks differ: ", head, " and ", x);
    for (int i = 0; i < x.rank(); ++i) {
      const int size = x.size(i);
      const int wanted = head.size(i);
      check(i == axis || size == wanted, "concat: sizes differ outside axis ", axis, ": ", head, " dim ", i, " = ",
            wanted, ", ", x, " dim ", i, " = ", size);
    }
    total += x.size(axis);
  }
  check(total <= std::numeric_limits<int>::max(), "concat: the sizes of dim ", axis, " add up to ", total,
        ", more than an axis can have");
  return head.shape().with(axis, static_cast<int>(total));
}

}  // namespace

Tensor concat(List<Tensor> tensors, int axis) {
  check<ArgumentError>(!tensors.empty(), "concat: no tensors given");
  axis = tensors.front().shape().axis(axis, "concat");
  Tape& t = tape();
  Tensor y = t.create(concat_shape(tensors, axis));
  const auto parts = t.keep<Tensor>(tensors);
  const std::size_t rows = Slices(y.shape(), axis).outer;
  const std::size_t to = Slices(y.shape(), axis).block();
  std::size_t first = 0;
  for (const Tensor& x : parts) {
    const std::size_t from = Slices(x.shape(), axis).block();
    kernels::copy_rows(y.data() + first, to, x.data(), from, rows, from);
    first += from;
  }
  t.record("concat", y, parts, [=] {
    std::size_t begin = 0;
    for (const Tensor& x : parts) {
      const std::size_t from = Slices(x.shape(), axis).block();
      if (x.requires_grad()) kernels::add_rows(grad_of(x), from, grad_of(y) + begin, to, rows, from);
      begin += from;
    }
  });
  return y;
}

Tensor stack(List<Tensor> tensors, int axis) {
  check<ArgumentError>(!tensors.empty(), "stack: no tensors given");
  std::vector<Tensor> parts;
  for (const Tensor& x : tensors) {
    check(x.shape() == tensors.front().shape(), "stack: shapes differ: ", tensors.front(), " and ", x);
    parts.push_back(unsqueeze(x, axis));
  }
  return concat(parts, axis);
}

std::vector<Tensor> split(const Tensor& x, List<int> sizes, int axis) {
  axis = x.shape().axis(axis, "split");
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

std::vector<Tensor> split(const Tensor& x, int size, int axis) {
  check<ArgumentError>(size > 0, "split: size ", size, " is not positive");
  std::vector<int> sizes;
  for (int rest = x.size(x.shape().axis(axis, "split")); rest > 0; rest -= size) sizes.push_back(std::min(size, rest));
  if (sizes.empty()) sizes.push_back(0);
  return split(x, sizes, axis);
}

std::vector<Tensor> chunk(const Tensor& x, int chunks, int axis) {
  check<ArgumentError>(chunks > 0, "chunk: ", chunks, " chunks");
  return split(x, std::max(1, (x.size(x.shape().axis(axis, "chunk")) - 1) / chunks + 1), axis);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
