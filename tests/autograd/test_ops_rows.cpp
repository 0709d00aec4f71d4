// Softmax, norms and Add & Norm against naive references.
// needs: precision: double single; simd: avx2 plain
#define BOOST_TEST_MODULE ops_rows
#include "support/op_check.h"
#include "support/reference.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/core/parallel.h>

#include <functional>
#include <limits>

using namespace test;
namespace ref = test::reference;

namespace {
const std::vector<Shape> kShapes = {{1}, {5}, {3, 4}, {1, 1}, {2, 3, 17}, {2, 3, 4, 5}, {0, 4}, {9, 33}};
}

BOOST_AUTO_TEST_CASE(softmax_over_every_axis) {
  for (const Shape& shape : kShapes)
    for (int axis = -shape.rank(); axis < shape.rank(); ++axis)
      check_op(
          "softmax", {shape}, [=](Inputs x) { return seppo::softmax(x[0], axis); },
          [=](const auto& x) { return ref::along(x[0], axis, [](auto& row) { ref::softmax(row); }); });
}

BOOST_AUTO_TEST_CASE(log_softmax_over_every_axis) {
  for (const Shape& shape : kShapes)
    for (int axis = 0; axis < shape.rank(); ++axis)
      check_op(
          "log_softmax", {shape}, [=](Inputs x) { return seppo::log_softmax(x[0], axis); },
          [=](const auto& x) {
            return ref::along(x[0], axis, [](auto& row) {
              typename std::decay_t<decltype(row)>::value_type total = 0;
              for (const auto& e : row) total += std::exp(e);
              for (auto& e : row) e -= std::log(total);
            });
          });
}

BOOST_AUTO_TEST_CASE(masked_softmax) {
  // 2 sequences of 3 queries and 4 keys each
  const std::vector<int> lengths{2, 0};
  const std::vector<std::uint8_t> pairs{1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0};
  const auto check_mask = [&](const std::string& name, const seppo::Mask& mask, const auto& allowed) {
    check_op(
        name, {{2, 3, 4}}, [=](Inputs x) { return seppo::softmax(x[0], mask); },
        [=](const auto& x) {
          int i = 0;
          return ref::along(x[0], -1, [&](auto& row) {
            ref::softmax_allowed(row, [&](std::size_t j) { return allowed(i / 3, i % 3, static_cast<int>(j)); });
            ++i;
          });
        });
  };
  check_mask("softmax none", seppo::Mask::none(), [](int, int, int) { return true; });
  check_mask("softmax causal", seppo::Mask::causal(), [](int, int i, int j) { return j <= i + 1; });
  check_mask("softmax lengths", seppo::Mask::valid_lengths(lengths),
             [&](int s, int, int j) { return j < lengths[static_cast<std::size_t>(s)]; });
  check_mask("softmax both", seppo::Mask::causal_valid_lengths(lengths),
             [&](int s, int i, int j) { return j <= i + 1 && j < lengths[static_cast<std::size_t>(s)]; });
  check_mask("softmax pairs", seppo::Mask::allowed(pairs),
             [&](int s, int i, int j) { return pairs[static_cast<std::size_t>((s * 3 + i) * 4 + j)] != 0; });
  // the second sequence sees no key: exact zeros
  seppo::tape().clear();
  std::vector<std::uint8_t> first(24, 0);
  std::fill_n(first.begin(), 12, std::uint8_t{1});
  for (const auto& mask : {seppo::Mask::valid_lengths(lengths), seppo::Mask::allowed(first)}) {
    const Tensor x = seppo::variable({2, 3, 4}, seppo::arange(24).values()), y = seppo::softmax(x, mask);
    seppo::tape().backward(y, x.values());
    for (std::size_t i = 12; i < 24; ++i) BOOST_CHECK(y.values()[i] == 0 && x.grad()[i] == 0);
  }
}

// With more queries than keys, the first queries see nothing.
BOOST_AUTO_TEST_CASE(causal_softmax_of_more_queries_than_keys) {
  check_op(
      "softmax causal", {{2, 5, 3}}, [](Inputs x) { return seppo::softmax(x[0], seppo::Mask::causal()); },
      [](const auto& x) {
        int i = 0;
        return ref::along(x[0], -1, [&](auto& row) {
          ref::softmax_allowed(row, [&](std::size_t j) { return static_cast<int>(j) <= i % 5 - 2; });
          ++i;
        });
      });
}

