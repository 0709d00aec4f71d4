// Compact matrices against the definition of their formats, and products with them against plain loops.
// needs: precision: single double; simd: avx512 avx2 plain
#include "support/errors.h"
#include "support/threads.h"

#include <seppo/autograd/blas/compact_product.h>
#include <seppo/autograd/blas/multiply.h>
#include <seppo/autograd/core/compact_matrix.h>
#include <seppo/autograd/core/matmul_precision.h>
#include <seppo/autograd/core/random.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

using namespace seppo;

namespace {

constexpr auto bf16 = WeightFormat::bf16, q8 = WeightFormat::q8;
constexpr WeightFormat kFormats[] = {bf16, q8};
constexpr std::size_t kBlock = CompactMatrix::kBlock;

// Rows of very different magnitudes, as activations and weights have them.
std::vector<real> draw(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  RandomStream random(seed, Purpose::test);
  std::vector<real> values(rows * cols);
  for (real& v : values) v = static_cast<real>(static_cast<float>(random.normal() * std::exp(2 * random.normal())));
  return values;
}

std::vector<real> expanded(const CompactMatrix& matrix, std::size_t row) {
  std::vector<real> values(matrix.cols());
  matrix.expand(row, values.data());
  return values;
}

// |x| of the largest in the block of element t.
double largest_beside(std::span<const real> row, std::size_t t) {
  double largest = 0;
  for (std::size_t i = t / kBlock * kBlock; i < std::min(row.size(), (t / kBlock + 1) * kBlock); ++i)
    largest = std::max(largest, std::abs(double{row[i]}));
  return largest;
}

// Each row in steps of 1/127 of the largest of 32, as floats compute them.
std::vector<real> in_steps(const std::vector<real>& a, std::size_t cols) {
  std::vector<real> rounded(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::span<const real> row = std::span(a).subspan(i / cols * cols, cols);
    const float step = static_cast<float>(largest_beside(row, i % cols)) / 127;
    rounded[i] = step == 0 ? 0 : step * std::nearbyint(static_cast<float>(a[i]) * (1 / step));
  }
  return rounded;
}

// Each rounded to the nearest bfloat16 number.
std::vector<real> in_bfloat16(const std::vector<real>& a, std::size_t cols) {
  const CompactMatrix matrix(bf16, a, cols);
  std::vector<real> rounded;
  for (std::size_t i = 0; i < matrix.rows(); ++i) {
    const std::vector<real> row = expanded(matrix, i);
    rounded.insert(rounded.end(), row.begin(), row.end());
  }
  return rounded;
}

// The largest error of C, whose rows are kGap longer than n, as a share of what sums of floats may be off by.
constexpr std::size_t kGap = 3;
double error_of(const std::vector<real>& c, const std::vector<real>& a, const CompactRows& weight, const real* plus) {
  const std::size_t n = weight.count, k = weight.matrix->cols();
  double worst = 0;
  for (std::size_t j = 0; j < n; ++j) {
    const std::vector<real> w = expanded(*weight.matrix, weight.first + j);
    for (std::size_t i = 0; i < a.size() / k; ++i) {
      double expected = plus ? double{plus[j]} : 0;
      double allowed = 1e-6 * std::abs(expected);
      for (std::size_t t = 0; t < k; ++t) {
        const double term = double{a[i * k + t]} * double{w[t]};
        expected += term;
        allowed += 4e-6 * std::abs(term);
      }
      worst = std::max(worst, std::abs(double{c[i * (n + kGap) + j]} - expected) / allowed);
    }
  }
  return worst;
}

// Whether W multiplies numbers that are rounded to its format: few rows in q8, and in bf16 some more in medium
// precision on AMX. With other instructions, more rows in q8 may be.
bool must_round(WeightFormat format, std::size_t m, std::size_t n, std::size_t k) {
  constexpr std::size_t kFew = 4, kLeast = std::size_t{1} << 18;
  const bool is_amx = std::is_same_v<real, float> && blas_description().starts_with("AMX");
  if (format == q8) return m <= kFew;
  return is_amx && matmul_precision() == MatmulPrecision::medium && m > kFew && m <= 64 && m * n * k >= kLeast;
}

// The rows first .. first + n - 1 of a weight multiply m rows. The gaps between C's rows must not change.
void check_product(WeightFormat format, std::size_t m, std::size_t n, std::size_t k) {
  constexpr std::size_t kFirst = 2;
  const std::vector<real> a = draw(m, k, m + 10 * n + 1000 * k), plus = draw(1, n, 5);
  const real* const row = n % 2 ? plus.data() : nullptr;
  const CompactMatrix matrix(format, draw(kFirst + n + 1, k, n + k), k);
  const CompactRows weight{&matrix, kFirst, n};
  std::vector<real> c(m * (n + kGap), -7);
  multiply_compact({c.data(), m, n, n + kGap}, {a.data(), m, k}, weight, row);
  const std::vector<real> rounded = format == q8 ? in_steps(a, k) : in_bfloat16(a, k);
  const double of_rounded = error_of(c, rounded, weight, row), of_given = error_of(c, a, weight, row);
  const bool is_exact = format == bf16 && matmul_precision() == MatmulPrecision::highest;
  const bool is_rounded = must_round(format, m, n, k);
  const double worst = is_exact ? of_given : is_rounded ? of_rounded : std::min(of_given, of_rounded);
  BOOST_CHECK_MESSAGE(worst <= 1, enum_names(format)[static_cast<std::size_t>(format)]
                                      << " " << m << "x" << n << "x" << k << ": " << worst << " of what is allowed");
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = n; j < n + kGap; ++j) BOOST_REQUIRE_EQUAL(c[i * (n + kGap) + j], -7);
}

