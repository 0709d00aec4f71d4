// Rows of ops that move elements: shapes, and parts along an axis.
#include "support/ops/axes.h"
#include "support/ops/rows.h"
#include "support/reference.h"

#include <seppo/autograd/ops.h>

#include <algorithm>
#include <numeric>

namespace test {

namespace {

namespace ref = test::reference;
using Index = std::vector<int>;

const std::vector<Shape> kShapes{{}, {5}, {3, 4}, {2, 0}, {2, 3, 4}, {2, 3, 2, 3}};

// The same elements in another shape.
template <class T>
Nd<T> shaped(Nd<T> x, const std::vector<int>& sizes) {
  x.shape = sizes;
  return x;
}

OpCase reshape(Draw& d) {
  const Shape x = d.input(kShapes);
  const int n = static_cast<int>(x.numel());
  std::vector<int> reversed = sizes_of(x);
  std::ranges::reverse(reversed);
  std::vector<int> sizes = d.one_of<std::vector<int>>({{n}, {1, n, 1}, reversed});
  if (d.strays()) sizes.push_back(2);
  const bool fits = sizes.size() <= Shape::kMaxRank && Nd<double>::count(sizes) == static_cast<std::size_t>(n);
  return {.op = [=](Inputs in) { return seppo::reshape(in[0], shape_of(sizes)); },
          .reference = [=](const auto& in) { return shaped(in[0], sizes); },
          .fits = fits,
          .torch = "x[0].reshape(" + text(sizes) + ")"};
}

OpCase unsqueeze(Draw& d) {
  const Shape x = d.input(kShapes);
  const int axis = d.integer(-x.rank() - 1, x.rank()), place = axis < 0 ? axis + x.rank() + 1 : axis;
  const bool fits = x.rank() < Shape::kMaxRank && place >= 0 && place <= x.rank();
  std::vector<int> sizes = sizes_of(x);
  if (fits) sizes.insert(sizes.begin() + place, 1);
  return {.op = [=](Inputs in) { return seppo::unsqueeze(in[0], axis); },
          .reference = [=](const auto& in) { return shaped(in[0], sizes); },
          .fits = fits,
          .torch = "torch.unsqueeze(x[0], " + std::to_string(axis) + ")"};
}

OpCase squeeze(Draw& d) {
  const Shape x = d.input({{1}, {1, 3}, {2, 1, 3}, {2, 0, 1}, {1, 1}});
  const int axis = d.axis(x.rank());
  const bool fits = has_axis(x, axis) && x[axis] == 1;
  std::vector<int> sizes = sizes_of(x);
  if (fits) sizes.erase(sizes.begin() + from_start(x, axis));
  return {.op = [=](Inputs in) { return seppo::squeeze(in[0], axis); },
          .reference = [=](const auto& in) { return shaped(in[0], sizes); },
          .fits = fits,
          .torch = "torch.squeeze(x[0], " + std::to_string(axis) + ")"};
}

OpCase expand(Draw& d) {
  const Shape x = d.input({{}, {1}, {3, 1}, {1, 4}, {2, 1, 3}, {0, 1}});
  std::vector<int> sizes = sizes_of(x);
  for (int& size : sizes)
    if (size == 1) size = d.one_of<int>({3, 1, 0});
  if (d.flag()) sizes.insert(sizes.begin(), 2);
  if (d.strays()) sizes.insert(sizes.end(), 1);
  bool fits = std::ssize(sizes) <= Shape::kMaxRank;
  for (int i = 1; fits && i <= x.rank(); ++i)
    fits = x[-i] == 1 || x[-i] == sizes[sizes.size() - static_cast<std::size_t>(i)];
  return {.op = [=](Inputs in) { return seppo::expand(in[0], shape_of(sizes)); },
          .reference =
              [=](const auto& in) {
                const std::decay_t<decltype(in[0])> frame(sizes);
                return ref::zip(in[0], frame, [](const auto& e, const auto&) { return e; });
              },
          .fits = fits,
          .torch = "x[0].expand(" + text(sizes) + ")"};
}

OpCase permute(Draw& d) {
  const Shape x = d.input({{3}, {3, 4}, {2, 3, 1, 4}, {0, 2, 3}});
  std::vector<int> left(static_cast<std::size_t>(x.rank())), order;
  std::iota(left.begin(), left.end(), 0);
  while (!left.empty()) {
    order.push_back(d.one_of(left));
    std::erase(left, order.back());
  }
  if (!order.empty() && d.strays()) order.back() = d.axis(x.rank());
  std::vector<int> plain, sorted(order.size());
  for (const int axis : order) plain.push_back(from_start(x, axis));
  std::iota(sorted.begin(), sorted.end(), 0);
  return {.op = [=](Inputs in) { return seppo::permute(in[0], order); },
          .reference = [=](const auto& in) { return ref::permute(in[0], plain); },
          .fits = std::ranges::is_permutation(plain, sorted),
          .torch = "torch.permute(x[0], " + text(order) + ")"};
}

OpCase transpose(Draw& d) {
  const Shape x = d.input({{3}, {3, 4}, {2, 3, 4}, {0, 4}});
  const int a = d.axis(x.rank()), b = d.axis(x.rank());
  const bool fits = has_axis(x, a) && has_axis(x, b);
  std::vector<int> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  if (fits) std::iter_swap(order.begin() + from_start(x, a), order.begin() + from_start(x, b));
  return {.op = [=](Inputs in) { return seppo::transpose(in[0], a, b); },
          .reference = [=](const auto& in) { return ref::permute(in[0], order); },
          .fits = fits,
          .torch = "torch.transpose(x[0], " + std::to_string(a) + ", " + std::to_string(b) + ")"};
}

OpCase flip(Draw& d) {
  const Shape x = d.input(kShapes);
  const Chosen over = chosen(d, x);
  const auto mirrored = [=](Index at) {
    for (const int axis : over.all) {
      int& own = at[static_cast<std::size_t>(axis)];
      own = x[axis] - 1 - own;
    }
    return at;
  };
  return {.op = [=](Inputs in) { return seppo::flip(in[0], over.axes()); },
          .reference = [=](const auto& in) { return ref::pick(in[0], sizes_of(x), mirrored); },
          .fits = over.fits,
          .torch = "torch.flip(x[0], " + text(over.all) + ")"};
}

OpCase triangle(Draw& d, bool is_lower) {
  const Shape x = d.input({{3, 3}, {2, 4}, {4, 2}, {2, 3, 4}, {2, 2, 3, 3}, {0, 3}});
  const int diagonal = d.integer(-4, 4);
  const auto kept = [=](auto y) {
    each_index(y.shape, [&](const Index& at) {
      const int above = at[at.size() - 1] - at[at.size() - 2];
      if (is_lower ? above > diagonal : above < diagonal) y(at) = 0;
    });
    return y;
  };
  const std::string torch = is_lower ? "torch.tril" : "torch.triu";
  return {.op = [=](Inputs in) { return is_lower ? seppo::tril(in[0], diagonal) : seppo::triu(in[0], diagonal); },
          .reference = [=](const auto& in) { return kept(in[0]); },
          .fits = x.rank() >= 2,
          .torch = torch + "(x[0], " + std::to_string(diagonal) + ")"};
}

OpCase slice(Draw& d) {
  const Shape x = d.input({{3}, {3, 4}, {2, 3, 3}});
  const int axis = d.axis(x.rank()), n = has_axis(x, axis) ? x[axis] : 1;
  const int begin = d.integer(-n, n), end = d.integer(-n, n);
  const int first = begin < 0 ? begin + n : begin, last = end < 0 ? end + n : end;
  return {.op = [=](Inputs in) { return seppo::slice(in[0], axis, begin, end); },
          .reference =
              [=](const auto& in) {
                return ref::pick(in[0], sizes_of(x.with(axis, last - first)), [=](Index at) {
                  at[static_cast<std::size_t>(from_start(x, axis))] += first;
                  return at;
                });
              },
          .fits = has_axis(x, axis) && 0 <= first && first <= last && last <= n,
          .torch = "x[0].narrow(" + std::to_string(axis) + ", " + std::to_string(first) + ", " +
                   std::to_string(last - first) + ")"};
}

// x, y and x again.
OpCase concat(Draw& d) {
  const Shape x = d.input({{3}, {2, 3}, {2, 3, 4}, {2, 0}});
  const int axis = d.axis(x.rank());
  const bool has = has_axis(x, axis);
  const Shape y = d.input_like(has ? x.with(axis, d.one_of<int>({x[axis], 0, 2})) : x);
  const auto place = static_cast<std::size_t>(has ? from_start(x, axis) : 0);
  bool fits = has && x.rank() == y.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == static_cast<int>(place) || x[i] == y[i];
  return {.op =
              [=](Inputs in) {
                return seppo::concat({in[0], in[1], in[0]}, axis);
              },
          .reference =
              [=](const auto& in) {
                const int one = x[axis], two = one + y[axis];
                std::decay_t<decltype(in[0])> all(sizes_of(x.with(axis, two + one)));
                each_index(all.shape, [&](const Index& at) {
                  const int i = at[place];
                  Index own = at;
                  own[place] = i < one ? i : i < two ? i - one : i - two;
                  all(at) = in[i < one || i >= two ? 0 : 1](own);
                });
                return all;
              },
          .fits = fits,
          .torch = "torch.cat([x[0], x[1], x[0]], " + std::to_string(axis) + ")"};
}

OpCase stack(Draw& d) {
  const Shape x = d.input({{}, {3}, {2, 3}, {2, 0, 3}, {2, 3, 2}}), y = d.input_like(x);
  const int axis = d.integer(-x.rank() - 1, x.rank()), place = axis < 0 ? axis + x.rank() + 1 : axis;
  const bool fits = x == y && place >= 0 && place <= x.rank() && x.rank() < Shape::kMaxRank;
  return {.op =
              [=](Inputs in) {
                return seppo::stack({in[0], in[1], in[0]}, axis);
              },
          .reference =
              [=](const auto& in) {
                std::vector<int> sizes = sizes_of(x);
                sizes.insert(sizes.begin() + place, 3);
                std::decay_t<decltype(in[0])> all(sizes);
                each_index(sizes, [&](const Index& at) {
                  Index own = at;
                  own.erase(own.begin() + place);
                  all(at) = in[static_cast<std::size_t>(at[static_cast<std::size_t>(place)] % 2)](own);
                });
                return all;
              },
          .fits = fits,
          .torch = "torch.stack([x[0], x[1], x[0]], " + std::to_string(axis) + ")"};
}

OpCase unfold(Draw& d) {
  const Shape x = d.input({{5}, {2, 6}, {6, 2}, {2, 4, 3}, {0, 4}});
  const int axis = d.axis(x.rank()), n = has_axis(x, axis) ? x[axis] : 1;
  const int size = d.integer(0, n), stride = d.integer(1, 3);
  const auto place = static_cast<std::size_t>(std::max(from_start(x, axis), 0));
  const std::string arguments = std::to_string(axis) + ", " + std::to_string(size) + ", " + std::to_string(stride);
  return {.op = [=](Inputs in) { return seppo::unfold(in[0], axis, size, stride); },
          .reference =
              [=](const auto& in) {
                std::vector<int> sizes = sizes_of(x.with(axis, (n - size) / stride + 1));
                sizes.push_back(size);
                return ref::pick(in[0], sizes, [=](Index at) {
                  at[place] = at[place] * stride + at.back();
                  at.pop_back();
                  return at;
                });
              },
          .fits = has_axis(x, axis) && 0 <= size && size <= n && stride > 0 && x.rank() < Shape::kMaxRank,
          .torch = size > 0 ? "x[0].unfold(" + arguments + ")" : ""};
}

// ---- parts: concatenated in reverse order, so that each must be the right one

Tensor reversed(std::vector<Tensor> parts, int axis) {
  std::ranges::reverse(parts);
  return seppo::concat(parts, axis);
}

template <class T>
Nd<T> reversed_parts(const Nd<T>& x, int axis, const std::vector<int>& sizes) {
  std::vector<int> order;  // of indices along the axis
  int end = x.size(axis);
  for (std::size_t i = sizes.size(); i-- > 0; end -= sizes[i])
    for (int k = end - sizes[i]; k < end; ++k) order.push_back(k);
  const auto place = static_cast<std::size_t>(axis < 0 ? axis + x.rank() : axis);
  return ref::pick(x, x.shape, [&](Index at) {
    at[place] = order[static_cast<std::size_t>(at[place])];
    return at;
  });
}

// n elements in parts of one size, the last of which may be smaller.
std::vector<int> equal_parts(int n, int size) {
  std::vector<int> sizes;
  for (int rest = n; rest > 0; rest -= size) sizes.push_back(std::min(rest, size));
  return sizes;
}

const std::vector<Shape> kDivided{{7, 2}, {2, 7, 3}, {3, 7}};

OpCase split(Draw& d) {
  const Shape x = d.input(kDivided);
  const int axis = d.axis(x.rank()), n = has_axis(x, axis) ? x[axis] : 1, first = d.integer(0, n);
  const std::vector<int> sizes{first, n - first, 0};
  return {.op = [=](Inputs in) { return reversed(seppo::split(in[0], sizes, axis), axis); },
          .reference = [=](const auto& in) { return reversed_parts(in[0], axis, sizes); },
          .fits = has_axis(x, axis) && 0 <= first && first <= n,
          .torch = "torch.cat(torch.split(x[0], " + text(sizes) + ", " + std::to_string(axis) + ")[::-1], " +
                   std::to_string(axis) + ")"};
}

OpCase split_evenly(Draw& d) {
  const Shape x = d.input(kDivided);
  const int axis = d.axis(x.rank()), n = has_axis(x, axis) ? x[axis] : 1, size = d.integer(1, n + 2);
  const std::string arguments = std::to_string(size) + ", " + std::to_string(axis);
  return {.op = [=](Inputs in) { return reversed(seppo::split(in[0], size, axis), axis); },
          .reference = [=](const auto& in) { return reversed_parts(in[0], axis, equal_parts(n, size)); },
          .fits = has_axis(x, axis) && size > 0,
          .torch = "torch.cat(torch.split(x[0], " + arguments + ")[::-1], " + std::to_string(axis) + ")"};
}

OpCase chunk(Draw& d) {
  const Shape x = d.input(kDivided);
  const int axis = d.axis(x.rank()), n = has_axis(x, axis) ? x[axis] : 1, chunks = d.integer(1, n + 1);
  const std::string arguments = std::to_string(chunks) + ", " + std::to_string(axis);
  return {.op = [=](Inputs in) { return reversed(seppo::chunk(in[0], chunks, axis), axis); },
          .reference =
              [=](const auto& in) {
                return reversed_parts(in[0], axis, equal_parts(n, std::max(1, (n + chunks - 1) / chunks)));
              },
          .fits = has_axis(x, axis) && chunks > 0,
          .torch = "torch.cat(torch.chunk(x[0], " + arguments + ")[::-1], " + std::to_string(axis) + ")"};
}

}  // namespace

std::vector<OpRow> shape_rows() {
  const std::vector<Shape> wide{{70, 1000}}, several{{7, 100, 100}};
  return {{"reshape", reshape, wide, Range::all},
          {"unsqueeze", unsqueeze, wide, Range::all},
          {"squeeze", squeeze, {{1, 70'000, 1}}, Range::all},
          {"expand", expand, {{100, 1, 100}}, Range::all},
          {"permute", permute, several, Range::all},
          {"transpose", transpose, several, Range::all},
          {"flip", flip, several, Range::all},
          {"tril", [](Draw& d) { return triangle(d, true); }, {{3, 150, 150}}, Range::all},
          {"triu", [](Draw& d) { return triangle(d, false); }, {{3, 150, 150}}, Range::all},
          {"slice", slice, several, Range::all},
          {"concat", concat, {{70, 100, 10}, {70, 100, 10}}, Range::all},
          {"stack", stack, {{70, 1000}, {70, 1000}}, Range::all},
          {"unfold", unfold, {{400, 20}}, Range::all},
          {"split", split, several, Range::all},
          {"split evenly", split_evenly, several, Range::all},
          {"chunk", chunk, several, Range::all}};
}

}  // namespace test
