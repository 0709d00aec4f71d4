// The precision of products as a choice: what it costs in exactness, and where it holds. Bounds are those of rounding.
// needs: precision: single double; simd: avx512 avx2 plain
#include <seppo/autograd/blas/multiply.h>
#include <seppo/autograd/core/matmul_precision.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/core/random.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace {

using seppo::MatmulPrecision;
using seppo::real;
using seppo::UseMatmulPrecision;
using enum MatmulPrecision;

constexpr MatmulPrecision kAll[] = {highest, high, medium};

bool is_as_highest(MatmulPrecision precision) {
  return seppo::blas_description().find(std::string("; ") + enum_names(precision)[static_cast<std::size_t>(precision)] +
                                        " is highest") != std::string::npos;
}

std::vector<real> draw(std::size_t size, std::uint64_t seed) {
  seppo::RandomStream random(seed, seppo::Purpose::test);
  std::vector<real> values(size);
  for (real& v : values) v = static_cast<real>(random.normal());
  return values;
}

// A product whose operands have rows dense along the terms, or along the other side.
struct Sizes {
  std::size_t m, n, k;
  bool a_is_transposed = false, b_is_transposed = true;
};

struct Operands {
  std::vector<real> a, b;
  explicit Operands(const Sizes& s) : a(draw(s.m * s.k, 1)), b(draw(s.n * s.k, 2)) {}

  seppo::MatrixView left(const Sizes& s) const {
    if (s.a_is_transposed) return seppo::transposed({a.data(), s.k, s.m});
    return {a.data(), s.m, s.k};
  }
  seppo::MatrixView right(const Sizes& s) const {
    if (s.b_is_transposed) return seppo::transposed({b.data(), s.n, s.k});
    return {b.data(), s.k, s.n};
  }
};

std::vector<real> product(const Sizes& s, const Operands& operands) {
  std::vector<real> c(s.m * s.n);
  seppo::multiply({c.data(), s.m, s.n}, operands.left(s), operands.right(s));
  return c;
}

// The largest error, in relation to the sum of the magnitudes of the terms.
double worst_error(const Sizes& s, const Operands& operands) {
  const std::vector<real> c = product(s, operands);
  const seppo::MatrixView a = operands.left(s), b = operands.right(s);
  double worst = 0;
  for (std::size_t i = 0; i < s.m; i += 3)
    for (std::size_t j = 0; j < s.n; ++j) {
      double sum = 0, magnitudes = 0;
      for (std::size_t p = 0; p < s.k; ++p) {
        const double term = double{*a.at(i, p)} * double{*b.at(p, j)};
        sum += term;
        magnitudes += std::abs(term);
      }
      const double error = std::abs(double{c[i * s.n + j]} - sum) / magnitudes;
      worst = std::max(worst, std::isnan(error) ? 1 : error);
    }
  return worst;
}

// What splitting both factors of a term may cost. A number of 8 bits differs by up to 2^-9 from what it rounds, and two
// of them by 2^-18; the product of the smaller parts, which is omitted, is as small.
double error_of_a_term(MatmulPrecision precision) {
  if (precision == medium) return 2 * std::ldexp(1, -9) + std::ldexp(1, -18);
  if (precision == high) return 3 * std::ldexp(1, -18) + std::ldexp(1, -26);
  return std::ldexp(1, -22);
}

// Few rows, rows on both sides of a panel's, large, and the smallest that medium precision concerns.
std::vector<Sizes> sizes(std::size_t k) {
  return {{20, 2100, k},
          {97, 330, k},
          {130, 260, k, true, false},
          {300, 130, k, true, true},
          {64, 600, k, false, false},
          {32, 64, k},
          {33, 75, k, true, false}};
}

}  // namespace

// one_build: autograd/blas/avx512_bf16.h is_available
// one_build: autograd/blas/avx512_bf16.cpp avx512_bf16
BOOST_AUTO_TEST_CASE(errors_are_those_of_rounding) {
  for (const std::size_t k : {32u, 64u, 100u, 256u, 521u, 1100u})
    for (const Sizes& s : sizes(k)) {
      const Operands operands(s);
      for (const MatmulPrecision precision : kAll) {
        const UseMatmulPrecision use(precision);
        const double of_sum = static_cast<double>(k) * double{std::numeric_limits<real>::epsilon()} / 2;
        BOOST_CHECK_LT(worst_error(s, operands), error_of_a_term(precision) + of_sum);
      }
    }
}

// What C holds, or a row, is added as a float: its digits are not those of a factor.
BOOST_AUTO_TEST_CASE(sums_begin_with_c_or_a_row_in_every_precision) {
  for (const MatmulPrecision precision : kAll)
    for (const Sizes& s : {Sizes{130, 260, 600}, {97, 330, 64}, {300, 130, 100, true, true}}) {
      const UseMatmulPrecision use(precision);
      const Operands operands(s);
      const std::vector<real> alone = product(s, operands), before = draw(s.m * s.n, 3), row = draw(s.n, 4);
      std::vector<real> onto_c = before, onto_row(s.m * s.n);
      seppo::multiply({onto_c.data(), s.m, s.n}, operands.left(s), operands.right(s), seppo::Accumulate::yes);
      seppo::multiply_plus_row({onto_row.data(), s.m, s.n}, operands.left(s), operands.right(s), row.data());
      double worst = 0;
      for (std::size_t i = 0; i < alone.size(); ++i) {
        worst = std::max(worst, std::abs(double{onto_c[i]} - double{alone[i]} - double{before[i]}));
        worst = std::max(worst, std::abs(double{onto_row[i]} - double{alone[i]} - double{row[i % s.n]}));
      }
      BOOST_CHECK_LT(worst, 1e3 * double{std::numeric_limits<real>::epsilon()});
    }
}