// The product of m rows with the whole weight has the same bytes for any number of threads.
void check_threads(const CompactMatrix& weight, std::size_t m) {
  const std::size_t n = weight.rows(), k = weight.cols();
  const std::vector<real> a = draw(m, k, 2);
  test::check_threads("compact product", [&] {
    std::vector<real> c(m * n);
    multiply_compact({c.data(), m, n}, {a.data(), m, k}, {&weight, 0, n}, nullptr);
    test::Bytes bytes;
    test::add(bytes, std::span<const real>(c));
    return bytes;
  });
}

// An infinite number or NaN in the first of m rows spoils that row of C, and no other.
void check_not_finite(const CompactMatrix& weight, std::size_t m) {
  const std::size_t n = weight.rows(), k = weight.cols();
  for (const real bad : {std::numeric_limits<real>::infinity(), -std::numeric_limits<real>::infinity(),
                         std::numeric_limits<real>::quiet_NaN()})
    for (const std::size_t place : {0u, 17u, 31u, 32u, 39u}) {
      std::vector<real> a = draw(m, k, 2), c(m * n);
      a[place] = bad;
      multiply_compact({c.data(), m, n}, {a.data(), m, k}, {&weight, 0, n}, nullptr);
      for (std::size_t i = 0; i < c.size(); ++i) BOOST_REQUIRE_EQUAL(std::isfinite(c[i]), i >= n);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(bf16_is_the_nearest_bfloat16_number) {
  std::vector<real> values = draw(5, 37, 1);
  for (int i = 0; i < 74; ++i)  // halfway between two numbers, of which the even one is taken
    values[static_cast<std::size_t>(i)] = static_cast<real>((i % 4 < 2 ? 1 : -1) * (128.5 + i) / 128);
  const CompactMatrix matrix(bf16, values, 37);
  BOOST_CHECK_EQUAL(matrix.bytes(), 32 * 64 * 2);  // padded with rows of zeros
  std::vector<real> again;
  for (std::size_t i = 0; i < 5; ++i)
    for (const real x : expanded(matrix, i)) {
      const real from = values[again.size()];
      const double step = std::ldexp(1.0, std::ilogb(from) - 7);  // between numbers of eight significant bits
      BOOST_CHECK_EQUAL(double{x}, step * std::nearbyint(double{from} / step));
      again.push_back(x);
    }
  const CompactMatrix exact(bf16, again, 37);
  for (std::size_t i = 0; i < 5; ++i) BOOST_CHECK(expanded(exact, i) == expanded(matrix, i));
}

// Half a step off at most, where 127 steps reach the block's largest number, which is kept; the steps of a matrix that
// was made of q8 numbers are the same again.
BOOST_AUTO_TEST_CASE(q8_rounds_to_steps_of_each_block) {
  const std::vector<real> values = draw(4, 70, 2);
  const CompactMatrix matrix(q8, values, 70);
  BOOST_CHECK_EQUAL(matrix.bytes(), 16 * 3 * 36);  // in panels of 16 rows
  std::vector<real> again;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::span<const real> row = std::span(values).subspan(i * 70, 70);
    const std::vector<real> got = expanded(matrix, i);
    for (std::size_t t = 0; t < 70; ++t) {
      const double step = largest_beside(row, t) / 127;
      const double error = std::abs(double{got[t]} - double{row[t]});
      BOOST_CHECK_LE(error, step * (std::abs(double{row[t]}) == 127 * step ? 1e-4 : 0.50001));
    }
    again.insert(again.end(), got.begin(), got.end());
  }
  const CompactMatrix same(q8, again, 70);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t t = 0; t < 70; ++t)
      BOOST_CHECK_CLOSE(double{expanded(same, i)[t]} + 1e3, double{again[i * 70 + t]} + 1e3, 1e-6);
}

