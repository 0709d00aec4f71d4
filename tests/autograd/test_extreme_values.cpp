// Values near the ends of single precision's range: squares that overflow, infinities, NaN where a mask forbids it.
#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

using namespace seppo;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

// Vectors whose squares, or the product of whose norms, are out of range.
BOOST_AUTO_TEST_CASE(cosine_similarity_torture) {
  RandomStream random(1, Purpose::test);
  const Tensor a = randn({8}, random), b = randn({8}, random);
  double dot = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    const double p = static_cast<double>(a.values()[i]), q = static_cast<double>(b.values()[i]);
    dot += p * q;
    of_a += p * p;
    of_b += q * q;
  }
  for (const float size : {1e-6f, 1.f, 1e18f, 1e20f, 1e30f, 1e37f}) {
    const Tensor x = variable({8}, scale(a, size).values()), y = cosine_similarity(x, scale(b, size), 0);
    BOOST_CHECK_CLOSE(y.item(), dot / std::sqrt(of_a * of_b), 1e-4);  // percent
    backward(y);
    for (std::size_t i = 0; i < 8; ++i) {  // (b / |b| - cos a / |a|) / |a|
      const double p = static_cast<double>(a.values()[i]), q = static_cast<double>(b.values()[i]);
      const double slope = (q / std::sqrt(of_b) - dot / std::sqrt(of_a * of_b) * p / std::sqrt(of_a)) / std::sqrt(of_a);
      BOOST_CHECK_SMALL(static_cast<double>(x.grad()[i]) * static_cast<double>(size) - slope, 2e-6);
    }
  }
}

// One value far from the others: its square is out of range, the variance is not.
BOOST_AUTO_TEST_CASE(spread_torture) {
  for (const float size : {1e-20f, 1e-3f, 1e18f, 1e20f, 3e20f, 1e30f}) {
    tape().clear();
    std::vector<float> values(4000, 0.f);
    values[7] = size;
    const double n = 4000, s = static_cast<double>(size), variance = s * s / n - s * s / (n * n);
    const Tensor x = variable({4000}, values), deviation = stddev(x, {}, 0), length = norm(x);
    BOOST_CHECK_CLOSE(deviation.item(), std::sqrt(variance), 1e-4);
    BOOST_CHECK_CLOSE(length.item(), s, 1e-4);
    backward(deviation);
    BOOST_CHECK_CLOSE(static_cast<double>(x.grad()[7]), (s - s / n) / n / std::sqrt(variance), 1e-4);
    BOOST_CHECK_CLOSE(static_cast<double>(x.grad()[0]), -s / n / n / std::sqrt(variance), 1e-4);
    if (size < 1e-3f || size > 3e20f) continue;  // the variance itself is out of range
    BOOST_CHECK_CLOSE(var(x, {}, 0).item(), variance, 1e-4);
  }
}

BOOST_AUTO_TEST_CASE(log_softmax_of_nothing_but_minus_infinity) {
  tape().clear();
  const Tensor x = full({2}, -kInf), y = log_softmax(x), p = softmax(x);
  BOOST_CHECK(std::isnan(y.values()[0]) && std::isnan(y.values()[1]) && p.values()[0] == 0 && p.values()[1] == 0);
}

// As attention.h says of values that a mask forbids.
BOOST_AUTO_TEST_CASE(nan_in_a_forbidden_value) {
  tape().clear();
  const Tensor q = ones({1, 2, 1}), v = tensor({1, 2, 1}, {1, kNan});
  const std::vector<std::uint8_t> first{1, 0, 1, 0};
  const std::vector<int> lengths{1};
  BOOST_CHECK(std::isnan(attention(q, q, v, 1, {.mask = Mask::allowed(first)}).values()[0]));
  BOOST_CHECK_EQUAL(attention(q, q, v, 1, {.mask = Mask::valid_lengths(lengths)}).values()[0], 1);
}

// What is certain and right costs nothing, what is certain and wrong an kInf.
BOOST_AUTO_TEST_CASE(binary_cross_entropy_of_infinite_logits) {
  tape().clear();
  const Tensor x = variable({4}, {-kInf, kInf, -kInf, kInf});
  const Tensor target = tensor({4}, {0, 1, 1, 0});
  for (const Tensor& weight : {Tensor(), full({4}, 3)}) {
    const Tensor y = binary_cross_entropy_with_logits(x, target, {.reduction = Reduction::none, .pos_weight = weight});
    BOOST_CHECK(y.values()[0] == 0 && y.values()[1] == 0 && y.values()[2] == kInf && y.values()[3] == kInf);
    tape().backward(y, std::vector<real>{1, 1, 0, 0});
    for (const real slope : x.grad()) BOOST_CHECK_EQUAL(slope, 0);
  }
}

// Masks are often biases of the lowest finite number. A query that sees no other key takes the mean of the values.
BOOST_AUTO_TEST_CASE(attention_with_a_bias_of_the_lowest_number) {
  tape().clear();
  constexpr int kKeys = 40, kWidth = 64;  // a scale of 1 / 8
  std::vector<real> values, bias(2 * kKeys, std::numeric_limits<real>::lowest());
  for (int i = 0; i < kKeys * kWidth; ++i) values.push_back(static_cast<real>(i / kWidth));
  bias[3] = 0;
  const Tensor q = ones({1, 2, kWidth}), k = ones({1, kKeys, kWidth}), v = tensor({1, kKeys, kWidth}, values);
  const Tensor y = attention(q, k, v, 1, {.bias = tensor({2, kKeys}, bias)});
  BOOST_CHECK_CLOSE(y.values()[0], 3, 1e-4);
  BOOST_CHECK_CLOSE(y.values()[kWidth], (kKeys - 1) / 2.0, 1e-4);
}

BOOST_AUTO_TEST_CASE(huber_loss_of_an_infinite_difference) {
  tape().clear();
  const Tensor x = variable({2}, {kInf, -kInf});
  const Tensor y = huber_loss(x, zeros({2}), 2, Reduction::sum);
  backward(y);
  BOOST_CHECK_EQUAL(y.item(), kInf);
  BOOST_CHECK(x.grad()[0] == 2 && x.grad()[1] == -2);
}

BOOST_AUTO_TEST_CASE(masked_softmax_without_queries) {
  tape().clear();
  const std::vector<int> lengths{1, 2};
  BOOST_CHECK(softmax(zeros({2, 0, 3}), Mask::valid_lengths(lengths)).shape() == (Shape{2, 0, 3}));
}
