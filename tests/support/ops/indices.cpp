// Rows of ops that take indices.
#include "support/ops/rows.h"
#include "support/reference.h"

#include <seppo/autograd/ops.h>

#include <algorithm>

namespace test {

namespace {

namespace ref = test::reference;
using Index = std::vector<int>;

bool are_within(const Index& indices, int low, int high) {
  return std::ranges::all_of(indices, [=](int i) { return low <= i && i <= high; });
}

// Its rows at these indices; those at `frozen` have no slope.
template <class T>
Nd<T> rows_of(const Nd<T>& table, const Index& ids, int frozen = -1) {
  Nd<T> y({static_cast<int>(ids.size()), table.size(1)});
  for (int i = 0; i < y.size(0); ++i)
    for (int c = 0; c < y.size(1); ++c) {
      const int id = ids[static_cast<std::size_t>(i)];
      y({i, c}) = id == frozen ? T(real_part(table({id, c}))) : table({id, c});
    }
  return y;
}

OpCase embedding(Draw& d) {
  const Shape table = d.input({{5, 3}, {5, 17}});
  const int rows = table.rank() == 2 ? table[0] : 3;
  const Index ids = d.indices(d.one_of<std::size_t>({4, 0, 9}), 0, rows - 1);
  const int padding = d.flag() ? 3 : -1;
  return {.op = [=](Inputs in) { return seppo::embedding(in[0], ids, {.padding_idx = padding}); },
          .reference = [=](const auto& in) { return rows_of(in[0], ids, padding); },
          .fits = table.rank() == 2 && are_within(ids, 0, rows - 1),
          .torch = ids.empty()
                       ? ""
                       : "F.embedding(torch.tensor(" + text(ids) + "), x[0]" + (padding < 0 ? ")" : ", padding_idx=3)"),
          .options = {.by_differences = padding < 0}};
}

OpCase embedding_with_positions(Draw& d) {
  const Shape table = d.input({{5, 3}, {5, 17}});
  const Shape positions = d.input_like(table.rank() == 2 ? table.with(0, 3) : table);
  const bool fit = table.rank() == 2 && positions.rank() == 2 && table[1] == positions[1];
  const int rows = fit ? table[0] : 3, places = fit ? positions[0] : 3;
  const std::size_t count = d.one_of<std::size_t>({4, 0, 9});
  const Index ids = d.indices(count, 0, rows - 1), at = d.indices(count, 0, places - 1);
  const int padding = d.flag() ? 1 : -1;  // of the ids, and of no position
  const std::string of_ids =
      "F.embedding(torch.tensor(" + text(ids) + "), x[0]" + (padding < 0 ? "" : ", padding_idx=1");
  const std::string of_positions = "F.embedding(torch.tensor(" + text(at) + "), x[1])";
  return {.op =
              [=](Inputs in) {
                return seppo::embedding(in[0], ids,
                                        {.scale = 2.5, .positions = in[1], .position_ids = at, .padding_idx = padding});
              },
          .reference =
              [=](const auto& in) {
                return ref::zip(rows_of(in[0], ids, padding), rows_of(in[1], at),
                                [](auto a, auto b) { return 2.5 * a + b; });
              },
          .fits = fit && are_within(ids, 0, rows - 1) && are_within(at, 0, places - 1),
          .torch = count == 0 ? "" : "2.5 * " + of_ids + ") + " + of_positions,
          .options = {.by_differences = padding < 0}};
}

OpCase one_hot(Draw& d) {
  const int classes = d.integer(1, 4);
  const Index ids = d.indices(d.one_of<std::size_t>({3, 0, 5}), 0, std::max(classes - 1, 0));
  return {.op = [=](Inputs) { return seppo::one_hot(ids, classes); },
          .reference =
              [=](const auto& in) {
                typename std::decay_t<decltype(in)>::value_type y({static_cast<int>(ids.size()), classes});
                for (int i = 0; i < y.size(0); ++i) y({i, ids[static_cast<std::size_t>(i)]}) = 1;
                return y;
              },
          .fits = classes > 0 && are_within(ids, 0, classes - 1),
          .torch = ids.empty()
                       ? ""
                       : "F.one_hot(torch.tensor(" + text(ids) + "), " + std::to_string(classes) + ").double()"};
}

// Indices for each element of a shape, along an axis of n elements.
struct Pointing {
  int axis, n;
  std::vector<int> sizes;
  Index indices;

