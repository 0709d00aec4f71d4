// Sums of many terms in single precision: gradients over many rows, repeated indices and long rows keep their digits.
// needs: simd: avx2 plain
#include <seppo/autograd/core/random.h>
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

using namespace seppo;

namespace {

constexpr int kRows = 1 << 18;
constexpr double kTolerance = 2e-7;  // relative: two roundings of a float

// Numbers of one sign, whose sums drift the most.
std::vector<float> positive(std::size_t n, std::uint64_t seed = 1) {
  RandomStream random(seed, Purpose::test);
  std::vector<float> values(n);
  for (float& v : values) v = 0.08f + 0.04f * static_cast<float>(random.uniform());
  return values;
}

double total(std::span<const float> values, std::size_t first, std::size_t step) {
  double sum = 0;
  for (std::size_t i = first; i < values.size(); i += step) sum += static_cast<double>(values[i]);
  return sum;
}

void check_close(const std::string& what, double actual, double expected, double tolerance = kTolerance) {
  const double error = std::abs(actual / expected - 1);
  BOOST_TEST_MESSAGE(what << ": relative error " << error);
  BOOST_CHECK_MESSAGE(error <= tolerance, what << ": " << actual << ", expected " << expected);
}

const std::vector<int> kZeros(kRows, 0), kTwiceZeros(2 * kRows, 0);

}  // namespace

// Each op makes kRows rows of x, so that the gradient of x is the sum of the rows' cotangents.
BOOST_AUTO_TEST_CASE(gradients_over_many_rows) {
  using Op = std::function<Tensor(const Tensor& x)>;
  const Shape rows{kRows, 2};
  const auto as_row = [](const Tensor& x) { return reshape(x, {1, 2}); };
  const std::vector<std::pair<std::string, Op>> ops{
      {"add", [&](const Tensor& x) { return zeros(rows) + x; }},
      {"sub", [&](const Tensor& x) { return x - zeros(rows); }},
      {"mul", [&](const Tensor& x) { return x * ones(rows); }},
      {"div", [&](const Tensor& x) { return x / ones(rows); }},
      {"pow", [&](const Tensor& x) { return pow(x, ones(rows)); }},
      {"maximum", [&](const Tensor& x) { return maximum(zeros(rows), x); }},
      {"where", [&](const Tensor& x) { return where(ones(rows), x, 0); }},
      {"where not", [&](const Tensor& x) { return where(zeros(rows), 0, x); }},
      {"expand", [&](const Tensor& x) { return expand(x, rows); }},
      {"linear",
       [&](const Tensor& x) {
         return linear(zeros({kRows, 3}), zeros({2, 3}), x);
       }},
      {"matmul lhs",
       [&](const Tensor& x) {
         return matmul(reshape(x, {1, 2, 1}), ones({kRows, 1, 1}));
       }},
      {"matmul rhs",
       [&](const Tensor& x) {
         return matmul(ones({kRows / 2, 2, 1, 1}), reshape(x, {1, 1, 1, 2}));
       }},
      {"embedding", [&](const Tensor& x) { return embedding(as_row(x), kZeros); }},
      {"embedding, scaled", [&](const Tensor& x) { return embedding(as_row(x), kZeros, {.scale = 4}) / 4; }},
      {"positions",
       [&](const Tensor& x) {
         return embedding(zeros({1, 2}), kZeros, {.positions = as_row(x), .position_ids = kZeros});
       }},
      {"index_select", [&](const Tensor& x) { return index_select(as_row(x), 0, kZeros); }},
      {"gather",
       [&](const Tensor& x) {
         return gather(as_row(x), 0, {rows, kTwiceZeros});
       }},
      {"layer_norm bias", [&](const Tensor& x) { return layer_norm(zeros(rows), ones({2}), x); }},
      {"rms_norm gain", [&](const Tensor& x) { return rms_norm(ones(rows), x, 0); }},
      {"batch_norm bias", [&](const Tensor& x) {
         return batch_norm(zeros(rows), ones({2}), x, zeros({2}), ones({2}), {.use_running_statistics = true});
       }}};
  const std::vector<float> dy = positive(2 * kRows);
  for (const auto& [name, op] : ops) {
    tape().clear();
    const Tensor x = variable({2}, {1, 1});
    tape().backward(op(x), dy);
    const double tolerance =
        name == "matmul rhs" ? 5 * kTolerance : kTolerance;  // one product of OpenBLAS, or its like
    for (std::size_t j = 0; j < 2; ++j) check_close(name, x.grad()[j], total(dy, j, 2), tolerance);
  }
}