BOOST_AUTO_TEST_CASE(q8_of_zeros_and_of_the_smallest_numbers) {
  std::vector<real> values(64, real{0});
  values[40] = static_cast<real>(190 * double{std::numeric_limits<float>::denorm_min()});
  const std::vector<real> got = expanded(CompactMatrix(q8, values, 64), 0);
  for (std::size_t t = 0; t < 64; ++t) BOOST_CHECK_SMALL(double{got[t]}, t == 40 ? 3e-43 : 1e-50);
}

// On both sides of what the kernels take: up to four rows, or tiles of eight; panels of 16 columns, of which the first
// two are not asked for; blocks of 32 terms, 256 rows expanded at a time.
// one_build: autograd/blas/compact_dot.cpp add_block
// one_build: autograd/blas/compact_vnni.h compact_vnni
BOOST_AUTO_TEST_CASE(products_with_compact_weights) {
  for (const WeightFormat format : kFormats) {
    for (const std::size_t m : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 17u})
      for (const std::size_t n : {1u, 2u, 7u, 13u, 14u, 15u, 31u})
        for (const std::size_t k : {1u, 31u, 32u, 33u, 64u, 200u}) check_product(format, m, n, k);
    check_product(format, 1, 600, 576);
    for (const std::size_t n : {255u, 256u, 257u}) check_product(format, n % 2 == 0 ? 3 : 5, n, 100);
    check_product(format, 5, 256, 33);
    check_product(format, 70, 600, 100);
  }
}

// Few rows have tiles of 16, two at a time, and so have the weight's; the smallest of these products are the least that
// tiles multiply.
// one_build: autograd/blas/amx_compact.cpp amx_compact
BOOST_AUTO_TEST_CASE(products_with_compact_weights_in_medium_precision) {
  const UseMatmulPrecision medium(MatmulPrecision::medium);
  for (const WeightFormat format : kFormats)
    for (const std::size_t m : {5u, 15u, 16u, 17u, 31u, 32u, 33u, 48u, 49u, 63u, 64u, 65u})
      for (const std::size_t k : {33u, 64u, 95u, 240u}) {
        const std::size_t least = (std::size_t{1} << 18) / (m * k);
        for (const std::size_t n : {least, least + 1, least + 31}) check_product(format, m, n, k);
      }
}

BOOST_AUTO_TEST_CASE(products_in_medium_precision_do_not_depend_on_threads) {
  const UseMatmulPrecision medium(MatmulPrecision::medium);
  const CompactMatrix weight(bf16, draw(900, 700, 1), 700);
  for (const std::size_t m : {9u, 40u}) check_threads(weight, m);
}

BOOST_AUTO_TEST_CASE(products_do_not_depend_on_threads) {
  for (const WeightFormat format : kFormats) {
    const CompactMatrix weight(format, draw(900, 700, 1), 700);
    for (const std::size_t m : {1u, 4u, 9u, 40u}) check_threads(weight, m);
  }
}

