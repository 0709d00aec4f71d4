// Products against plain loops in double precision. Compiled for both precisions, whose code differs.
// needs: precision: single double; simd: avx512 avx2 plain
#include <seppo/autograd/blas/multiply.h>
#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/core/random.h>

#include "support/memcheck.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
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

enum class Plus { nothing, c, row };
enum class Stored { as_is, transposed };

// x[rows, cols], or its transpose, with rows `stride` apart in memory.
seppo::MatrixView operand(const real* data, std::size_t rows, std::size_t cols, Stored stored, std::size_t stride) {
  if (stored == Stored::as_is) return {data, rows, cols, stride};
  return seppo::transposed({data, cols, rows, stride});
}

// C = A B, `plus` C or a row, on padded matrices, against three loops. The gaps between rows must not change.
void check_product(Stored stored_a, Stored stored_b, std::size_t m, std::size_t n, std::size_t k, Plus plus) {
  constexpr std::size_t kGap = 3;
  const bool ta = stored_a == Stored::transposed, tb = stored_b == Stored::transposed;
  const std::size_t lda = (ta ? m : k) + kGap, ldb = (tb ? k : n) + kGap, ldc = n + kGap;
  const std::uint64_t seed = 4 * (m + 100 * n + 10000 * k);
  const Values a = draw((ta ? k : m) * lda, seed), b = draw((tb ? n : k) * ldb, seed + 1),
               before = draw(m * ldc, seed + 2), row = draw(n, seed + 3);
  const std::vector<real> left = reals(a), right = reals(b);
  std::vector<real> c = reals(before);
  if (plus != Plus::c)  // C may be uninitialised
    for (std::size_t i = 0; i < m; ++i)
      std::fill_n(c.begin() + static_cast<std::ptrdiff_t>(i * ldc), n, std::numeric_limits<real>::quiet_NaN());
  const seppo::MatrixOut out(c.data(), m, n, ldc);
  const seppo::MatrixView view_a = operand(left.data(), m, k, stored_a, lda);
  const seppo::MatrixView view_b = operand(right.data(), k, n, stored_b, ldb);
  if (plus == Plus::row)
    seppo::multiply_plus_row(out, view_a, view_b, reals(row).data());
  else
    seppo::multiply(out, view_a, view_b, plus == Plus::c ? seppo::Accumulate::yes : seppo::Accumulate::no);
  const std::size_t stride = test::is_in_memcheck() ? 7 : 1;
  double worst = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = i % stride; j < ldc; j += stride) {
      double expected = before[i * ldc + j];
      if (j < n) {
        if (plus != Plus::c) expected = plus == Plus::row ? row[j] : 0;
        for (std::size_t p = 0; p < k; ++p)
          expected += a[ta ? p * lda + i : i * lda + p] * b[tb ? j * ldb + p : p * ldb + j];
      }
      const double got{c[i * ldc + j]};
      worst = std::max(worst, std::isnan(got) ? 1 : std::abs(got - expected));
    }
  BOOST_CHECK_MESSAGE(worst < kTolerance, m << "x" << n << "x" << k << (ta ? " T" : " N") << (tb ? "T" : "N")
                                            << " plus " << static_cast<int>(plus) << ": off by " << worst);
}

}  // namespace

