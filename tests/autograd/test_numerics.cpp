// Single precision at the edges of its range.
// needs: simd: avx512 avx2 plain
#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

using namespace seppo;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor row(std::vector<float> values) { return variable({1, static_cast<int>(values.size())}, values); }

bool finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace

// Rows of 16 whose mean is far larger than their spread, or whose scale is extreme.
BOOST_AUTO_TEST_CASE(layer_norm_torture) {
  std::vector<std::function<double(int)>> rows;
  for (const double mean : {0.0, 1e2, 1e3, 1e4}) rows.push_back([=](int i) { return mean + i * 1e-3; });
  for (const double mean : {4e4, 1e5, 1e6, 1e7}) rows.push_back([=](int i) { return mean + i; });
  RandomStream random(1, Purpose::test);
  std::vector<double> normal;
  for (int i = 0; i < 16; ++i) normal.push_back(random.normal());
  for (const double scale : {1e-30, 1e-20, 1e18, 1e19, 1e20, 1e30, 1e37})
    rows.push_back([=](int i) { return scale * normal[static_cast<std::size_t>(i)]; });

  std::vector<float> all_x, all_dy, all_y, all_dx;
  const auto append = [](std::vector<float>& to, std::span<const float> from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (std::size_t r = 0; r < rows.size(); ++r) {
    tape().clear();
    std::vector<float> x;
    for (int i = 0; i < 16; ++i) x.push_back(static_cast<float>(rows[r](i)));
    // The same formula in double, on the same rounded inputs.
    double mean = 0, variance = 0;
    for (const float v : x) mean += static_cast<double>(v) / 16;
    for (const float v : x) variance += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean) / 16;
    const Tensor input = row(x);
    const Tensor y = layer_norm(input, full({16}, 1), full({16}, 0), 1e-5);
    for (std::size_t i = 0; i < 16; ++i) {
      const double expected = (static_cast<double>(x[i]) - mean) / std::sqrt(variance + 1e-5);
      BOOST_CHECK_MESSAGE(std::abs(static_cast<double>(y.values()[i]) - expected) <= 2e-6,
                          "row " << r << " [" << i << "] " << y.values()[i] << ", expected " << expected);
    }
    std::vector<float> cotangent;
    for (int i = 0; i < 16; ++i) cotangent.push_back(static_cast<float>(random.normal()));
    tape().backward(y, cotangent);
    BOOST_CHECK_MESSAGE(finite(input.grad()), "row " << r);
    append(all_x, x), append(all_dy, cotangent), append(all_y, y.values()), append(all_dx, input.grad());
  }
  // Several rows are normalised side by side: each as it is alone.
  tape().clear();
  const Tensor input = variable({static_cast<int>(rows.size()), 16}, all_x);
  const Tensor y = layer_norm(input, full({16}, 1), full({16}, 0), 1e-5);
  tape().backward(y, all_dy);
  BOOST_TEST(y.values() == all_y, boost::test_tools::per_element());
  BOOST_TEST(input.grad() == all_dx, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(layer_norm_of_a_constant_row_is_the_bias) {
  tape().clear();
  const Tensor x = row(std::vector<float>(16, 3.7f));
  const Tensor y = layer_norm(x, full({16}, 2), full({16}, 5), 1e-5);
  for (const float v : y.values()) BOOST_CHECK_EQUAL(v, 5);
  tape().backward(y, std::vector<float>(16, 1.0f));
  BOOST_CHECK(finite(x.grad()));
}

BOOST_AUTO_TEST_CASE(softmax_extremes) {
  const std::vector<std::pair<std::vector<float>, std::vector<float>>> cases = {{{3e38f, -3e38f}, {1, 0}},
                                                                                {{-3e38f, -3e38f}, {0.5f, 0.5f}},
                                                                                {{3e38f, 3e38f}, {0.5f, 0.5f}},
                                                                                {{-kInf, 0, -kInf}, {0, 1, 0}},
                                                                                {{-kInf, -kInf}, {0, 0}},
                                                                                {{1e-40f, 1e-40f}, {0.5f, 0.5f}},
                                                                                {{7}, {1}}};
  for (const auto& [x, expected] : cases) {
    tape().clear();
    const Tensor input = row(x);
    const Tensor y = softmax(input);
    for (std::size_t i = 0; i < expected.size(); ++i) BOOST_CHECK_SMALL(y.values()[i] - expected[i], 1e-6f);
    tape().backward(y, std::vector<float>(expected.size(), 1.5f));
    BOOST_CHECK(finite(input.grad()));
  }
  tape().clear();
  const Tensor wide = softmax(row(std::vector<float>(100'000, 2.0f)));
  BOOST_CHECK_SMALL(sum(wide).item() - 1, 1e-5);
}

BOOST_AUTO_TEST_CASE(cross_entropy_extremes) {
  tape().clear();
  const Tensor x = row({1e38f, -1e38f, 0});
  const Tensor right = cross_entropy(x, std::vector<int>{0}), wrong = cross_entropy(x, std::vector<int>{1});
  BOOST_CHECK_EQUAL(right.item(), 0);
  BOOST_CHECK(std::isfinite(wrong.item()) && wrong.item() > 1e38);
  tape().backward(wrong);
  BOOST_CHECK_EQUAL(x.grad()[0], 1);
  BOOST_CHECK_EQUAL(x.grad()[1], -1);
  tape().clear();
  BOOST_CHECK_EQUAL(cross_entropy(row({5}), std::vector<int>{0}).item(), 0);
}

BOOST_AUTO_TEST_CASE(nan_goes_in_and_comes_out) {
  tape().clear();
  for (const auto& op : std::vector<std::function<Tensor(const Tensor&)>>{
           relu,
           gelu,
           gelu_tanh,
           silu,
           softplus,
           square,
           rsqrt,
           [](const Tensor& x) { return seppo::sqrt(x); },
           [](const Tensor& x) { return seppo::erf(x); },
           [](const Tensor& x) { return seppo::abs(x); },
           [](const Tensor& x) { return clamp(x, -1, 1); },
           [](const Tensor& x) { return maximum(x, 0); },
           [](const Tensor& x) { return minimum(9, x); },
           [](const Tensor& x) { return amax(x); },
           [](const Tensor& x) { return amin(x); },
           [](const Tensor& x) { return logsumexp(x); },
           [](const Tensor& x) { return var(x); },
           [](const Tensor& x) { return seppo::max(x, 1).values; },
           [](const Tensor& x) { return rms_norm(x, full({3}, 1)); },
           [](const Tensor& x) { return cumsum(x, 1); },
           [](const Tensor& x) { return seppo::tanh(x); },
           sigmoid,
           [](const Tensor& x) { return seppo::exp(x); },
           [](const Tensor& x) { return seppo::log(x); },
           [](const Tensor& x) { return softmax(x); },
           [](const Tensor& x) { return log_softmax(x); },
           [](const Tensor& x) { return layer_norm(x, full({3}, 1), full({3}, 0)); },
           [](const Tensor& x) { return sum(x); }}) {
    const Tensor y = op(row({1, kNan, 2}));
    BOOST_CHECK(std::any_of(y.values().begin(), y.values().end(), [](float v) { return std::isnan(v); }));
  }
  for (const Tensor& x : {row({kInf, kNan}), row({kNan, 1, kInf})}) BOOST_CHECK(std::isnan(logsumexp(x).item()));
}

BOOST_AUTO_TEST_CASE(infinities_have_their_limits) {
  tape().clear();
  const auto values = [](const Tensor& y) { return std::vector<float>(y.values().begin(), y.values().end()); };
  BOOST_CHECK((values(seppo::exp(row({-kInf, kInf, -200, 100}))) == std::vector<float>{0, kInf, 0, kInf}));
  BOOST_CHECK((values(seppo::tanh(row({-kInf, kInf, -50, 50}))) == std::vector<float>{-1, 1, -1, 1}));
  BOOST_CHECK((values(sigmoid(row({-kInf, kInf, -200, 200}))) == std::vector<float>{0, 1, 0, 1}));
  BOOST_CHECK((values(relu(row({-kInf, kInf}))) == std::vector<float>{0, kInf}));
  BOOST_CHECK((values(gelu(row({50, -50}))) == std::vector<float>{50, 0}));
}

BOOST_AUTO_TEST_CASE(powers_of_zero) {
  tape().clear();
  const Tensor x = variable({4}, {0, 0, 0, 0}), exponent = variable({4}, {0, 1, 2, 0.5f});
  tape().backward(pow(x, exponent), std::vector<real>{1, 2, 3, 4});
  for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(exponent.grad()[i], 0);  // 0^b remains 0 as b varies
  BOOST_CHECK(x.grad()[0] == 0 && x.grad()[1] == 2 && x.grad()[2] == 0 && std::isinf(x.grad()[3]));
}

BOOST_AUTO_TEST_CASE(a_quotient_has_its_slopes_where_the_square_of_its_denominator_is_out_of_range) {
  for (const float size : {1e-25f, 1e25f}) {
    tape().clear();
    const Tensor a = row({3 * size}), b = row({size});
    tape().backward(a / b, std::vector<float>{2});
    BOOST_CHECK_CLOSE(a.grad()[0], 2 / size, 1e-4);
    BOOST_CHECK_CLOSE(b.grad()[0], -6 / size, 1e-4);
  }
}

// Values and slopes equal their limits.
BOOST_AUTO_TEST_CASE(activations_far_from_zero) {
  const std::vector<float> x{-3e38f, -1e20f, -100, 100, 1e20f, 3e38f};
  const auto check_limits = [&](const std::function<Tensor(const Tensor&)>& op, const std::vector<float>& values,
                                const std::vector<float>& slopes) {
    tape().clear();
    const Tensor input = row(x), y = op(input);
    tape().backward(y, std::vector<float>(x.size(), 1.0f));
    for (std::size_t i = 0; i < x.size(); ++i) {
      BOOST_CHECK_SMALL(y.values()[i] - values[i], 1e-30f);
      BOOST_CHECK_SMALL(input.grad()[i] - slopes[i], 1e-30f);
    }
  };
  const std::vector<float> ramp{0, 0, 0, 100, 1e20f, 3e38f}, jump{0, 0, 0, 1, 1, 1};
  check_limits(silu, ramp, jump);
  check_limits(gelu, ramp, jump);
  check_limits(gelu_tanh, ramp, jump);
  check_limits(softplus, ramp, jump);
  check_limits(relu, ramp, jump);
  const std::vector<float> none(6, 0.0f), sides{-1, -1, -1, 1, 1, 1};
  check_limits([](const Tensor& v) { return seppo::tanh(v); }, sides, none);
  check_limits([](const Tensor& v) { return seppo::erf(v); }, sides, none);
  check_limits(sigmoid, jump, none);
}

// Beside large logits, rounding swallows the logarithm in log sum e^x: results must not be computed by way of that sum.
BOOST_AUTO_TEST_CASE(large_logits_keep_their_logarithm) {
  constexpr double kLog2 = std::numbers::ln2;
  for (const float size : {1e-3f, 1.f, 1e4f, 1e8f, 1e30f, -1e4f, -1e30f})
    for (const double smoothing : {0.0, 0.3}) {
      const auto close = [&](double value, double expected, const char* what) {
        BOOST_CHECK_MESSAGE(std::abs(value - expected) <= 2e-7, what << " of logits " << size << ": " << value);
      };
      tape().clear();
      const Tensor x = row({size, size}), y = log_softmax(x);
      for (const float v : y.values()) close(static_cast<double>(v), -kLog2, "log_softmax");
      tape().backward(y, std::vector<float>{1, 0});
      close(static_cast<double>(x.grad()[0]), 0.5, "slope of log_softmax");
      const Tensor logits = row({size, size, size - 4}),
                   loss = cross_entropy(logits, std::vector<int>{0}, {.label_smoothing = smoothing});
      // In double precision from the rounded logits, shifted by the largest.
      const double third = static_cast<double>(logits.values()[2]) - static_cast<double>(size);
      const double total = 2 + std::exp(third), log_p = -std::log(total);
      const double expected = -(1 - smoothing) * log_p - smoothing * (log_p + third / 3);
      BOOST_CHECK_CLOSE(loss.item(), expected, 2e-5);
      backward(loss);
      close(static_cast<double>(logits.grad()[0]), 1 / total - (1 - smoothing) - smoothing / 3, "slope of the loss");
    }
}

// The squares of values that fit into a float may not fit; rows are normalised all the same.
BOOST_AUTO_TEST_CASE(rms_norm_torture) {
  RandomStream random(4, Purpose::test);
  for (const double scale : {1e-3, 1.0, 1e18, 1e20, 1e30, 1e37}) {
    tape().clear();
    std::vector<float> x, cotangent;
    double squares = 0;
    for (int i = 0; i < 16; ++i) {
      x.push_back(static_cast<float>(scale * random.normal()));
      squares += static_cast<double>(x.back()) * static_cast<double>(x.back()) / 16;
      cotangent.push_back(static_cast<float>(random.normal()));
    }
    const Tensor input = row(x), y = rms_norm(input, full({16}, 1));
    for (std::size_t i = 0; i < 16; ++i)
      BOOST_CHECK_SMALL(static_cast<double>(y.values()[i]) - static_cast<double>(x[i]) / std::sqrt(squares + 1e-5),
                        1e-6);
    tape().backward(y, cotangent);
    BOOST_CHECK(finite(input.grad()));
  }
}

BOOST_AUTO_TEST_CASE(batch_norm_and_variance_with_a_large_mean) {
  for (const double mean : {0.0, 1e3, 1e5, 1e7}) {
    tape().clear();
    std::vector<float> x;
    for (int i = 0; i < 16; ++i) x.push_back(static_cast<float>(mean + i));
    const Tensor column = variable({16, 1}, x);
    const Tensor y = batch_norm(column, full({1}, 1), full({1}, 0), full({1}, 0), full({1}, 1));
    for (int i = 0; i < 16; ++i)
      BOOST_CHECK_SMALL(
          static_cast<double>(y.values()[static_cast<std::size_t>(i)]) - (i - 7.5) / std::sqrt(255.0 / 12 + 1e-5),
          2e-6);
    BOOST_CHECK_CLOSE(var(column).item(), 255.0 / 12 * 16 / 15, 1e-4);
    tape().backward(y, x);
    BOOST_CHECK(finite(column.grad()));
  }
}

BOOST_AUTO_TEST_CASE(many_classes_and_one) {
  tape().clear();
  const Tensor wide = variable({1, 50'000}, std::vector<float>(50'000, 3.0f));
  const Tensor loss = cross_entropy(wide, std::vector<int>{7});
  BOOST_CHECK_CLOSE(loss.item(), std::log(50'000.0), 1e-4);
  tape().backward(loss);
  double total = 0;
  for (const float g : wide.grad()) total += static_cast<double>(g);
  BOOST_CHECK_SMALL(total, 1e-6);
}

BOOST_AUTO_TEST_CASE(attention_of_one_key_is_its_value) {
  tape().clear();
  const std::vector<int> one{0, 1}, lengths{0};
  const Tensor q = variable({1, 4}, std::vector<float>{1e4f, -1e4f, 3, 4}),
               v = variable({1, 4}, std::vector<float>{1, 2, 3, 4});
  const Tensor y = attention(q, q, v, 2, one, one);
  for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(y.values()[i], v.values()[i]);
  // With no key allowed, outputs and gradients are exactly zero.
  const Tensor none = attention(q, q, v, 2, one, one, {.mask = Mask::valid_lengths(lengths)});
  for (const float e : none.values()) BOOST_CHECK_EQUAL(e, 0);
  tape().backward(none, std::vector<float>{1, 2, 3, 4});
  for (const Tensor& x : {q, v})
    for (const float g : x.grad()) BOOST_CHECK_EQUAL(g, 0);
}

BOOST_AUTO_TEST_CASE(vector_functions_are_accurate) {
  // an odd number, so every vector width has a tail
  RandomStream random(2, Purpose::test);
  std::vector<float> x;
  for (int i = 0; i < 1003; ++i) x.push_back(static_cast<float>(40 * random.uniform() - 20));
  tape().clear();
  const Tensor input = row(x), e = seppo::exp(input), h = seppo::tanh(input), s = sigmoid(input), g = gelu(input),
               w = silu(input), a = gelu_tanh(input);
  tape().backward(g, std::vector<float>(x.size(), 1.0f));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(x[i]);
    BOOST_CHECK_CLOSE(static_cast<double>(e.values()[i]), std::exp(v), 3e-5);  // percent
    BOOST_CHECK_SMALL(static_cast<double>(h.values()[i]) - std::tanh(v), 5e-7);
    BOOST_CHECK_SMALL(static_cast<double>(s.values()[i]) - 1 / (1 + std::exp(-v)), 2e-7);
    const double normal = 0.5 * std::erfc(-v / std::sqrt(2.0)), near = std::max(1.0, std::abs(v));
    BOOST_CHECK_SMALL(static_cast<double>(g.values()[i]) - v * normal, 1e-6 * near);
    BOOST_CHECK_SMALL(static_cast<double>(w.values()[i]) - v / (1 + std::exp(-v)), 1e-6 * near);
    const double u = std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v);
    BOOST_CHECK_SMALL(static_cast<double>(a.values()[i]) - 0.5 * v * (1 + std::tanh(u)), 1e-6 * near);
    // the slope of gelu is Phi(x) + x phi(x)
    BOOST_CHECK_SMALL(
        static_cast<double>(input.grad()[i]) - (normal + v * std::exp(-0.5 * v * v) / std::sqrt(2 * std::numbers::pi)),
        2e-6);
  }
}

// softmax(0, x) contains e^x / (1 + e^x), as accurate as e^x itself: tested over its whole range of exponents.
BOOST_AUTO_TEST_CASE(softmax_is_accurate_down_to_the_smallest_numbers) {
  tape().clear();
  constexpr int kRows = 20'000;
  std::vector<float> x;
  for (int i = 0; i < kRows; ++i) x.push_back(0), x.push_back(-87.3f * static_cast<float>(i) / kRows);
  const Tensor y = softmax(tensor({kRows, 2}, x));
  for (std::size_t i = 1; i < x.size(); i += 2) {
    const double e = std::exp(static_cast<double>(x[i]));
    BOOST_CHECK_CLOSE(static_cast<double>(y.values()[i]), e / (1 + e), 3e-5);  // percent
  }
  const Tensor tiny = softmax(row({0, -87.3365479f, -88, -104, -1e4f, -3e38f, -kInf}));
  for (std::size_t i = 1; i < tiny.numel(); ++i)
    BOOST_CHECK(tiny.values()[i] >= 0 && tiny.values()[i] <= std::numeric_limits<float>::min());
}

BOOST_AUTO_TEST_CASE(long_sums_keep_their_digits) {
  tape().clear();
  std::vector<float> x(1 << 22, 0.1f);
  const double expected = static_cast<double>(0.1f) * static_cast<double>(x.size());
  BOOST_CHECK_CLOSE(sum(row(x)).item(), expected, 2e-5);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (i % 2 ? -1e4f : 1e4f) + 0.5f;
  BOOST_CHECK_CLOSE(sum(row(x)).item(), 0.5 * static_cast<double>(x.size()), 2e-5);
}

BOOST_AUTO_TEST_CASE(attention_with_huge_scores) {
  tape().clear();
  const Tensor q = variable({2, 4}, std::vector<float>{1e4f, 0, 0, 0, -1e4f, 0, 0, 0});
  const std::vector<int> offsets{0, 2};
  const Tensor y = attention(q, q, q, 1, offsets, offsets);
  BOOST_CHECK(finite(y.values()));
  tape().backward(y, std::vector<float>(8, 1.0f));
  BOOST_CHECK(finite(q.grad()));
}

// Scores so large that the rounding error of scaling them is far above 1.
BOOST_AUTO_TEST_CASE(attention_takes_the_largest_of_huge_scores) {
  RandomStream random(1, Purpose::test);
  for (int i = 0; i < 100; ++i) {
    tape().clear();
    const Tensor q = scale(uniform({1, 128, 3}, 1, 2, random), 1e8f), v = randn({1, 128, 3}, random);
    const Tensor k = scale(uniform({1, 128, 3}, -1, 1, random), 1e8f);
    const Tensor y = attention(q, k, v, 1);
    BOOST_REQUIRE(finite(y.values()));
    const std::vector<int> place = argmax(matmul(q, transpose(k)), -1);
    for (std::size_t row = 0; row < place.size(); ++row)
      BOOST_CHECK_CLOSE(y.values()[3 * row], v.values()[3 * static_cast<std::size_t>(place[row])], 1e-3);
  }
}

// The weights of a query add up to 1, in backward too: V's gradients add up to those of the results.
BOOST_AUTO_TEST_CASE(backward_has_the_weights_of_huge_scores) {
  RandomStream random(2, Purpose::test);
  const Shape shape{1, 128, 3};
  for (const float size : {1.f, 1e2f, 1e4f, 1e6f}) {
    tape().clear();
    const Tensor q = scale(uniform(shape, 1, 2, random), size), k = scale(uniform(shape, 1, 2, random), size);
    const Tensor v = variable(shape, randn(shape, random).values()), dy = uniform(shape, 1, 2, random);
    tape().backward(attention(q, k, v, 1), dy.values());
    const Tensor actual = sum(tensor(shape, v.grad()), 1), expected = sum(dy, 1);
    for (std::size_t i = 0; i < 3; ++i) BOOST_CHECK_CLOSE(actual.values()[i], expected.values()[i], 1e-3);
  }
}