  // Where the element at this index points.
  Index operator()(const Index& at) const {
    const int i = indices[Nd<double>(sizes).offset(at)];
    Index to = at;
    to[static_cast<std::size_t>(axis)] = i < 0 ? i + n : i;
    return to;
  }
  seppo::Indices of() const { return {shape_of(sizes), indices}; }
  std::string torch() const {
    return "torch.tensor(" + text(indices) + ", dtype=torch.long).reshape(" + text(sizes) + ")";
  }
};

// Of any length along the axis, and not larger than x elsewhere; now and then too large.
Pointing pointing(Draw& d, const Shape& x, int axis) {
  const bool has = has_axis(x, axis);
  Pointing p{.axis = has ? from_start(x, axis) : 0, .n = has ? x[axis] : 1, .sizes = sizes_of(x), .indices = {}};
  if (d.flag())
    for (int& size : p.sizes) size = std::min(size, std::max(size - 1, 1));
  if (has) p.sizes[static_cast<std::size_t>(p.axis)] = d.one_of<int>({4, 0, 1});
  if (!p.sizes.empty() && d.strays()) ++p.sizes.back();
  p.indices = d.indices(Nd<double>::count(p.sizes), -p.n, p.n - 1);
  return p;
}

bool fits(const Pointing& p, const Shape& x, int but_for) {
  bool fits = x.rank() == static_cast<int>(p.sizes.size());
  for (int a = 0; fits && a < x.rank(); ++a) fits = a == but_for || p.sizes[static_cast<std::size_t>(a)] <= x[a];
  return fits && are_within(p.indices, -p.n, p.n - 1);
}

const std::vector<Shape> kPointedAt{{5}, {1}, {3, 4}, {2, 3, 4}, {4, 1, 2}, {2, 3, 2, 3}};

OpCase gather(Draw& d) {
  const Shape x = d.input(kPointedAt);
  const int axis = d.axis(x.rank());
  const Pointing p = pointing(d, x, axis);
  return {.op = [=](Inputs in) { return seppo::gather(in[0], axis, p.of()); },
          .reference = [=](const auto& in) { return ref::pick(in[0], p.sizes, p); },
          .fits = has_axis(x, axis) && (p.indices.empty() || fits(p, x, p.axis)),
          .torch = "torch.gather(x[0], " + std::to_string(axis) + ", " + p.torch() + " % " + std::to_string(p.n) + ")"};
}

// The source may be larger than the indices: the rest of it is ignored.
OpCase scatter_add(Draw& d) {
  const Shape x = d.input(kPointedAt);
  const int axis = d.axis(x.rank());
  const Pointing p = pointing(d, x, axis);
  std::vector<int> sizes = p.sizes;
  if (d.flag())
    for (int& size : sizes) ++size;
  const Shape source = d.input_like(shape_of(sizes));
  return {.op = [=](Inputs in) { return seppo::scatter_add(in[0], axis, p.of(), in[1]); },
          .reference =
              [=](const auto& in) {
                auto y = in[0];
                each_index(p.sizes, [&](const Index& at) { y(p(at)) += in[1](at); });
                return y;
              },
          .fits = has_axis(x, axis) && fits(p, x, p.axis) && fits(p, source, -1),
          .torch = "torch.scatter_add(x[0], " + std::to_string(axis) + ", " + p.torch() + " % " + std::to_string(p.n) +
                   ", x[1][tuple(map(slice, " + text(p.sizes) + "))])",
          .options = {.aliased = false},
          .terms = [](std::span<const double> most) { return most[1]; }};
}

// Slices of x at indices, with which `change` combines those of a source of the shape that index_select gives.
struct Slices {
  Shape x;
  int axis, n;
  Index indices;
  bool fits;

  Index operator()(Index at) const {
    int& own = at[static_cast<std::size_t>(from_start(x, axis))];
    const int i = indices[static_cast<std::size_t>(own)];
    own = i < 0 ? i + n : i;
    return at;
  }
  Shape selected() const { return x.with(axis, static_cast<int>(indices.size())); }
  std::string torch() const {
    return std::to_string(axis) + ", torch.tensor(" + text(indices) + ", dtype=torch.long) % " + std::to_string(n);
  }
};

Slices slices(Draw& d) {
  Slices s{.x = d.input({{5}, {3, 4}, {2, 3, 4}, {2, 3, 2, 3}, {2, 1, 1}, {3, 0}}),
           .axis = 0,
           .n = 1,
           .indices = {},
           .fits = false};
  s.axis = d.axis(s.x.rank());
  s.n = has_axis(s.x, s.axis) ? s.x[s.axis] : 1;
  s.indices = d.indices(s.n == 0 ? 0 : d.one_of<std::size_t>({5, 0, 1}), -s.n, s.n - 1);
  s.fits = has_axis(s.x, s.axis) && are_within(s.indices, -s.n, s.n - 1);
  return s;
}

OpCase index_select(Draw& d) {
  const Slices s = slices(d);
  return {.op = [=](Inputs in) { return seppo::index_select(in[0], s.axis, s.indices); },
          .reference = [=](const auto& in) { return ref::pick(in[0], sizes_of(s.selected()), s); },
          .fits = s.fits,
          .torch = s.n == 0 ? "" : "torch.index_select(x[0], " + s.torch() + ")"};
}

OpCase index_add(Draw& d) {
  const Slices s = slices(d);
  const Shape source = d.input_like(s.fits ? s.selected() : s.x);
  return {.op = [=](Inputs in) { return seppo::index_add(in[0], s.axis, s.indices, in[1]); },
          .reference =
              [=](const auto& in) {
                auto y = in[0];
                each_index(in[1].shape, [&](const Index& at) { y(s(at)) += in[1](at); });
                return y;
              },
          .fits = s.fits && source == s.selected(),
          .torch = s.n == 0 ? "" : "torch.index_add(x[0], " + s.torch() + ", x[1])",
          .terms = [](std::span<const double> most) { return 5 * most[1]; }};
}

}  // namespace

std::vector<OpRow> index_rows() {
  const std::vector<Shape> of_many_indices{};  // threads_everywhere has them in calls of its own
  return {{"embedding", embedding, of_many_indices, Range::all},
          {"embedding with positions", embedding_with_positions, of_many_indices, Range::finite},
          {"one_hot", one_hot, of_many_indices, Range::all},
          {"gather", gather, of_many_indices, Range::all},
          {"scatter_add", scatter_add, of_many_indices, Range::finite},
          {"index_select", index_select, of_many_indices, Range::all},
          {"index_add", index_add, of_many_indices, Range::finite}};
}

}  // namespace test
