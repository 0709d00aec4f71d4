// Reshape, permute, slices, concatenation and their gradients.
// needs: precision: double; full: single; simd: avx2 plain
#include "support/op_check.h"
#include "support/reference.h"

#include <numeric>

using namespace test;
namespace ref = test::reference;

BOOST_AUTO_TEST_CASE(embedding_with_its_own_rows_as_positions) {
  const std::vector<int> ids{3, 0, 3, 1}, positions{0, 1, 0, 2};
  const auto rows = [](const auto& table, const std::vector<int>& index) {
    auto y = std::decay_t<decltype(table)>({static_cast<int>(index.size()), table.size(1)});
    for (int i = 0; i < y.size(0); ++i)
      for (int c = 0; c < y.size(1); ++c) y({i, c}) = table({index[static_cast<std::size_t>(i)], c});
    return y;
  };
  check_op(
      "embedding aliased", {{5, 3}},
      [&](Inputs x) { return seppo::embedding(x[0], ids, {.positions = x[0], .position_ids = positions}); },
      [&](const auto& x) {
        return ref::zip(rows(x[0], ids), rows(x[0], positions), [](auto a, auto b) { return a + b; });
      });
}

BOOST_AUTO_TEST_CASE(reshape) {
  const auto shaped = [](auto x, std::vector<int> shape) {
    x.shape = std::move(shape);
    return x;
  };
  check_op(
      "reshape", {{2, 6}},
      [](Inputs x) {
        return seppo::reshape(x[0], {3, -1});
      },
      [&](const auto& x) {
        return shaped(x[0], {3, 4});
      });
  check_op(
      "reshape", {{}},
      [](Inputs x) {
        return seppo::reshape(x[0], {1, 1});
      },
      [&](const auto& x) {
        return shaped(x[0], {1, 1});
      });
  check_op(
      "reshape", {{0, 3}},
      [](Inputs x) {
        return seppo::reshape(x[0], {3, 0});
      },
      [&](const auto& x) {
        return shaped(x[0], {3, 0});
      });
  check_op(
      "reshape inside", {{2, 6}},
      [](Inputs x) { return seppo::tanh(seppo::reshape(seppo::exp(x[0]), {12})) * seppo::reshape(x[0], {12}); },
      [&](const auto& x) { return shaped(ref::map(x[0], [](auto v) { return std::tanh(std::exp(v)) * v; }), {12}); });
}

BOOST_AUTO_TEST_CASE(permute_and_transpose) {
  check_op(
      "permute", {{3}}, [](Inputs x) { return seppo::permute(x[0], {-1}); }, [](const auto& x) { return x[0]; });
  check_op(
      "transpose", {{3, 4}}, [](Inputs x) { return seppo::transpose(x[0]); },
      [](const auto& x) {
        return ref::permute(x[0], {1, 0});
      });
  check_op(
      "transpose", {{2, 3, 4}}, [](Inputs x) { return seppo::transpose(x[0], 0, -1); },
      [](const auto& x) {
        return ref::permute(x[0], {2, 1, 0});
      });
  check_op(
      "transpose", {{0, 4}}, [](Inputs x) { return seppo::transpose(x[0]); },
      [](const auto& x) {
        return ref::permute(x[0], {1, 0});
      });
}

namespace {
template <class T>
Nd<T> sliced(const Nd<T>& x, int axis, int begin, int end) {
  std::vector<int> shape = x.shape;
  shape[static_cast<std::size_t>(axis)] = end - begin;
  Nd<T> y(shape);
  each_index(shape, [&](std::vector<int> index) {
    T& to = y(index);
    index[static_cast<std::size_t>(axis)] += begin;
    to = x(index);
  });
  return y;
}
}  // namespace

BOOST_AUTO_TEST_CASE(slice) {
  // Overlapping slices of one intermediate value, which share storage, add into one gradient.
  check_op(
      "slices", {{4, 2}},
      [](Inputs x) {
        const Tensor y = seppo::exp(x[0]);
        return seppo::slice(y, 0, 0, 3) * seppo::slice(y, 0, 1, 4) + seppo::slice(seppo::slice(y, 0, 1, 4), 0, 0, 1);
      },
      [](const auto& x) {
        const auto y = ref::map(x[0], [](auto v) { return std::exp(v); });
        const auto p = ref::zip(sliced(y, 0, 0, 3), sliced(y, 0, 1, 4), [](auto a, auto b) { return a * b; });
        return ref::zip(p, sliced(y, 0, 1, 2), [](auto a, auto b) { return a + b; });
      });
  // A row of a matrix broadcast over all rows, so that its gradient is part of the other operand's.
  for (const int row : {0, 1, 2})
    for (const bool is_left : {true, false})
      check_op(
          "times its row", {{3, 2}},
          [=](Inputs x) {
            const Tensor part = seppo::slice(x[0], 0, row, row + 1);
            return is_left ? part * x[0] : x[0] * part;
          },
          [=](const auto& x) {
            return ref::zip(x[0], sliced(x[0], 0, row, row + 1), [](auto a, auto b) { return a * b; });
          });
}

