// Softmax, norms and Add & Norm beside their rows in the table: limits, invariances, dropout.
// needs: precision: double single; simd: avx2 plain
#include "support/op_check.h"
#include "support/reference.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/core/parallel.h>

#include <functional>
#include <limits>

using namespace test;
namespace ref = test::reference;

// Of two sequences of 3 queries and 4 keys each, the second sees no key.
BOOST_AUTO_TEST_CASE(masked_softmax) {
  const std::vector<int> lengths{2, 0};
  seppo::tape().clear();
  std::vector<std::uint8_t> first(24, 0);
  std::fill_n(first.begin(), 12, std::uint8_t{1});
  for (const auto& mask : {seppo::Mask::valid_lengths(lengths), seppo::Mask::allowed(first)}) {
    const Tensor x = seppo::variable({2, 3, 4}, seppo::arange(24).values()), y = seppo::softmax(x, mask);
    seppo::tape().backward(y, x.values());
    for (std::size_t i = 12; i < 24; ++i) BOOST_CHECK(y.values()[i] == 0 && x.grad()[i] == 0);
  }
}

// Of two sequences of three queries and four keys each, every query has a length of its own.
BOOST_AUTO_TEST_CASE(softmax_with_valid_lengths_of_queries) {
  const std::vector<int> lengths{2, 0, 4, 1, 3, 2};
  check_op(
      "softmax of valid lengths", {{2, 3, 4}},
      [&](Inputs x) { return seppo::softmax(x[0], seppo::Mask::valid_query_lengths(lengths)); },
      [&](const auto& x) {
        std::size_t i = 0;
        return ref::along(x[0], -1, [&](auto& row) {
          const auto count = static_cast<std::size_t>(lengths[i++ % lengths.size()]);
          ref::softmax_allowed(row, [&](std::size_t j) { return j < count; });
        });
      });
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

// Every mask with every other: what one forbids stays forbidden.
BOOST_AUTO_TEST_CASE(softmax_of_all_masks_together) {
  const std::vector<int> of_sequences{3, 4}, of_queries{2, 0, 4, 1, 4, 3};
  std::vector<std::uint8_t> pairs(24);
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = i % 3 != 1;
  for (unsigned chosen = 0; chosen < 16; ++chosen) {
    const bool is_causal = chosen & 1, has_lengths = chosen & 2, has_query_lengths = chosen & 4, has_pairs = chosen & 8;
    seppo::Mask mask{.is_causal = is_causal};
    if (has_lengths) mask.lengths = of_sequences;
    if (has_query_lengths) mask.query_lengths = of_queries;
    if (has_pairs) mask.pairs = pairs;
    check_op(
        "softmax of masks " + std::to_string(chosen), {{2, 3, 4}}, [&](Inputs x) { return seppo::softmax(x[0], mask); },
        [&](const auto& x) {
          std::size_t next = 0;
          return ref::along(x[0], -1, [&](auto& row) {
            const std::size_t i = next++ % 6;
            ref::softmax_allowed(row, [&](std::size_t j) {
              const int key = static_cast<int>(j);
              if (is_causal && key > static_cast<int>(i % 3) + 1) return false;  // the last query sees all four
              if (has_lengths && key >= of_sequences[i / 3]) return false;
              if (has_query_lengths && key >= of_queries[i]) return false;
              return !has_pairs || pairs[4 * i + j] != 0;
            });
          });
        });
  }
}

BOOST_AUTO_TEST_CASE(layer_norm_of_one_tensor_with_itself) {
  check_op(
      "layer_norm aliased", {{5}}, [](Inputs x) { return seppo::layer_norm(x[0], x[0], x[0], 1e-3); },
      [](const auto& x) { return ref::layer_norm(x[0], x[0], x[0], 1e-3); });
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
  const std::vector<real> first(all.grad().begin(), all.grad().end());
  for (int time = 0; time < 20; ++time) {  // threads do not always meet
    const Tensor again = seppo::variable({n + shift, d}, all.values());
    backward(seppo::slice(again, 0, 0, n), seppo::slice(again, 0, shift, n + shift));
    BOOST_CHECK(std::ranges::equal(again.grad(), first));
  }
  seppo::set_num_threads(1);
  std::vector<double> expected(all.numel());
  for (std::size_t i = 0; i < x.numel(); ++i) {
    expected[i] += double{x.grad()[i]};
    expected[i + shift * d] += double{y.grad()[i]};
  }
  check_close(all.grad(), expected, 1e-12, "gradient of all");
}

// So do those of a gated network.
BOOST_AUTO_TEST_CASE(gated_of_overlapping_parts_of_one_tensor) {
  seppo::RandomStream random(1, seppo::Purpose::test);
  const int n = 1 << 17, shift = 1 << 14;
  const auto draw = [&](int count) {
    std::vector<real> values(static_cast<std::size_t>(count));
    for (real& value : values) value = static_cast<real>(random.normal());
    return values;
  };
  const std::vector<real> drawn = draw(n + shift), dout = draw(n);
  std::vector<std::vector<real>> gradients;
  for (const int threads : {1, 3}) {
    seppo::set_num_threads(threads);
    for (int time = 0; time < 20; ++time) {
      seppo::tape().clear();
      const Tensor all = seppo::variable({n + shift}, drawn);
      const Tensor y =
          seppo::gated(seppo::slice(all, 0, 0, n), seppo::slice(all, 0, shift, n + shift), seppo::Activation::swiglu);
      seppo::tape().backward(y, dout);
      gradients.emplace_back(all.grad().begin(), all.grad().end());
    }
  }
  seppo::set_num_threads(1);
  for (const auto& gradient : gradients) BOOST_REQUIRE(gradient == gradients[0]);
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

BOOST_AUTO_TEST_CASE(batch_norm_keeps_running_statistics) {
  seppo::tape().clear();
  const Tensor mean = seppo::tensor({2}, {1, 1}), var = seppo::tensor({2}, {2, 2});
  const Tensor x = seppo::tensor({3, 2}, {1, 10, 2, 20, 6, 30});  // means 3 and 20, unbiased variances 7 and 100
  const Tensor one = seppo::ones({2}), zero = seppo::zeros({2});
  seppo::batch_norm(x, one, zero, mean, var, {.momentum = 0.25});
  BOOST_CHECK_CLOSE(double{mean.values()[0]}, 0.75 * 1 + 0.25 * 3, within(1e-12));
  BOOST_CHECK_CLOSE(double{mean.values()[1]}, 0.75 * 1 + 0.25 * 20, within(1e-12));
  BOOST_CHECK_CLOSE(double{var.values()[0]}, 0.75 * 2 + 0.25 * 7, within(1e-12));
  BOOST_CHECK_CLOSE(double{var.values()[1]}, 0.75 * 2 + 0.25 * 100, within(1e-12));
  const seppo::UseMode eval(seppo::Mode::eval);
  const std::vector<real> before(mean.values().begin(), mean.values().end());
  const Tensor y = seppo::batch_norm(x, one, zero, mean, var);
  BOOST_CHECK(std::equal(before.begin(), before.end(), mean.values().begin()));
  BOOST_CHECK_CLOSE(double{y.values()[0]}, (1 - double{before[0]}) / std::sqrt(double{var.values()[0]} + 1e-5),
                    within(1e-10));
}
