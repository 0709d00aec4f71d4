// Products and attention against plain loops in double precision. Compiled for both precisions: some kernels have other
// code for float than for double.
#define BOOST_TEST_MODULE kernels
#include <seppo/autograd/blas/gemm.h>
#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/ops.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/core/random.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace {

using seppo::real;
using Values = std::vector<double>;

// Of sums of some hundred products of N(0, 1), in units of the last place of 1.
constexpr double kTolerance = 2e3 * double{std::numeric_limits<real>::epsilon()};

// Numbers that `real` has too.
Values draw(std::size_t size, std::uint64_t seed) {
  seppo::RandomStream random(seed, seppo::Purpose::test);
  Values values(size);
  for (double& v : values) v = double{static_cast<real>(random.normal())};
  return values;
}

std::vector<real> reals(const Values& values) { return {values.begin(), values.end()}; }

enum class Plus { nothing, c, row };

// C = op(A) op(B) + what is asked for, on padded matrices, against three loops. The gaps between rows must stay.
void check_gemm(seppo::Trans trans_a, seppo::Trans trans_b, std::size_t m, std::size_t n, std::size_t k, Plus plus) {
  constexpr std::size_t kGap = 3;
  const bool ta = trans_a == seppo::Trans::yes, tb = trans_b == seppo::Trans::yes;
  const std::size_t lda = (ta ? m : k) + kGap, ldb = (tb ? k : n) + kGap, ldc = n + kGap;
  const std::uint64_t seed = 4 * (m + 100 * n + 10000 * k);
  const Values a = draw((ta ? k : m) * lda, seed), b = draw((tb ? n : k) * ldb, seed + 1),
               before = draw(m * ldc, seed + 2), row = draw(n, seed + 3);
  const std::vector<real> left = reals(a), right = reals(b);
  std::vector<real> c = reals(before);
  if (plus != Plus::c)  // may be uninitialised
    for (std::size_t i = 0; i < m; ++i)
      std::fill_n(c.begin() + static_cast<std::ptrdiff_t>(i * ldc), n, std::numeric_limits<real>::quiet_NaN());
  if (plus == Plus::row)
    seppo::gemm_plus_row(trans_a, trans_b, m, n, k, left.data(), lda, right.data(), ldb, reals(row).data(), c.data(),
                         ldc);
  else
    seppo::gemm(trans_a, trans_b, m, n, k, left.data(), lda, right.data(), ldb, plus == Plus::c, c.data(), ldc);
  double worst = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < ldc; ++j) {
      double expected = before[i * ldc + j];
      if (j < n) {
        if (plus != Plus::c) expected = plus == Plus::row ? row[j] : 0;
        for (std::size_t p = 0; p < k; ++p)
          expected += a[ta ? p * lda + i : i * lda + p] * b[tb ? j * ldb + p : p * ldb + j];
      }
      const double got{c[i * ldc + j]};
      worst = std::max(worst, std::isnan(got) ? 1 : std::abs(got - expected));
    }
  BOOST_CHECK_MESSAGE(worst < kTolerance, "gemm " << m << "x" << n << "x" << k << (ta ? " T" : " N") << (tb ? "T" : "N")
                                                  << " plus " << static_cast<int>(plus) << ": off by " << worst);
}

}  // namespace

// Sizes on both sides of every limit in blas.cpp and the kernels of products: few rows, blocks, panels, OpenBLAS.
BOOST_AUTO_TEST_CASE(gemm_of_any_size) {
  using enum seppo::Trans;
  for (const auto trans_a : {no, yes})
    for (const auto trans_b : {no, yes}) {
      for (const Plus plus : {Plus::nothing, Plus::c, Plus::row}) {
        for (const std::size_t m : {1u, 3u, 4u, 5u, 7u, 12u, 65u})
          for (const std::size_t n : {1u, 2u, 16u, 19u, 32u, 33u, 48u, 57u})
            for (const std::size_t k : {1u, 5u, 16u}) check_gemm(trans_a, trans_b, m, n, k, plus);
        // few rows against many columns, and long sums: each has a loop of its own
        for (const std::size_t m : {1u, 2u, 3u, 4u, 6u})
          for (const std::size_t k : {24u, 37u, 100u, 129u, 300u}) check_gemm(trans_a, trans_b, m, 40, k, plus);
        check_gemm(trans_a, trans_b, 400, 70, 300, plus);
        check_gemm(trans_a, trans_b, 9, 600, 257, plus);
        check_gemm(trans_a, trans_b, 64, 300, 520, plus);
        if (plus == Plus::nothing) check_gemm(trans_a, trans_b, 66, 600, 450, plus);
      }
      check_gemm(trans_a, trans_b, 70, 530, 600, Plus::c);  // more than a block, of either factor
      check_gemm(trans_a, trans_b, 530, 540, 70, Plus::row);
    }
  for (const Plus plus : {Plus::nothing, Plus::c, Plus::row}) {
    check_gemm(no, yes, 300, 530, 500, plus);
    // few rows and a large B, whose size is no multiple of a tile's
    for (const std::size_t m : {5u, 16u, 17u, 32u, 33u, 64u}) check_gemm(no, yes, m, (8192 / m + 258) | 1, 300, plus);
  }
  // Within a task a product is not cut for the threads: the matrix unit takes the factor that stays in parts then, of its
  // terms or of its lines.
  seppo::run_tasks(2, [](std::size_t task) {
    if (task == 0) return;
    check_gemm(no, yes, 330, 350, 600, Plus::row);
    check_gemm(yes, no, 670, 650, 520, Plus::c);
  });
}