// Sizes on both sides of every threshold in engine.cpp and the files behind it: few rows, blocks, panels, OpenBLAS.
// one_build: autograd/blas/openblas.cpp gemm
// one_build: autograd/blas/small_gemm.cpp transpose_rows transpose
// one_build: autograd/core/simd-inl.h transpose_quads
// one_build: autograd/blas/amx.h is_available
// one_build: autograd/blas/amx.cpp amx
// one_build: autograd/blas/amx_few_rows.cpp amx_few_rows
BOOST_AUTO_TEST_CASE(products_of_any_size) {
  using enum Stored;
  for (const auto a : {as_is, transposed})
    for (const auto b : {as_is, transposed}) {
      for (const Plus plus : {Plus::nothing, Plus::c, Plus::row}) {
        for (const std::size_t m : {1u, 3u, 4u, 5u, 7u, 12u, 65u})
          for (const std::size_t n : {1u, 2u, 16u, 19u, 32u, 33u, 48u, 57u})
            for (const std::size_t k : {0u, 1u, 5u, 16u}) check_product(a, b, m, n, k, plus);
        // few rows with many columns, and long sums, have loops of their own
        for (const std::size_t m : {1u, 2u, 3u, 4u, 6u})
          for (const std::size_t k : {24u, 37u, 100u, 129u, 300u}) check_product(a, b, m, 40, k, plus);
        check_product(a, b, 400, 70, 300, plus);
        check_product(a, b, 9, 600, 257, plus);
        check_product(a, b, 64, 300, 520, plus);
        check_product(a, b, 70, 300, 0, plus);
        if (plus == Plus::nothing) check_product(a, b, 66, 600, 450, plus);
      }
      check_product(a, b, 70, 530, 600, Plus::c);  // more than one block of either factor
      check_product(a, b, 530, 540, 70, Plus::row);
    }
  for (const Plus plus : {Plus::nothing, Plus::c, Plus::row}) {
    check_product(as_is, transposed, 300, 530, 500, plus);
    // few rows and a large B whose size is not a multiple of a tile's
    for (const std::size_t m : {5u, 16u, 17u, 32u, 33u, 64u})
      check_product(as_is, transposed, m, (8192 / m + 258) | 1, 300, plus);
  }
  // Within a task, a product is not divided among the threads: AMX then packs the staying operand in several blocks,
  // along its terms or its lines.
  seppo::run_tasks(2, [](std::size_t task) {
    if (task == 0) return;
    check_product(as_is, transposed, 330, 350, 600, Plus::row);
    check_product(transposed, as_is, 670, 650, 520, Plus::c);
    // Without AMX, OpenBLAS computes it; with AMX it has too few terms
    for (const Plus plus : {Plus::nothing, Plus::c, Plus::row})
      for (const auto b : {as_is, transposed}) check_product(transposed, b, 66, 22000, 48, plus);
  });
}

// One below, at and one above the rows of a tile, of few rows and of a part that is transposed at once, the columns of
// panels, and the terms of a block: each number of rows meets each of columns and of terms.
BOOST_AUTO_TEST_CASE(sizes_around_every_threshold) {
  using enum Stored;
  constexpr std::size_t kRows[] = {5, 6, 7, 31, 32, 33, 63, 64, 65, 95, 96, 97, 129};
  constexpr std::size_t kColumns[] = {15, 16, 17, 47, 48, 49, 63, 64, 65, 97, 127};
  constexpr std::size_t kTerms[] = {31, 32, 33, 127, 128, 129, 255, 256, 257};
  for (std::size_t i = 0; i < std::size(kRows) * std::size(kColumns); ++i)
    check_product(i % 2 == 0 ? as_is : transposed, i % 3 == 0 ? as_is : transposed, kRows[i % std::size(kRows)],
                  kColumns[i % std::size(kColumns)], kTerms[i % std::size(kTerms)], Plus{static_cast<int>(i % 3)});
}

namespace {

// A product large enough for every kernel, even after it is divided among the threads.
struct Large {
  std::size_t m, n, k;
  std::vector<real> a, b, c;

  // fill(size, number) draws an operand
  template <class F>
  Large(std::size_t m, std::size_t n, std::size_t k, const F& fill)
      : m(m), n(n), k(k), a(fill(m * k, 1)), b(fill(n * k, 2)), c(m * n) {}