BOOST_AUTO_TEST_CASE(sums_at_an_index) {
  tape().clear();
  const std::vector<float> source = positive(2 * kRows);
  const Tensor rows = tensor({kRows, 2}, source);
  const Tensor added = index_add(zeros({3, 2}), 0, kZeros, rows);
  const Tensor scattered = scatter_add(zeros({3, 2}), 0, {{kRows, 2}, kTwiceZeros}, rows);
  for (std::size_t j = 0; j < 2; ++j) {
    check_close("index_add", added.values()[j], total(source, j, 2));
    check_close("scatter_add", scattered.values()[j], total(source, j, 2));
  }
}

// Slices along a middle axis, of which one has many terms, one a few and one none.
BOOST_AUTO_TEST_CASE(slices_with_many_and_with_few_terms) {
  constexpr int kMany = 5000, kCount = kMany + 3;
  tape().clear();
  std::vector<int> index(kCount, 2);
  index[7] = index[100] = index[kCount - 1] = 0;
  const std::vector<float> dy = positive(2 * kCount * 3);
  const Tensor x = variable({2, 4, 3}, std::vector<float>(24));
  tape().backward(index_select(x, 1, index), dy);
  std::vector<double> expected(24);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t k = 0; k < kCount; ++k)
      for (std::size_t j = 0; j < 3; ++j)
        expected[(i * 4 + static_cast<std::size_t>(index[k])) * 3 + j] += double{dy[(i * kCount + k) * 3 + j]};
  for (std::size_t i = 0; i < 24; ++i)
    if (expected[i] == 0)
      BOOST_CHECK_EQUAL(x.grad()[i], 0);
    else
      check_close("slice", x.grad()[i], expected[i]);
}

// A bias that sequences, heads or both share, in as many matrices as its shape says: each one's gradient is the sum
// over those that share it, whose number is no multiple of those that are added up at a time.
BOOST_AUTO_TEST_CASE(a_bias_of_many_sequences_or_heads) {
  constexpr int kMany = 30'001;
  const auto check_bias = [](int sequences, int heads, const Shape& shape) {
    tape().clear();
    const auto count = static_cast<std::size_t>(sequences) * static_cast<std::size_t>(heads);
    const std::vector<float> of_first = positive(count);
    std::vector<float> values;  // of two keys, the second one's 0
    for (std::size_t s = 0; s < count; s += static_cast<std::size_t>(heads)) {
      values.insert(values.end(), of_first.begin() + std::ptrdiff_t(s), of_first.begin() + std::ptrdiff_t(s) + heads);
      values.insert(values.end(), static_cast<std::size_t>(heads), 0.f);
    }
    const Tensor q = zeros({sequences, 1, heads}), k = zeros({sequences, 2, heads}),
                 bias = variable(shape, zeros(shape).values());
    backward(sum(attention(q, k, tensor({sequences, 2, heads}, values), heads, {.bias = bias})));
    const bool is_of_heads = shape.rank() > 2 && shape[-3] > 1, is_of_sequences = shape.rank() > 3 && shape[-4] > 1;
    std::vector<double> sums(bias.numel() / 2);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t s = i / static_cast<std::size_t>(heads), h = i % static_cast<std::size_t>(heads);
      const std::size_t shared = is_of_heads ? h : 0;
      sums[is_of_sequences ? s : shared] += double{of_first[i]};
    }
    for (std::size_t m = 0; m < sums.size(); ++m) {  // weights of a half, and their product's slope
      check_close("dbias " + shape.str(), bias.grad()[2 * m], sums[m] / 4);
      check_close("dbias " + shape.str(), bias.grad()[2 * m + 1], -sums[m] / 4);
    }
  };
  for (const Shape& shape : {Shape{1, 2}, Shape{2, 1, 2}, Shape{1, 2, 1, 2}}) check_bias(kMany, 2, shape);
  for (const Shape& shape : {Shape{1, 1, 2}, Shape{2, 1, 1, 2}}) check_bias(2, kMany, shape);
}