namespace {

// A product large enough for every kernel, also once it is cut into pieces for the threads.
struct Large {
  std::size_t m, n, k;
  std::vector<real> a, b, c;

  // fill(size, number) draws a factor
  template <class F>
  Large(std::size_t m, std::size_t n, std::size_t k, const F& fill)
      : m(m), n(n), k(k), a(fill(m * k, 1)), b(fill(n * k, 2)), c(m * n) {}

  void multiply() {
    seppo::gemm(seppo::Trans::no, seppo::Trans::yes, m, n, k, a.data(), k, b.data(), k, 0, c.data(), n);
  }
  // Calls f(sum of the products, sum of their magnitudes, result) for every element.
  template <class F>
  void for_each(const F& f) const {
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0, magnitudes = 0;
        for (std::size_t p = 0; p < k; ++p) {
          const double product = double{a[i * k + p]} * double{b[j * k + p]};
          sum += product, magnitudes += std::abs(product);
        }
        f(sum, magnitudes, double{c[i * n + j]});
      }
  }
};

std::vector<real> of_many_magnitudes(std::size_t size, std::uint64_t seed, int largest) {
  seppo::RandomStream random(seed, seppo::Purpose::test);
  std::vector<real> values(size);
  for (real& v : values)
    v = static_cast<real>(std::ldexp(random.normal(), largest - static_cast<int>(random.below(40))));
  return values;
}

// Runs check(product) for a product of many rows and for one of few.
template <class F, class Check>
void for_large_products(const F& fill, const Check& check) {
  check(Large(300, 130, 90, fill));
  check(Large(20, 600, 180, fill));
}

}  // namespace

// Also where a factor is cut into numbers of fewer digits: of a sum's terms one is often much larger than the others,
// so digits that it lacks are seen.
BOOST_AUTO_TEST_CASE(large_products_lose_no_digits) {
  const auto fill = [](std::size_t size, std::uint64_t seed) { return of_many_magnitudes(size, seed, 20); };
  for_large_products(fill, [](Large product) {
    product.multiply();
    double worst = 0;
    product.for_each(
        [&](double sum, double magnitudes, double got) { worst = std::max(worst, std::abs(got - sum) / magnitudes); });
    BOOST_CHECK_LT(worst, 6 * double{std::numeric_limits<real>::epsilon()});
  });
}

// Where a number's last digits are too small for the type.
BOOST_AUTO_TEST_CASE(large_products_of_the_smallest_numbers) {
  constexpr int kSmallest = std::numeric_limits<real>::min_exponent;
  const auto fill = [](std::size_t size, std::uint64_t number) {
    return of_many_magnitudes(size, 2 + number, number == 1 ? kSmallest + 20 : 20);
  };
  for_large_products(fill, [](Large product) {
    product.multiply();
    // each product may lose a smallest number, times b
    const double lost = static_cast<double>(product.k) * std::ldexp(1, kSmallest + 20);
    product.for_each([&](double sum, double magnitudes, double got) {
      BOOST_REQUIRE_LT(std::abs(got - sum), 1e-6 * magnitudes + lost);
    });
  });
}

