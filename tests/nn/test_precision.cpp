// Code that is compiled differently for single and double precision, or without vectors, against the accuracy possible
// in each: functions to units in the last place, sums in double precision, files of the library's own type.
// needs: precision: double single; simd: avx2 plain; not_in_valgrind: double
#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/gradient_check.h>
#include <seppo/nn/io/checkpoint.h>

#include "support/errors.h"

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

using namespace seppo;

namespace {

using Limits = std::numeric_limits<real>;
constexpr bool kIsDouble = sizeof(real) == 8;
using Exact = long double;
using Function = std::function<Exact(Exact)>;

// Numbers of both signs from `low` to `high`, denser towards zero; an odd number, so every vector width has a tail.
std::vector<real> grid(double low, double high) {
  std::vector<real> x{0};
  for (int i = 0; i <= 4003; ++i) x.push_back(static_cast<real>(low + (high - low) * i / 4003));
  for (double small = 1; small > 1e-6; small /= 1.7)
    for (const double v : {small * low, small * high}) x.push_back(static_cast<real>(v));
  return x;
}

// Checks values and slopes to some units in their last place or, where larger, in that of `floor`.
void check_function(const std::string& name, const std::vector<real>& x, const std::function<Tensor(const Tensor&)>& op,
                    const Function& f, double units, const Function& slope, double slope_units, double floor) {
  tape().clear();
  const Tensor input = variable({static_cast<int>(x.size())}, x), y = op(input);
  tape().backward(y, std::vector<real>(x.size(), 1));
  const auto check = [&](real found, Exact expected, double allowed, std::size_t i, const char* what) {
    const Exact unit = Exact{Limits::epsilon()} * std::max(std::abs(expected), Exact{floor});
    const Exact off = (Exact{found} - expected) / unit;
    BOOST_CHECK_MESSAGE(std::abs(off) <= Exact{allowed}, name << what << " at " << x[i] << ": " << found
                                                              << ", expected " << expected << ", off by " << off
                                                              << " units");
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    check(y.values()[i], f(Exact{x[i]}), units, i, "");
    check(input.grad()[i], slope(Exact{x[i]}), slope_units, i, "'s slope");
  }
}

constexpr Exact kPi = std::numbers::pi_v<Exact>;

}  // namespace

// one_build: autograd/kernels/elementwise.cpp Erf
BOOST_AUTO_TEST_CASE(erf_everywhere) {
  check_function(
      "erf", grid(-6, 6), [](const Tensor& x) { return erf(x); }, [](Exact x) { return std::erf(x); }, 4,
      [](Exact x) { return 2 / std::sqrt(kPi) * std::exp(-x * x); }, 80, 1e-6);
}

// In single precision, the error of Phi is at most 1.5e-7 (Abramowitz and Stegun).
// one_build: autograd/kernels/elementwise.cpp normal
BOOST_AUTO_TEST_CASE(gelu_everywhere) {
  const auto phi = [](Exact x) { return std::erfc(-x / std::sqrt(Exact{2})) / 2; };
  check_function(
      "gelu", grid(-8, 8), [](const Tensor& x) { return gelu(x); }, [=](Exact x) { return x * phi(x); },
      kIsDouble ? 8 : 4, [=](Exact x) { return phi(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * kPi); }, 8,
      kIsDouble ? 0.1 : 1);
}

// Down to where e^x is lost beside 1: the slope is e^x itself.
BOOST_AUTO_TEST_CASE(slopes_of_expm1_and_elu) {
  const double low = std::log(double{Limits::min()}) + 1;
  const auto slope = [](Exact x) { return std::exp(x); };
  check_function(
      "expm1", grid(low, 1), [](const Tensor& x) { return expm1(x); }, [](Exact x) { return std::expm1(x); }, 4, slope,
      4, double{Limits::min()});
  check_function(
      "elu", grid(low, 0), [](const Tensor& x) { return elu(x); }, [](Exact x) { return std::expm1(x); }, 4, slope, 4,
      double{Limits::min()});
}

// Up to the largest number with a finite exponential, and beyond.
// one_build: autograd/core/simd-inl.h exp
BOOST_AUTO_TEST_CASE(exp_up_to_its_limits) {
  const double low = std::log(double{Limits::min()}), high = std::log(double{Limits::max()});
  const auto exact = [](Exact x) { return std::exp(x); };
  check_function(
      "exp", grid(low + 1, high * (1 - 4 * double{Limits::epsilon()})), [](const Tensor& x) { return exp(x); }, exact,
      3, exact, 3, double{Limits::min()});
  tape().clear();
  real last = static_cast<real>(high);
  while (std::exp(Exact{last}) >= Exact{Limits::max()}) last = std::nextafter(last, real{0});
  const real beyond = std::nextafter(last, Limits::infinity());
  const Tensor y = exp(tensor({5}, {last, std::nextafter(beyond, Limits::infinity()), Limits::infinity(),
                                    -Limits::infinity(), Limits::quiet_NaN()}));
  BOOST_CHECK(std::isfinite(y.values()[0]) && y.values()[0] > Limits::max() / 2);
  BOOST_CHECK(std::isinf(y.values()[1]) && std::isinf(y.values()[2]) && y.values()[3] == 0 &&
              std::isnan(y.values()[4]));
}