BOOST_AUTO_TEST_CASE(layer_norm) {
  for (const Shape& shape : {Shape{4}, Shape{3, 5}, Shape{2, 3, 4}, Shape{2, 1, 3, 17}, Shape{0, 4}, Shape{4, 40}}) {
    const int n = shape[-1];
    check_op(
        "layer_norm", {shape, {n}, {n}}, [](Inputs x) { return seppo::layer_norm(x[0], x[1], x[2], 1e-5); },
        [](const auto& x) { return ref::layer_norm(x[0], x[1], x[2], 1e-5); });
  }
  // One element: the output is the bias and no gradient reaches x, up to rounding times 1 / sqrt(eps).
  check_op(
      "layer_norm", {{3, 1}, {1}, {1}}, [](Inputs x) { return seppo::layer_norm(x[0], x[1], x[2], 1); },
      [](const auto& x) { return ref::layer_norm(x[0], x[1], x[2], 1); });
  check_op(
      "layer_norm aliased", {{5}}, [](Inputs x) { return seppo::layer_norm(x[0], x[0], x[0], 1e-3); },
      [](const auto& x) { return ref::layer_norm(x[0], x[0], x[0], 1e-3); });
}

BOOST_AUTO_TEST_CASE(cross_entropy) {
  const std::vector<int> targets{1, 0, 3, 3, 2, 0};
  for (const double smoothing : {0.0, 0.1, 1.0})
    for (const int ignored : {-100, 3, 0})
      for (const bool mean : {true, false})
        for (const Shape& shape : {Shape{6, 4}, Shape{2, 3, 4}})
          check_op(
              "cross_entropy", {shape},
              [&](Inputs x) {
                return seppo::cross_entropy(
                    x[0], targets, {smoothing, ignored, mean ? seppo::Reduction::mean : seppo::Reduction::sum});
              },
              [&](const auto& x) {
                auto y = x[0];
                y.shape = {};
                y.v = {ref::cross_entropy(x[0], targets, smoothing, ignored, mean)};
                return y;
              });
}

