// Attention against plain loops in double precision. Compiled for both precisions, as some kernels have separate code
// for float and double.
// needs: precision: single double; simd: avx512 avx2 plain
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/core/random.h>
#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace {

using seppo::real;
using Values = std::vector<double>;

// For sums of a few hundred products of N(0, 1) values: 2000 units in the last place of 1.
constexpr double kTolerance = 2e3 * double{std::numeric_limits<real>::epsilon()};

// Values from N(0, 1) that `real` represents exactly.
Values draw(std::size_t size, std::uint64_t seed) {
  seppo::RandomStream random(seed, seppo::Purpose::test);
  Values values(size);
  for (double& v : values) v = double{static_cast<real>(random.normal())};
  return values;
}

std::vector<real> reals(const Values& values) { return {values.begin(), values.end()}; }

// One call of attention: the lengths of its query and key sequences, and the heads.
struct Case {
  std::vector<int> queries, keys, valid;
  int heads, width;
  bool is_causal;
  double dropout = 0;

  int d() const { return heads * width; }
  int all_queries() const { return std::accumulate(queries.begin(), queries.end(), 0); }
  int all_keys() const { return std::accumulate(keys.begin(), keys.end(), 0); }
};

struct Results {
  Values y, dq, dk, dv;
};

constexpr seppo::RandomContext kRandom{1, 2, 3, 4};
constexpr std::size_t kGroup = 128;  // keys that share a draw of dropout

std::size_t key_groups(const Case& c, std::size_t s) {
  return (static_cast<std::size_t>(c.keys[s]) + kGroup - 1) / kGroup;
}

// The factors that dropout applies to the weights of sequence s: [head, query, whole groups of keys].
Values dropout_factors(const Case& c, std::size_t s) {
  const int columns = static_cast<int>(key_groups(c, s) * kGroup);
  seppo::Tape t;
  const seppo::UseTape use(t);
  t.random = kRandom;
  t.random.sample += static_cast<std::uint32_t>(s);
  const seppo::Tensor y = seppo::dropout(seppo::full({c.heads, c.queries[s], columns}, 1), c.dropout);
  return Values(y.values().begin(), y.values().end());
}

// Textbook attention and its gradient, one query at a time. Matrices are [rows, ld].
Results expected_attention(const Case& c, const Values& q, const Values& k, const Values& v, const Values& dy,
                           std::size_t ld) {
  const auto d = static_cast<std::size_t>(c.d()), width = static_cast<std::size_t>(c.width);
  const double scale = 1 / std::sqrt(static_cast<double>(c.width));
  Results r{Values(static_cast<std::size_t>(c.all_queries()) * d), Values(q.size()), Values(k.size()),
            Values(v.size())};
  std::size_t first_query = 0, first_key = 0;
  for (std::size_t s = 0; s < c.queries.size(); ++s) {
    const auto queries = static_cast<std::size_t>(c.queries[s]), keys = static_cast<std::size_t>(c.keys[s]);
    const Values factors = dropout_factors(c, s);
    for (std::size_t column = 0; column < d; column += width)
      for (std::size_t i = 0; i < queries; ++i) {
        const double* const kept = &factors[(column / width * queries + i) * key_groups(c, s) * kGroup];
        const std::size_t qi = (first_query + i) * ld + column, yi = (first_query + i) * d + column;
        Values p, dp;
        double total = 0, mean = 0;
        for (std::size_t j = 0; j < static_cast<std::size_t>(c.valid[s]); ++j) {
          if (c.is_causal && j + queries > i + keys) break;
          double score = 0, slope = 0;
          for (std::size_t x = 0; x < width; ++x) {
            const std::size_t kj = (first_key + j) * ld + column + x;
            score += q[qi + x] * k[kj];
            slope += dy[yi + x] * v[kj];
          }
          p.push_back(std::exp(scale * score));
          dp.push_back(kept[j] * slope);
          total += p.back();
        }
        for (std::size_t j = 0; j < p.size(); ++j) mean += (p[j] /= total) * dp[j];
        for (std::size_t j = 0; j < p.size(); ++j)
          for (std::size_t x = 0; x < width; ++x) {
            const std::size_t kj = (first_key + j) * ld + column + x;
            const double ds = scale * p[j] * (dp[j] - mean);
            r.y[yi + x] += kept[j] * p[j] * v[kj];
            r.dq[qi + x] += ds * k[kj];
            r.dk[kj] += ds * q[qi + x];
            r.dv[kj] += kept[j] * p[j] * dy[yi + x];
          }
      }
    first_query += queries;
    first_key += keys;
  }
  return r;
}

std::vector<int> offsets_of(const std::vector<int>& sizes) {
  std::vector<int> offsets{0};
  for (const int size : sizes) offsets.push_back(offsets.back() + size);
  return offsets;
}