BOOST_AUTO_TEST_CASE(a_number_that_is_none_spoils_its_row_or_column_of_a_large_product) {
  const auto fill = [](std::size_t size, std::uint64_t seed) { return reals(draw(size, 4 + seed)); };
  for (const real bad : {std::numeric_limits<real>::quiet_NaN(), std::numeric_limits<real>::infinity()})
    for_large_products(fill, [&](Large product) {
      const std::size_t m = product.m, n = product.n, k = product.k, row = m * 2 / 3, column = 7;
      product.a[row * k + 3] = bad;
      product.b[column * k] = product.b[column * k + k - 1] = bad;
      product.multiply();
      for (std::size_t i = 0; i < m; ++i)
        for (std::size_t j = 0; j < n; ++j)
          BOOST_REQUIRE_EQUAL(std::isfinite(product.c[i * n + j]), i != row && j != column);
    });
}

// It may choose them by how fast they are at the moment.
BOOST_AUTO_TEST_CASE(the_matrix_unit_gives_the_same_numbers_with_any_blocks) {
  namespace kernels = seppo::kernels;
  if (!kernels::has_amx()) {
    std::cout << "skipped: blocks of the matrix unit; the processor has none\n";
    return;
  }
  for (const std::size_t n : {130u, 20u}) {  // with so few columns packing does not fit between the instructions
    constexpr std::size_t m = 300, k = 600;
    const std::vector<real> a = reals(draw(m * k, 7)), b = reals(draw(n * k, 8)), row = reals(draw(n, 9));
    const auto product = [&](kernels::AmxBlocks blocks, bool is_turned) {
      std::vector<real> c(m * n);
      if (is_turned)
        kernels::amx_gemm(blocks, n, m, k, {b.data(), 1, n}, {a.data(), m, 1}, {}, c.data(), m);
      else
        kernels::amx_gemm(blocks, m, n, k, {a.data(), k, 1}, {b.data(), 1, k}, {row.data(), 0}, c.data(), n);
      return c;
    };
    for (const bool is_turned : {false, true})
      BOOST_CHECK(product(kernels::AmxBlocks::narrow, is_turned) == product(kernels::AmxBlocks::wide, is_turned));
  }
}

BOOST_AUTO_TEST_CASE(large_products_are_the_same_for_any_number_of_threads) {
  const auto product = [](int threads, std::size_t m, std::size_t n, std::size_t k) {
    seppo::set_num_threads(threads);
    const std::vector<real> a = reals(draw(m * k, 1)), b = reals(draw(n * k, 2));
    std::vector<real> c(m * n);
    seppo::gemm(seppo::Trans::no, seppo::Trans::yes, m, n, k, a.data(), k, b.data(), k, 0, c.data(), n);
    seppo::set_num_threads(1);
    return c;
  };
  for (const std::size_t m : {1u, 2u, 20u, 40u, 300u, 700u})
    for (const int threads : {2, 3}) BOOST_CHECK(product(1, m, 600, 500) == product(threads, m, 600, 500));
}

namespace {

// What attention is asked for: sequences of queries and keys, and the heads.
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
constexpr std::size_t kGroup = 128;  // of keys that share a draw of dropout

std::size_t key_groups(const Case& c, std::size_t s) {
  return (static_cast<std::size_t>(c.keys[s]) + kGroup - 1) / kGroup;
}

// What dropout multiplies the weights of sequence s with: [head, query, whole groups of keys].
Values dropout_factors(const Case& c, std::size_t s) {
  const int columns = static_cast<int>(key_groups(c, s) * kGroup);
  seppo::Tape t;
  const seppo::UseTape use(t);
  t.random = kRandom;
  t.random.sample += static_cast<std::uint32_t>(s);
  const seppo::Tensor y = seppo::dropout(seppo::full({c.heads, c.queries[s], columns}, 1), c.dropout);
  return Values(y.values().begin(), y.values().end());
}

// Softmax and its gradient as the textbook has them, one query at a time. Matrices are [rows, ld].
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
    first_query += queries, first_key += keys;
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

// On columns in the middle of wider matrices.
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

// `sequences` of at most `queries` and `keys`, shorter ones among them unless they shall be equal.
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

// Widths with quads of columns and without; groups of heads that fill the vectors and that do not.
BOOST_AUTO_TEST_CASE(attention_of_short_sequences) {
  for (const int width : {1, 3, 4, 6, 8, 32})
    for (const int heads : {1, 2, 4})
      for (const int sequences : {1, 5, 16, 19})
        for (const bool is_causal : {false, true})
          for (const bool are_equal : {false, true})
            check_attention(make_case(sequences, 4, 9, heads, width, is_causal, are_equal));
}

// The last ones have more than one tile each way, which the matrix unit multiplies where there is one.
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
