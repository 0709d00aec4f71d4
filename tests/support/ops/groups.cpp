// Rows of ops on groups of slices.
#include "support/ops/extreme.h"
#include "support/ops/rows.h"
#include "support/reference.h"

#include <seppo/autograd/ops.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace test {

namespace {

namespace ref = test::reference;

const std::vector<Shape> kShapes{{5}, {3, 4}, {2, 3, 4}, {2, 1, 1}, {3, 2, 2, 3}};

int size_along(const Shape& x, int axis) { return has_axis(x, axis) ? x[axis] : 1; }

std::string torch_indices(const std::vector<int>& index) { return "torch.tensor(" + text(index) + ")"; }

OpCase largest_at_indices(Draw& d) {
  const Shape x = d.input(kShapes);
  const int axis = d.axis(x.rank()), n = size_along(x, axis), count = d.one_of<int>({0, 1, 4});
  std::vector<int> index = d.indices(static_cast<std::size_t>(count), -n, n - 1);
  const Shape wanted = has_axis(x, axis) ? x.with(axis, count) : x;
  const Shape source = d.input_like(wanted);
  const bool fits =
      has_axis(x, axis) && source == wanted && std::ranges::all_of(index, [=](int i) { return -n <= i && i < n; });
  std::vector<int> places = index;
  for (int& place : places) place += place < 0 ? n : 0;
  const auto at = static_cast<std::size_t>(fits ? from_start(x, axis) : 0);
  return {.op = [=](Inputs in) { return seppo::index_amax(in[0], axis, index, in[1]); },
          .reference =
              [=](const auto& in) {
                auto y = in[0];
                std::vector<std::decay_t<decltype(y.v)>> candidates;  // for each element of y
                for (const auto& e : y.v) candidates.push_back({e});
                each_index(in[1].shape, [&](std::vector<int> to) {
                  const auto e = in[1](to);
                  to[at] = places[static_cast<std::size_t>(to[at])];
                  candidates[y.offset(to)].push_back(e);
                });
                for (std::size_t i = 0; i < y.v.size(); ++i) y.v[i] = extreme_of(candidates[i], 1);
                return y;
              },
          .fits = fits,
          .torch = count == 0 ? ""
                              : "x[0].index_reduce(" + std::to_string(axis) + ", " + torch_indices(places) +
                                    ", x[1], 'amax')"};
}

OpCase softmax_of_groups(Draw& d) {
  const Shape x = d.input(kShapes);
  const int axis = d.axis(x.rank()), n = size_along(x, axis), count = d.strays() ? n + 1 : n;
  std::vector<int> index = d.indices(static_cast<std::size_t>(count), -1, 1);
  const int step = d.one_of(std::vector{1, 1'000'000, std::numeric_limits<int>::max()});  // only equality matters
  for (int& i : index) i *= step;
  const auto softmax = [=](auto& row) {
    const auto scores = row;
    for (std::size_t i = 0; i < row.size(); ++i) {
      double most = real_part(scores[i]);
      for (std::size_t j = 0; j < row.size(); ++j)
        if (index[j] == index[i]) most = std::max(most, real_part(scores[j]));
      typename std::decay_t<decltype(row)>::value_type sum = 0;
      for (std::size_t j = 0; j < row.size(); ++j)
        if (index[j] == index[i]) sum += std::exp(scores[j] - most);
      row[i] = std::exp(scores[i] - most) / sum;
    }
  };
  const std::string at = std::to_string(axis);
  return {.op = [=](Inputs in) { return seppo::index_softmax(in[0], axis, index); },
          .reference = [=](const auto& in) { return ref::along(in[0], axis, softmax); },
          .fits = has_axis(x, axis) && count == n,
          .torch = "(lambda e, i: e / torch.tensordot((i[:, None] == i).double(), e, ([1], [" + at + "])).movedim(0, " +
                   at + "))(x[0].exp(), " + torch_indices(index) + ")"};
}

}  // namespace

std::vector<OpRow> group_rows() {
  return {{"index_amax", largest_at_indices, {}, Range::all}, {"index_softmax", softmax_of_groups, {{7000, 10}}}};
}

}  // namespace test