// A lower precision must also be one, or nobody would notice that it is slow.
BOOST_AUTO_TEST_CASE(medium_rounds_unless_the_description_says_that_it_is_highest) {
  const Sizes large{130, 260, 256}, strip_of_attention{32, 96, 64};
  const auto error = [](const Sizes& s, MatmulPrecision precision) {
    const UseMatmulPrecision use(precision);
    return worst_error(s, Operands(s));
  };
  const auto check = [&](const Sizes& s, MatmulPrecision precision) {
    BOOST_TEST_CONTEXT(seppo::blas_description()) {
      if (is_as_highest(precision))
        BOOST_CHECK_EQUAL(error(s, precision), error(s, highest));
      else
        BOOST_CHECK_GT(error(s, precision), 2 * error(s, highest));
    }
  };
  check(large, high);
  check(large, medium);
  check(strip_of_attention, medium);
  BOOST_CHECK_LE(error(large, high), error(large, medium));
#ifdef SEPPO_FLOAT64
  BOOST_CHECK(is_as_highest(high) && is_as_highest(medium));
#endif
}

BOOST_AUTO_TEST_CASE(products_are_the_same_for_any_number_of_threads) {
  const auto on_threads = [](int threads, const Sizes& s) {
    seppo::set_num_threads(threads);
    return product(s, Operands(s));
  };
  for (const MatmulPrecision precision : kAll) {
    const UseMatmulPrecision use(precision);
    for (const Sizes& s : sizes(300)) BOOST_CHECK(on_threads(1, s) == on_threads(3, s));
  }
  seppo::set_num_threads(1);
}

BOOST_AUTO_TEST_CASE(numbers_that_are_none_and_infinite_ones_spoil_products_in_every_precision) {
  const Sizes s{70, 130, 300};
  for (const MatmulPrecision precision : kAll)
    for (const std::uint32_t bits : {0x7fc00000u, 0x7fffffffu, 0xffffffffu, 0x7f800000u}) {
      const UseMatmulPrecision use(precision);
      Operands operands(s);
      float bad;
      std::memcpy(&bad, &bits, sizeof bad);
      operands.a[7 * s.k + 200] = static_cast<real>(bad);
      operands.b[9 * s.k + 3] = static_cast<real>(bad);
      const std::vector<real> c = product(s, operands);
      for (std::size_t i = 0; i < s.m; ++i)
        for (std::size_t j = 0; j < s.n; ++j) BOOST_REQUIRE_EQUAL(std::isfinite(c[i * s.n + j]), i != 7 && j != 9);
    }
}

BOOST_AUTO_TEST_CASE(a_scope_restores_what_was) {
  BOOST_CHECK(seppo::matmul_precision() == highest);
  seppo::set_matmul_precision(high);
  {
    const UseMatmulPrecision outer(medium);
    {
      const UseMatmulPrecision inner(highest);
      BOOST_CHECK(seppo::matmul_precision() == highest);
      seppo::set_matmul_precision(medium);  // of the program: not of this scope
      BOOST_CHECK(seppo::matmul_precision() == highest);
    }
    BOOST_CHECK(seppo::matmul_precision() == medium);
    seppo::set_matmul_precision(high);
  }
  BOOST_CHECK(seppo::matmul_precision() == high);
  seppo::set_matmul_precision(highest);
}

BOOST_AUTO_TEST_CASE(the_programs_choice_is_that_of_every_thread_and_a_scope_is_of_one) {
  seppo::set_matmul_precision(high);
  const UseMatmulPrecision mine(medium);
  MatmulPrecision theirs = highest;
  std::thread([&] { theirs = seppo::matmul_precision(); }).join();
  BOOST_CHECK(theirs == high);
  seppo::set_matmul_precision(highest);
}

BOOST_AUTO_TEST_CASE(tasks_have_the_precision_of_the_thread_that_shares_them_out) {
  seppo::set_num_threads(3);
  for (const MatmulPrecision precision : {medium, high, highest}) {
    const UseMatmulPrecision use(precision);
    std::vector<MatmulPrecision> seen(64), within(64);
    seppo::run_tasks(seen.size(), [&](std::size_t task) {
      seen[task] = seppo::matmul_precision();
      const UseMatmulPrecision own(high);
      std::this_thread::yield();
      within[task] = seppo::matmul_precision();
    });
    BOOST_CHECK(std::ranges::all_of(seen, [&](MatmulPrecision p) { return p == precision; }));
    BOOST_CHECK(std::ranges::all_of(within, [&](MatmulPrecision p) { return p == high; }));
  }
  seppo::set_num_threads(1);
}