// Element i of x is in the windows that begin at i - kSize + 1 .. i.
BOOST_AUTO_TEST_CASE(windows_that_overlap) {
  constexpr int kSize = 2048;
  tape().clear();
  const std::vector<float> dy = positive(kSize * kSize);
  const Tensor x = variable({2 * kSize - 1}, std::vector<float>(2 * kSize - 1));
  tape().backward(unfold(x, 0, kSize, 1), dy);
  double expected = 0;  // of the element that is in all
  for (std::size_t i = 0; i < kSize; ++i) expected += double{dy[i * kSize + kSize - 1 - i]};
  check_close("unfold", x.grad()[kSize - 1], expected);
}

BOOST_AUTO_TEST_CASE(long_rows) {
  constexpr std::size_t n = 1 << 20;
  tape().clear();
  const std::vector<float> logits = positive(n, 2), dy = positive(n, 3);
  double sum = 0, along = 0, of_dy = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += std::exp(double{logits[i]});
    along += std::exp(double{logits[i]}) * double{dy[i]};
    of_dy += double{dy[i]};
  }
  const Tensor x = variable({1, n}, logits);
  check_close("logsumexp", logsumexp(x).item(), std::log(sum));
  check_close("cross_entropy", cross_entropy(x, {0}).item(), std::log(sum) - double{logits[0]});
  const Tensor y = softmax(x);
  check_close("softmax", y.values()[0], std::exp(double{logits[0]}) / sum, 4 * kTolerance);
  // softmax: dx_j = y_j (dy_j - dy y); one cotangent is large, so that the rest shows
  std::vector<float> one(dy);
  one[5] = 0;
  tape().backward(y, one);
  const double mean = (along - std::exp(double{logits[5]}) * double{dy[5]}) / sum;
  check_close("softmax backward", x.grad()[5], -std::exp(double{logits[5]}) / sum * mean, 4 * kTolerance);
  tape().clear();
  const Tensor z = variable({1, n}, logits);
  one[5] = 0;
  tape().backward(log_softmax(z), one);
  check_close("log_softmax backward", z.grad()[5], -std::exp(double{logits[5]}) / sum * (of_dy - double{dy[5]}),
              8 * kTolerance);  // y = -14 is rounded, and so e^y
}

// With x_hat = 1, dx = rstd gain (dy - mean(dy)) of RMS norm.
BOOST_AUTO_TEST_CASE(norms_of_long_rows) {
  constexpr std::size_t n = 1 << 20;
  tape().clear();
  std::vector<float> dy = positive(n);
  dy[5] = 0;
  const Tensor x = variable({1, n}, std::vector<float>(n, 1.f));
  tape().backward(rms_norm(x, ones({static_cast<int>(n)}), 0), dy);
  check_close("rms_norm backward", x.grad()[5], -total(dy, 0, 1) / static_cast<double>(n));
}

// Padding occurs more often than any other index, and trains its row nevertheless not.
BOOST_AUTO_TEST_CASE(padding_that_occurs_often) {
  std::vector<int> ids(5000, 2), others;
  for (std::size_t i = 0; i < ids.size(); i += 9) others.push_back(ids[i] = static_cast<int>(i % 2));
  const auto gradient = [](const std::vector<int>& rows) {
    const Tensor table = variable({3, 2}, std::vector<real>(6, 1));
    tape().backward(sum(embedding(table, rows, {.padding_idx = 2})));
    return std::vector<real>(table.grad().begin(), table.grad().end());
  };
  const std::vector<real> found = gradient(ids), expected = gradient(others);
  BOOST_CHECK(found[4] == 0 && found[5] == 0);
  BOOST_CHECK(found == expected && expected[0] > 0);
}