BOOST_AUTO_TEST_CASE(products_of_what_is_not_finite) {
  for (const WeightFormat format : kFormats) {
    const CompactMatrix weight(format, draw(20, 40, 1), 40);
    for (const std::size_t m : {1u, 3u, 11u}) check_not_finite(weight, m);
  }
  const UseMatmulPrecision medium(MatmulPrecision::medium);
  check_not_finite(CompactMatrix(bf16, draw(600, 40, 1), 40), 11);
}

// Rows of zeros, and of numbers so small that the reciprocal of their step is infinite.
BOOST_AUTO_TEST_CASE(products_of_the_smallest_numbers) {
  const CompactMatrix weight(q8, std::vector<real>(3 * 32, real{2}), 32);
  for (const std::size_t m : {2u, 12u}) {
    std::vector<real> a(m * 32), c(m * 3, -7);
    a[32 + 5] = static_cast<real>(1000 * double{std::numeric_limits<float>::denorm_min()});
    multiply_compact({c.data(), m, 3}, {a.data(), m, 32}, {&weight, 0, 3}, nullptr);
    for (std::size_t i = 0; i < c.size(); ++i) BOOST_CHECK_SMALL(double{c[i]}, i / 3 == 1 ? 1e-36 : 1e-50);
  }
}

// Each as in memory of its own, also when the block that they came from is gone.
BOOST_AUTO_TEST_CASE(matrices_share_a_block_of_memory) {
  for (const WeightFormat format : kFormats) {
    const std::vector<real> first = draw(7, 70, 1), second = draw(5, 33, 2);
    const std::size_t of_first = CompactMatrix::bytes_of(format, 7, 70),
                      of_second = CompactMatrix::bytes_of(format, 5, 33);
    auto memory = std::make_unique<CompactMemory>(of_first + of_second);
    const CompactMatrix a(format, first, 70, memory->take(of_first)), b(format, second, 33, memory->take(of_second));
    test::check_error<ArgumentError>([&] { memory->take(1); }, {"1 bytes are more than are left"});
    memory.reset();
    for (std::size_t row = 0; row < 7; ++row)
      BOOST_CHECK(expanded(a, row) == expanded(CompactMatrix(format, first, 70), row));
    for (std::size_t row = 0; row < 5; ++row)
      BOOST_CHECK(expanded(b, row) == expanded(CompactMatrix(format, second, 33), row));
  }
}

BOOST_AUTO_TEST_CASE(errors) {
  std::vector<real> values(12, real{1});
  test::check_error<ArgumentError>([&] { CompactMatrix(WeightFormat::full, values, 4); },
                                   {"full is the format of reals"});
  for (const real bad : {std::numeric_limits<real>::infinity(), std::numeric_limits<real>::quiet_NaN()})
    for (const WeightFormat format : kFormats) {
      values[9] = bad;
      test::check_error<NumericError>([&] { CompactMatrix(format, values, 4); }, {"row 2", "not finite"});
    }
  values[9] = 1;
  const CompactMatrix weight(bf16, values, 4);
  std::vector<real> c(3);
  test::check_error<ShapeError>(
      [&] {
        multiply_compact({c.data(), 1, 3}, {values.data(), 1, 5}, {&weight, 0, 3}, nullptr);
      },
      {"C [1,3]", "A [1,5]", "weight [3,4]"});
}

// What bfloat16 would round to infinity is refused; steps of 8 bits have a scale of their own.
BOOST_AUTO_TEST_CASE(numbers_that_are_too_large) {
  const float most = std::bit_cast<float>(0x7f7f0000);  // of bfloat16
  const float more = std::bit_cast<float>(0x7f7f8000);  // half a step above
  for (const float sign : {1.0F, -1.0F}) {
    const std::vector<real> fine(4, real{sign * most}), large(4, real{sign * more});
    BOOST_CHECK_NO_THROW(CompactMatrix(WeightFormat::bf16, fine, 4));
    BOOST_CHECK_NO_THROW(CompactMatrix(WeightFormat::q8, large, 4));
    test::check_error<NumericError>([&] { CompactMatrix(WeightFormat::bf16, large, 4); }, {"row 0", "too large"});
  }
}