void check_near(std::span<const real> got, const Values& expected, const std::string& what) {
  BOOST_REQUIRE_EQUAL(got.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::isnan(got[i]) ? 1 : std::abs(double{got[i]} - expected[i]));
  BOOST_CHECK_MESSAGE(worst < kTolerance, what << ": off by " << worst);
}

// Q, K and V are columns in the middle of wider matrices.
void check_attention(const Case& c) {
  constexpr int kBefore = 1, kGap = 3;
  const int ld = c.d() + kGap;
  const auto size = [&](int rows) { return static_cast<std::size_t>(rows * ld); };
  const Values q = draw(size(c.all_queries()), 1), k = draw(size(c.all_keys()), 2), v = draw(size(c.all_keys()), 3),
               dy = draw(static_cast<std::size_t>(c.all_queries() * c.d()), 4);
  const auto from = [](const Values& x) { return Values(x.begin() + kBefore, x.end()); };
  Results expected = expected_attention(c, from(q), from(k), from(v), dy, static_cast<std::size_t>(ld));
  for (auto* gradient : {&expected.dq, &expected.dk, &expected.dv}) gradient->insert(gradient->begin(), kBefore, 0);

  seppo::tape().clear();
  seppo::tape().random = kRandom;
  const seppo::Tensor tq = seppo::variable({c.all_queries(), ld}, reals(q)),
                      tk = seppo::variable({c.all_keys(), ld}, reals(k)),
                      tv = seppo::variable({c.all_keys(), ld}, reals(v));
  const auto columns = [&](const seppo::Tensor& x) { return seppo::Columns(x, kBefore, c.d()); };
  const std::vector<int> qo = offsets_of(c.queries), ko = offsets_of(c.keys);
  seppo::Mask mask = seppo::Mask::valid_lengths(c.valid);
  mask.is_causal = c.is_causal;
  const seppo::Tensor y =
      seppo::attention(columns(tq), columns(tk), columns(tv), c.heads, qo, ko, {.mask = mask, .dropout = c.dropout});
  seppo::tape().backward(y, reals(dy));
  const std::string name = std::to_string(c.queries.size()) + " sequences, " + std::to_string(c.heads) + " heads of " +
                           std::to_string(c.width) + (c.is_causal ? ", causal" : "") +
                           (c.dropout > 0 ? ", dropout" : "");
  check_near(y.values(), expected.y, name + ": y");
  const auto gradient = [](const seppo::Tensor& x) { return std::span<const real>(grad_of(x), x.numel()); };
  check_near(gradient(tq), expected.dq, name + ": dq");
  check_near(gradient(tk), expected.dk, name + ": dk");
  check_near(gradient(tv), expected.dv, name + ": dv");
}

// `sequences` sequences of at most `queries` queries and `keys` keys; some are shorter unless `are_equal`.
Case make_case(int sequences, int queries, int keys, int heads, int width, bool is_causal, bool are_equal) {
  Case c{{}, {}, {}, heads, width, is_causal};
  for (int s = 0; s < sequences; ++s) {
    const int less = are_equal ? 0 : s % 3;
    c.queries.push_back(std::max(1, queries - less));
    c.keys.push_back(std::max(1, keys - s % 2 * less));
    c.valid.push_back(std::max(1, c.keys.back() - (are_equal ? 0 : s % 4)));
  }
  return c;
}

}  // namespace

// Widths with and without quads of columns; groups of heads that fill the vectors and groups that do not.
// one_build: autograd/kernels/attention_short.cpp gather_quads
BOOST_AUTO_TEST_CASE(attention_of_short_sequences) {
  for (const int width : {1, 3, 4, 6, 8, 32})
    for (const int heads : {1, 2, 4})
      for (const int sequences : {1, 5, 16, 19})
        for (const bool is_causal : {false, true})
          for (const bool are_equal : {false, true})
            check_attention(make_case(sequences, 4, 9, heads, width, is_causal, are_equal));
}

// The large cases span several tiles in each direction, which AMX multiplies where available.
BOOST_AUTO_TEST_CASE(attention_of_long_sequences) {
  for (const int width : {3, 20, 64})
    for (const bool is_causal : {false, true}) {
      check_attention(make_case(2, 70, 150, 2, width, is_causal, false));
      check_attention(make_case(1, 130, 300, 1, width, is_causal, true));
      check_attention(make_case(3, 5, 260, 2, width, is_causal, false));
      for (const double dropout : {0.0, 0.25}) {
        Case large = make_case(1, 520, 600, 1, width, is_causal, true);
        large.dropout = dropout;
        check_attention(large);
      }
    }
}