BOOST_AUTO_TEST_CASE(cross_entropy_of_nothing_is_zero) {
  seppo::Tape& t = seppo::tape();
  t.clear();
  const Tensor x = seppo::variable({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor loss = seppo::cross_entropy(x, std::vector<int>{-1, -1}, {.ignore_index = -1});
  BOOST_CHECK_EQUAL(loss.item(), 0);
  t.backward(loss);
  for (const real g : x.grad()) BOOST_CHECK_EQUAL(g, 0);
  BOOST_CHECK_EQUAL(seppo::cross_entropy(seppo::zeros({0, 3}), std::vector<int>{}).item(), 0);
}

BOOST_AUTO_TEST_CASE(cross_entropy_ignores_a_shift_of_the_logits) {
  seppo::tape().clear();
  seppo::RandomStream random(5, seppo::Purpose::test);
  std::vector<double> a, b;
  for (int i = 0; i < 20; ++i) a.push_back(random.normal()), b.push_back(a.back() + 100);
  const std::vector<int> targets{0, 1, 2, 3};
  BOOST_CHECK_SMALL(double{seppo::cross_entropy(seppo::tensor({4, 5}, reals(a)), targets).item() -
                           seppo::cross_entropy(seppo::tensor({4, 5}, reals(b)), targets).item()},
                    kIsDouble ? 1e-12 : 3e-5);  // a shift of 100 costs two digits
}

BOOST_AUTO_TEST_CASE(layer_norm_ignores_scale_and_shift_of_a_row) {
  seppo::tape().clear();
  seppo::RandomStream random(5, seppo::Purpose::test);
  std::vector<double> a, b;
  for (int i = 0; i < 32; ++i) a.push_back(random.normal()), b.push_back(3.5 * a.back() - 20);
  const Tensor gain = seppo::full({32}, 1.5), bias = seppo::full({32}, 0.25);
  const Tensor y = seppo::layer_norm(seppo::tensor({1, 32}, reals(a)), gain, bias, 0),
               z = seppo::layer_norm(seppo::tensor({1, 32}, reals(b)), gain, bias, 0);
  check_close(z.values(), {y.values().begin(), y.values().end()}, 1e-12, "layer_norm");
}

BOOST_AUTO_TEST_CASE(add_norm) {
  for (const int cols : {1, 5, 32})
    check_op(
        "add_norm", {{3, cols}, {3, cols}, {cols}, {cols}},
        [](Inputs x) { return seppo::add_norm(x[0], x[1], x[2], x[3], {.eps = 0.1}); },
        [](const auto& x) {
          return ref::layer_norm(ref::zip(x[0], x[1], [](auto a, auto b) { return a + b; }), x[2], x[3], 0.1);
        });
}

// A row that is one of x and one of y gets both gradients, as many threads as there may be.
BOOST_AUTO_TEST_CASE(add_norm_of_overlapping_parts_of_one_tensor) {
  seppo::RandomStream random(1, seppo::Purpose::test);
  const int n = 6000, shift = 2056, d = 8;  // rows, of which a thread takes 2056
  const auto part = [=](std::span<const real> all, int first) {
    return all.subspan(static_cast<std::size_t>(first * d), static_cast<std::size_t>(n * d));
  };
  seppo::tape().clear();
  const Tensor all = seppo::variable({n + shift, d}, seppo::randn({n + shift, d}, random).values());
  const Tensor x = seppo::variable({n, d}, part(all.values(), 0)),
               y = seppo::variable({n, d}, part(all.values(), shift));
  const Tensor gain = seppo::ones({d}), dout = seppo::randn({n, d}, random);
  seppo::set_num_threads(3);
  const auto backward = [&](const Tensor& a, const Tensor& b) {
    seppo::tape().backward(seppo::add_norm(a, b, gain, {}), dout.values());
  };
  backward(x, y);
  backward(seppo::slice(all, 0, 0, n), seppo::slice(all, 0, shift, n + shift));
  seppo::set_num_threads(1);
  std::vector<double> expected(all.numel());
  for (std::size_t i = 0; i < x.numel(); ++i) {
    expected[i] += double{x.grad()[i]};
    expected[i + shift * d] += double{y.grad()[i]};
  }
  check_close(all.grad(), expected, 1e-12, "gradient of all");
}

// The fused ops equal their compositions, with the same dropout masks; rows end within groups of random bits.
BOOST_AUTO_TEST_CASE(fused_dropout_equals_its_composition) {
  using Build = std::function<Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&)>;
  const auto run = [](int cols, const Build& build, seppo::Mode mode = seppo::Mode::train) {
    seppo::Tape& t = seppo::tape();
    const seppo::UseMode scope(mode);
    t.clear();
    t.random = {1, 2, 3, 4};
    std::vector<Tensor> x;
    for (const Shape& shape : {Shape{7, cols}, Shape{7, cols}, Shape{cols}, Shape{cols}}) {
      seppo::RandomStream random(x.size(), seppo::Purpose::test);
      std::vector<double> values;
      for (int i = 0; i < static_cast<int>(shape.numel()); ++i) values.push_back(random.normal());
      x.push_back(seppo::variable(shape, reals(values)));
    }
    const Tensor y = build(x[0], x[1], x[2], x[3]);
    std::vector<double> cotangent(x[0].values().rbegin(), x[0].values().rend());
    std::vector<double> all(y.values().begin(), y.values().end());
    if (mode == seppo::Mode::eval) return all;
    t.backward(y, reals(cotangent));
    for (const Tensor& input : x) all.insert(all.end(), seppo::grad_of(input), seppo::grad_of(input) + input.numel());
    return all;
  };
  for (const int cols : {3, 32, 128, 200}) {
    for (const auto& [before, after] : {std::pair{0.3, 0.0}, std::pair{0.0, 0.2}, std::pair{0.5, 0.4}})
      for (const bool is_centred : {true, false})
        for (const seppo::Mode mode : {seppo::Mode::train, seppo::Mode::eval}) {
          const seppo::AddNormOptions options{0.01, before, after, is_centred};
          const Build fused = [&](const Tensor& x, const Tensor& y, const Tensor& gain, const Tensor& bias) {
            return seppo::add_norm(x, y, gain, is_centred ? bias : Tensor(), options);
          };
          const Build composed = [&](const Tensor& x, const Tensor& y, const Tensor& gain, const Tensor& bias) {
            const Tensor sum = x + seppo::dropout(y, options.dropout_before);
            return seppo::dropout(
                is_centred ? seppo::layer_norm(sum, gain, bias, 0.01) : seppo::rms_norm(sum, gain, 0.01),
                options.dropout_after);
          };
          check_close(run(cols, fused, mode), run(cols, composed, mode), 1e-12, "add_norm");
        }
    const auto keep_used = [](const Tensor& y, const Tensor& gain, const Tensor& bias) { return y * gain + bias; };
    check_close(run(cols, [&](const Tensor& x, const Tensor& y, const Tensor& gain,
                              const Tensor& bias) { return keep_used(seppo::add_dropout(x, y, 0.3), gain, bias); }),
                run(cols, [&](const Tensor& x, const Tensor& y, const Tensor& gain,
                              const Tensor& bias) { return keep_used(x + seppo::dropout(y, 0.3), gain, bias); }),
                1e-12, "add_dropout");
  }
  seppo::tape().clear();
}