BOOST_AUTO_TEST_CASE(concat) {
  const auto joined = [](const auto& parts, int axis) {
    std::vector<int> shape = parts[0].shape;
    shape[static_cast<std::size_t>(axis)] = 0;
    for (const auto& p : parts) shape[static_cast<std::size_t>(axis)] += p.size(axis);
    auto y = std::decay_t<decltype(parts[0])>(shape);
    int first = 0;
    for (const auto& p : parts) {
      each_index(p.shape, [&](std::vector<int> index) {
        const auto value = p(index);
        index[static_cast<std::size_t>(axis)] += first;
        y(index) = value;
      });
      first += p.size(axis);
    }
    return y;
  };
  const std::vector<std::pair<std::vector<Shape>, int>> cases = {{{{2, 3}, {4, 3}}, 0},
                                                                 {{{2, 3}, {2, 1}, {2, 2}}, 1},
                                                                 {{{2, 3, 4}, {2, 0, 4}, {2, 2, 4}}, 1},
                                                                 {{{3}, {1}}, 0},
                                                                 {{{2, 2}}, 1}};
  for (const auto& [shapes, axis] : cases)
    check_op(
        "concat", shapes, [axis = axis](Inputs x) { return seppo::concat(x, axis); },
        [&, axis = axis](const auto& x) { return joined(x, axis); });
  check_op(
      "concat aliased", {{2, 3}},
      [](Inputs x) {
        return seppo::concat({x[0], x[0]}, 1);
      },
      [&](const auto& x) {
        return joined(std::vector{x[0], x[0]}, 1);
      });
}

BOOST_AUTO_TEST_CASE(unfold) {
  for (const Shape& shape :
       {Shape{5}, Shape{2, 6}, Shape{6, 2}, Shape{2, 4, 3}, Shape{2, 5, 4, 3}, Shape{0, 4}, Shape{}})
    for (int axis = -std::max(shape.rank(), 1); axis < std::max(shape.rank(), 1); ++axis)
      for (const int step : {1, 2, 3}) {
        const int n = shape.rank() == 0 ? 1 : shape[axis];
        for (int size = 0; size <= n; ++size) {
          std::vector<int> result = sizes_of(shape.with(axis, (n - size) / step + 1));
          result.push_back(size);
          check_op(
              "unfold", {shape}, [=](Inputs x) { return seppo::unfold(x[0], axis, size, step); },
              [&](const auto& x) {
                return ref::pick(x[0], result, [&](std::vector<int> at) {
                  if (shape.rank() > 0) {
                    int& own = at[static_cast<std::size_t>(shape.axis(axis))];
                    own = own * step + at.back();
                  }
                  at.pop_back();
                  return at;
                });
              });
        }
      }
}

// As the header says: with windows over both axes, convolution is a matrix product, and max pooling an amax.
BOOST_AUTO_TEST_CASE(convolution_and_pooling_are_built_on_unfold) {
  const int n = 2, h = 5, w = 6, c = 2, out = 3, k = 3, s = 2, rows = (h - k) / s + 1, cols = (w - k) / s + 1;
  const auto windows = [=](const Tensor& x) { return seppo::unfold(seppo::unfold(x, 1, k, s), 2, k, s); };
  check_op(
      "convolution", {{n, h, w, c}, {c * k * k, out}},
      [=](Inputs x) {
        return seppo::matmul(seppo::reshape(windows(x[0]), {n, rows, cols, c * k * k}), x[1]);
      },
      [=](const auto& x) {
        auto y = x[0];
        y.shape = {n, rows, cols, out};
        y.v.assign(static_cast<std::size_t>(n * rows * cols * out), 0.0);
        each_index(y.shape, [&](const std::vector<int>& at) {
          for (int channel = 0; channel < c; ++channel)
            for (int i = 0; i < k; ++i)
              for (int j = 0; j < k; ++j)
                y(at) +=
                    x[0]({at[0], at[1] * s + i, at[2] * s + j, channel}) * x[1]({(channel * k + i) * k + j, at[3]});
        });
        return y;
      });
  check_op(
      "max pooling", {{n, h, w, c}},
      [=](Inputs x) {
        return seppo::amax(windows(x[0]), {-2, -1});
      },
      [=](const auto& x) {
        auto y = x[0];
        y.shape = {n, rows, cols, c};
        y.v.resize(static_cast<std::size_t>(n * rows * cols * c));
        each_index(y.shape, [&](const std::vector<int>& at) {
          auto top = x[0]({at[0], at[1] * s, at[2] * s, at[3]});
          for (int i = 0; i < k; ++i)
            for (int j = 0; j < k; ++j) {
              const auto v = x[0]({at[0], at[1] * s + i, at[2] * s + j, at[3]});
              if (real_part(v) > real_part(top)) top = v;
            }
          y(at) = top;
        });
        return y;
      });
}

BOOST_AUTO_TEST_CASE(views_share_storage_and_copies_do_not) {
  seppo::tape().clear();
  const Tensor x = seppo::variable({2, 3}, {1, 2, 3, 4, 5, 6});
  BOOST_CHECK(seppo::reshape(x, {3, 2}).data() == x.data() && seppo::detach(x).data() == x.data());
  BOOST_CHECK(seppo::unsqueeze(x, 1).data() == x.data());
  BOOST_CHECK(seppo::squeeze(seppo::unsqueeze(x, 0), 0).data() == x.data());
  BOOST_CHECK(seppo::slice(x, 0, 1, 2).data() == x.data() + 3);
  BOOST_CHECK(seppo::slice(x, 1, 0, 3).data() != x.data());
  BOOST_CHECK(seppo::transpose(x).data() != x.data() && seppo::expand(x, {1, 2, 3}).data() != x.data());
  seppo::grad_of(seppo::reshape(x, {6}))[4] += 7;  // and so are gradients
  BOOST_CHECK_EQUAL(seppo::grad_of(x)[4], 7);
}
