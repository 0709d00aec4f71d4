// Attention at the sizes where its kernels change their ways: one below, at and one above the keys of short sequences,
// the few queries for which V is not packed, a strip and a block of queries, and one, two and three tiles of keys. With
// what acts on each pair of query and key, against softmax and products: values, and the gradients of all inputs.
// needs: precision: double; simd: avx2 plain; not_in_valgrind: double
#include <seppo/autograd/core/random.h>
#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

using namespace seppo;

namespace {

constexpr int kWidth = 4;
constexpr double kScale = 0.6;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

std::vector<real> normal(std::size_t count, std::uint64_t seed) {
  RandomStream random(seed, Purpose::test);
  std::vector<real> values(count);
  for (real& v : values) v = static_cast<real>(random.normal());
  return values;
}

struct Form {
  int queries, keys, window;
  bool is_causal, has_bias;
  int sequences = 1;

  // Under a causal mask, the last query sees the last key.
  bool sees(int query, int key) const {
    const int last = is_causal ? query + keys - queries : keys - 1;
    return key <= last && (window == 0 || key > query + keys - queries - window);
  }
};

// Q, K, V, the bias, and what comes out.
struct Attended {
  Tensor q, k, v, bias, y;

  // Larger keys come later, so that what earlier tiles gave must fade.
  explicit Attended(const Form& f) {
    const int queries = f.sequences * f.queries, keys = f.sequences * f.keys;
    std::vector<real> rising = normal(at(keys * kWidth), 2);
    for (std::size_t i = 0; i < rising.size(); ++i) rising[i] *= static_cast<real>(1 + 4 * i / rising.size());
    q = variable({queries, kWidth}, normal(at(queries * kWidth), 1));
    k = variable({keys, kWidth}, rising);
    v = variable({keys, kWidth}, normal(at(keys * kWidth), 3));
    if (f.has_bias) bias = variable({f.queries, f.keys}, normal(at(f.queries * f.keys), 4));
  }
  std::vector<Tensor> inputs() const { return bias.defined() ? std::vector{q, k, v, bias} : std::vector{q, k, v}; }
};

Attended by_attention(const Form& f) {
  Attended a(f);
  std::vector<int> qo{0}, ko{0};
  for (int s = 1; s <= f.sequences; ++s) qo.push_back(s * f.queries), ko.push_back(s * f.keys);
  a.y = attention(
      a.q, a.k, a.v, 1, qo, ko,
      {.mask = f.is_causal ? Mask::causal() : Mask::none(), .bias = a.bias, .scale = kScale, .window = f.window});
  return a;
}

Attended by_plain_ops(const Form& f) {
  Attended a(f);
  std::vector<real> seen;  // 0, or what leaves a weight of exactly 0
  for (int i = 0; i < f.queries; ++i)
    for (int j = 0; j < f.keys; ++j) seen.push_back(f.sees(i, j) ? 0 : -1e300);
  const Tensor mask = tensor({f.queries, f.keys}, seen);
  std::vector<Tensor> rows;
  for (int s = 0; s < f.sequences; ++s) {
    const Tensor q = slice(a.q, 0, s * f.queries, (s + 1) * f.queries);
    const Tensor k = slice(a.k, 0, s * f.keys, (s + 1) * f.keys);
    Tensor scores = scale(matmul(q, transpose(k)), kScale);
    if (f.has_bias) scores = scores + a.bias;
    rows.push_back(matmul(softmax(scores + mask), slice(a.v, 0, s * f.keys, (s + 1) * f.keys)));
  }
  a.y = concat(rows);
  return a;
}

double largest_difference(std::span<const real> a, std::span<const real> b) {
  double largest = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double difference = std::abs(double{a[i]} - double{b[i]});
    largest = std::isnan(difference) ? 1 : std::max(largest, difference);
  }
  return largest;
}

void check(const Form& f) {
  tape().clear();
  const Attended found = by_attention(f), expected = by_plain_ops(f);
  const std::string what = std::to_string(f.sequences) + " times " + std::to_string(f.queries) + " queries, " +
                           std::to_string(f.keys) + " keys, window " + std::to_string(f.window) +
                           (f.is_causal ? ", causal" : "") + (f.has_bias ? ", bias" : "");
  BOOST_CHECK_MESSAGE(largest_difference(found.y.values(), expected.y.values()) < 1e-12, what);
  const std::vector<real> cotangent = normal(found.y.numel(), 5);
  tape().backward(found.y, cotangent);
  tape().backward(expected.y, cotangent);
  for (std::size_t i = 0; i < found.inputs().size(); ++i) {
    const double off = largest_difference(found.inputs()[i].grad(), expected.inputs()[i].grad());
    BOOST_CHECK_MESSAGE(off < 1e-11, what << ": gradient " << i << " off by " << off);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_size_of_queries_and_keys) {
  for (const int queries : {1, 7, 8, 9, 31, 32, 33})
    for (const int keys : {255, 256, 257, 511, 512, 513, 769})
      for (const bool has_bias : {false, true}) check({queries, keys, 0, has_bias == (queries % 2 == 0), has_bias});
  tape().clear();
}

// Of up to 75 keys here, many sequences are computed side by side, and keep their weights.
BOOST_AUTO_TEST_CASE(keys_of_short_sequences) {
  for (const int queries : {1, 3})
    for (const int keys : {74, 75, 76})
      for (const int sequences : {15, 16, 17, 33})
        for (const bool is_causal : {false, true}) check({queries, keys, 0, is_causal, false, sequences});
  tape().clear();
}

// A block of queries has 256 too; a window ends within each tile, and where groups of 128 keys do.
BOOST_AUTO_TEST_CASE(blocks_of_queries_and_windows) {
  for (const int queries : {256, 257, 513})
    for (const int window : {0, 127, 128, 129, 257}) check({queries, 514, window, true, window % 2 == 0});
  tape().clear();
}

// The gradient of a bias that all sequences share, each head its own matrix, as T5's: one below, at and one above the
// terms of a sum, and twice as many.
BOOST_AUTO_TEST_CASE(heads_of_a_bias_that_many_sequences_share) {
  constexpr int kHeads = 3, kKeys = 2, kTerms = static_cast<int>(kernels::kMostTerms);
  for (const int sequences : {kTerms - 1, kTerms, kTerms + 1, 2 * kTerms + 1}) {
    tape().clear();
    const auto matrix = [&](int rows, std::uint64_t seed) {
      return tensor({sequences, rows, kHeads}, normal(at(sequences * rows * kHeads), seed));
    };
    const Tensor q = matrix(1, 1), k = matrix(kKeys, 2), v = matrix(kKeys, 3);
    const std::vector<real> values = normal(at(kHeads * kKeys), 4), cotangent = normal(at(sequences * kHeads), 5);
    const Tensor shared = variable({1, kHeads, 1, kKeys}, values);
    tape().backward(attention(q, k, v, kHeads, {.bias = shared}), cotangent);
    std::vector<real> repeated;
    for (int s = 0; s < sequences; ++s) repeated.insert(repeated.end(), values.begin(), values.end());
    const Tensor own = variable({sequences, kHeads, 1, kKeys}, repeated);
    tape().backward(attention(q, k, v, kHeads, {.bias = own}), cotangent);
    std::vector<real> expected(values.size());
    for (std::size_t i = 0; i < repeated.size(); ++i) expected[i % values.size()] += own.grad()[i];
    const double off = largest_difference(shared.grad(), expected);
    BOOST_CHECK_MESSAGE(off < 1e-11, sequences << " sequences: off by " << off);
  }
}