// softmax(0, x) = (1, e^x) / (1 + e^x), for x <= 0.
// one_build: autograd/core/simd-inl.h exp_nonpositive
BOOST_AUTO_TEST_CASE(exp_of_softmax) {
  const double low = std::log(double{Limits::min()}) + 1;
  const std::vector<real> x = grid(low, 0);
  std::vector<real> rows;
  for (const real v : x) rows.insert(rows.end(), {0, v});
  tape().clear();
  const Tensor y = softmax(tensor({static_cast<int>(x.size()), 2}, rows));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Exact e = std::exp(Exact{x[i]}), expected = e / (1 + e);
    BOOST_CHECK_MESSAGE(std::abs(Exact{y.values()[2 * i + 1]} / expected - 1) <= 4 * Exact{Limits::epsilon()},
                        "at " << x[i] << ": " << y.values()[2 * i + 1] << ", expected " << expected);
  }
}

// Halves beside large numbers of both signs: no digit is lost, whatever the length.
// one_build: autograd/core/simd-inl.h update
BOOST_AUTO_TEST_CASE(sums_are_in_double_precision) {
  for (const std::size_t n : {1u, 2u, 3u, 5u, 8u, 15u, 16u, 17u, 31u, 33u, 64u, 100'003u}) {
    std::vector<real> x;
    double total = 0, squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double v = (i % 3 == 1 ? -8192 : 8192) * (i % 2 == 0 ? 1 : -1) + 0.5;
      x.push_back(static_cast<real>(v));
      total += v, squares += v * v;  // exact
    }
    BOOST_CHECK_EQUAL(kernels::squared_norm(x.data(), n), squares);
    tape().clear();
    BOOST_CHECK_EQUAL(sum(tensor({static_cast<int>(n)}, x)).item(), static_cast<real>(total));
    // So are the moments of layer norm: rows whose mean is much larger than their spread.
    if (n > 1000 || n < 3) continue;
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<real>(4096 + 0.25 * static_cast<double>(i * 7 % n));
    Exact mean = 0, variance = 0;
    for (const real v : x) mean += Exact{v} / static_cast<Exact>(n);
    for (const real v : x) variance += (Exact{v} - mean) * (Exact{v} - mean) / static_cast<Exact>(n);
    const int cols = static_cast<int>(n);
    const Tensor y = layer_norm(tensor({1, cols}, x), ones({cols}), zeros({cols}), 0);
    for (std::size_t i = 0; i < n; ++i)
      BOOST_CHECK_SMALL(Exact{y.values()[i]} - (Exact{x[i]} - mean) / std::sqrt(variance),
                        32 * Exact{Limits::epsilon()});
  }
}

// one_build: nn/io/weight_type.cpp kIsSingle
BOOST_AUTO_TEST_CASE(checkpoints_hold_the_librarys_numbers) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("seppo-precision-" + std::to_string(::getpid()));
  const auto thirds = [](std::span<real> values, const Shape&, RandomStream&) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = real{1} / static_cast<real>(3 + i);
  };
  Parameters saved(1), loaded(2);
  const Tensor a = saved.root().parameter("w", {5, 3}, thirds), b = loaded.root().parameter("w", {5, 3}, init_zeros());
  save_checkpoint(file, saved, {});
  load_checkpoint(SafeTensorsFile(file), loaded);
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  std::filesystem::remove(file);
  BOOST_CHECK(std::ranges::equal(a.values(), b.values()));
  const std::string type = kIsDouble ? "F64" : "F32", other = kIsDouble ? "F32" : "F64";
  BOOST_CHECK(bytes.find("\"" + type + "\"") != std::string::npos && bytes.find(other) == std::string::npos);
}

// one_build: nn/gradient_check.cpp gradient_check
BOOST_AUTO_TEST_CASE(gradients_are_checked_in_double_precision_only) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {3}, init_ones());
  const auto check = [&] { return gradient_check(parameters, [&] { return sum(exp(w)); }).passed; };
#ifdef SEPPO_FLOAT64
  BOOST_CHECK(check());
#else
  BOOST_CHECK_EXCEPTION(check(), StateError, [](const StateError& e) {
    return std::string(e.what()).find("needs double precision; link seppo::f64") != std::string::npos;
  });
#endif
}