  void multiply() { seppo::multiply({c.data(), m, n}, {a.data(), m, k}, seppo::transposed({b.data(), n, k})); }
  // Calls f(sum of the products, sum of their magnitudes, result) for every element.
  template <class F>
  void for_each(const F& f) const {
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0, magnitudes = 0;
        for (std::size_t p = 0; p < k; ++p) {
          const double product = double{a[i * k + p]} * double{b[j * k + p]};
          sum += product;
          magnitudes += std::abs(product);
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

// Runs check(product) for a product with many rows and for one with few.
template <class F, class Check>
void for_large_products(const F& fill, const Check& check) {
  check(Large(300, 130, 90, fill));
  check(Large(20, 600, 180, fill));
}

}  // namespace

// Even where an operand is split into numbers of fewer digits: one term of a sum is often much larger than the others,
// so that missing digits show.
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

// Numbers whose last digits underflow when they are split off.
BOOST_AUTO_TEST_CASE(large_products_of_the_smallest_numbers) {
  constexpr int kSmallest = std::numeric_limits<real>::min_exponent;
  const auto fill = [](std::size_t size, std::uint64_t number) {
    return of_many_magnitudes(size, 2 + number, number == 1 ? kSmallest + 20 : 20);
  };
  for_large_products(fill, [](Large product) {
    product.multiply();
    // each term may lose a smallest number times b
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

BOOST_AUTO_TEST_CASE(large_products_are_the_same_for_any_number_of_threads) {
  const auto product = [](int threads, std::size_t m, std::size_t n, std::size_t k) {
    seppo::set_num_threads(threads);
    const std::vector<real> a = reals(draw(m * k, 1)), b = reals(draw(n * k, 2));
    std::vector<real> c(m * n);
    seppo::multiply({c.data(), m, n}, {a.data(), m, k}, seppo::transposed({b.data(), n, k}));
    seppo::set_num_threads(1);
    return c;
  };
  for (const std::size_t m : {1u, 2u, 20u, 40u, 300u, 700u})
    for (const int threads : {2, 3}) BOOST_CHECK(product(1, m, 600, 500) == product(threads, m, 600, 500));
}

BOOST_AUTO_TEST_CASE(products_that_cannot_be) {
  real c = 5;
  constexpr std::size_t kLarge = std::size_t{1} << 31, kMany = std::size_t{1} << 20;  // beyond OpenBLAS's integers
  // No operand is read. Rows and columns are divided into sixteen pieces first.
  for (const auto& [m, n, k, lda, ldb, ldc] :
       std::vector<std::array<std::size_t, 6>>{{65, 2, kLarge, kLarge, 2, 2},
                                               {16 * kLarge, 2, kMany, kMany, 2, 2},
                                               {65, 16 * kLarge, 2, 2, 2, 2},
                                               {65, 2, kMany, kLarge, 2, 2},
                                               {65, 2, kMany, kMany, kLarge, 2},
                                               {65, 2, kMany, kMany, 2, kLarge}}) {
    const seppo::MatrixView a(&c, m, k, lda), b(&c, k, n, ldb);
    const seppo::MatrixOut out(&c, m, n, ldc);
    BOOST_CHECK_THROW(seppo::multiply(out, a, b), seppo::ShapeError);
    BOOST_CHECK_THROW(seppo::multiply_plus_row(out, a, b, nullptr), seppo::ShapeError);
  }
  BOOST_CHECK_EQUAL(c, 5);
}

namespace {

std::string message_of(const seppo::MatrixOut& c, const seppo::MatrixView& a, const seppo::MatrixView& b) {
  std::string message;
  try {
    seppo::multiply_plus_row(c, a, b, nullptr);
  } catch (const seppo::ShapeError& error) {
    message = error.what();
  }
  BOOST_CHECK_THROW(seppo::multiply(c, a, b), seppo::ShapeError);
  return message;
}

}  // namespace

BOOST_AUTO_TEST_CASE(sizes_that_do_not_fit_together_are_named) {
  real x[12] = {};
  const seppo::MatrixView a(x, 2, 3), b(x, 3, 4);
  BOOST_CHECK_EQUAL(message_of({x, 2, 4}, a, seppo::transposed(b)), "multiply: inner sizes differ: A [2,3], B [4,3]");
  for (const auto& [rows, cols] : {std::pair{2, 3}, {3, 4}})
    BOOST_CHECK_EQUAL(message_of({x, static_cast<std::size_t>(rows), static_cast<std::size_t>(cols)}, a, b),
                      "multiply: C [" + std::to_string(rows) + "," + std::to_string(cols) +
                          "] is not the product of A [2,3] and B [3,4]");
}

BOOST_AUTO_TEST_CASE(views_of_parts_and_transposes) {
  const std::vector<real> x{1, 2, 3, 4, 5, 6};
  const seppo::MatrixView whole(x.data(), 2, 3), across = seppo::transposed(whole);
  BOOST_CHECK_EQUAL(across.rows, 3);
  BOOST_CHECK_EQUAL(across.cols, 2);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      BOOST_CHECK_EQUAL(*whole.at(i, j), x[3 * i + j]);
      BOOST_CHECK_EQUAL(across.at(j, i), whole.at(i, j));
    }
  const seppo::MatrixView part = across.block(1, 1, 2, 1);
  BOOST_CHECK(part.rows == 2 && part.cols == 1 && *part.at(0, 0) == 5 && *part.at(1, 0) == 6);
}
