// Rows of attention.
#include "support/ops/rows.h"
#include "support/reference.h"

#include <seppo/autograd/ops.h>

#include <cmath>

namespace test {

namespace {

// With an axis for heads, of which those of Q share those of K and V: [sequences, heads, rows, width].
template <class T>
Nd<T> attention_of_heads(const Arrays<T>& x, bool is_causal) {
  const Nd<T>&q = x[0], &k = x[1], &v = x[2];
  const int queries = q.size(2), keys = k.size(2), width = q.size(3), shared = q.size(1) / k.size(1);
  Nd<T> out({q.size(0), q.size(1), queries, v.size(3)});
  each_index({q.size(0), q.size(1), queries}, [&](const std::vector<int>& at) {
    const int s = at[0], h = at[1], i = at[2];
    std::vector<T> weights;
    for (int j = 0; j < keys; ++j) {
      T product = 0;
      for (int c = 0; c < width; ++c) product += q({s, h, i, c}) * k({s, h / shared, j, c});
      weights.push_back(product / std::sqrt(static_cast<double>(width)));
    }
    reference::softmax_allowed<T>(
        weights, [&](std::size_t j) { return !is_causal || static_cast<int>(j) <= i + keys - queries; });
    for (int j = 0; j < keys; ++j)
      for (int c = 0; c < v.size(3); ++c)
        out({s, h, i, c}) += weights[static_cast<std::size_t>(j)] * v({s, h / shared, j, c});
  });
  return out;
}

bool heads_fit(const Shape& q, const Shape& k, const Shape& v) {
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) return false;
  const bool has_elements = q[1] > 0 && k[1] > 0 && q[3] > 0 && v[3] > 0;
  const bool is_batch = q[0] == k[0] && q[0] == v[0];
  return has_elements && is_batch && q[1] % k[1] == 0 && q[3] == k[3] && k[1] == v[1] && k[2] == v[2];
}

OpCase heads_on_an_axis(Draw& d) {
  const Shape q = d.input({{2, 4, 3, 3}, {3, 2, 4, 2}, {1, 1, 2, 5}});
  const Shape like = q.rank() == 4 ? q : Shape{2, 2, 3, 3};
  const int heads = d.flag() ? 1 : like[1], keys = d.one_of<int>({2, 5});
  const Shape k = d.input_like({like[0], heads, keys, like[3]}), v = d.input_like({like[0], heads, keys, 2});
  const bool is_causal = d.flag(), fits = heads_fit(q, k, v);
  const std::string shared = std::to_string(fits ? q[1] / k[1] : 1), width = std::to_string(like[3]);
  return {.op =
              [=](Inputs x) {
                const seppo::Mask mask = is_causal ? seppo::Mask::causal() : seppo::Mask::none();
                return seppo::attention(x[0], x[1], x[2], {.mask = mask});
              },
          .reference = [=](const auto& x) { return attention_of_heads(x, is_causal); },
          .fits = fits,
          .torch = is_causal ? ""
                             : "(lambda q, k, v: (q @ k.mT / " + width +
                                   " ** 0.5).softmax(-1) @ v)(x[0], *(y.repeat_interleave(" + shared +
                                   ", 1) for y in x[1:]))",
          .terms =
              [](std::span<const double> most) {
                const double score = most[0] * most[1];
                return score > 1e3 ? 1e300 : (1 + score) * most[2];
              }};
}

}  // namespace

std::vector<OpRow> attention_rows() {
  return {{"attention of heads", heads_on_an_axis, {{4, 4, 90, 32}, {4, 2, 100, 32}, {4, 2, 100, 16}}}};
}

}  // namespace test
