// The angles of rotary positions, and how they are scaled for long texts.
// needs: precision: double
#include <seppo/autograd/core/check.h>
#include <seppo/nn/modules/rotary_angles.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <numbers>

using namespace seppo;

namespace {

constexpr int kColumns = 16;
constexpr double kTheta = 10000;

// What the frequency of a pair is multiplied by.
double kept(int pair, const RotaryScaling& scaling) {
  const auto i = static_cast<std::size_t>(pair);
  return rotary_angles(kColumns, kTheta).wavelengths[i] / rotary_angles(kColumns, kTheta, scaling).wavelengths[i];
}

}  // namespace

BOOST_AUTO_TEST_CASE(wavelengths_rise_to_theta) {
  const RotaryAngles angles = rotary_angles(kColumns, kTheta);
  BOOST_REQUIRE_EQUAL(angles.wavelengths.size(), 8);
  BOOST_CHECK_EQUAL(angles.length, 1);
  for (int i = 0; i < 8; ++i)
    BOOST_CHECK_CLOSE(angles.wavelengths[static_cast<std::size_t>(i)], std::pow(10.0, i / 2.0), 1e-12);
}

BOOST_AUTO_TEST_CASE(linear_scaling_is_the_same_for_all_and_dynamic_is_none) {
  for (int i = 0; i < 8; ++i) {
    BOOST_CHECK_CLOSE(kept(i, {.kind = RotaryScale::linear, .factor = 4}), 0.25, 1e-12);
    BOOST_CHECK_EQUAL(kept(i, {.kind = RotaryScale::dynamic, .factor = 4}), 1);
  }
}

// Pair i turns 1000 / (2 pi 10^(i/2)) times: 159, 50, 16, 5, 1.6, 0.5, 0.16, 0.05.
BOOST_AUTO_TEST_CASE(llama3_scales_what_turns_seldom) {
  const RotaryScaling s{.kind = RotaryScale::llama3, .factor = 8, .original_length = 1000, .slow = 1, .fast = 6};
  for (const int i : {0, 1, 2}) BOOST_CHECK_CLOSE(kept(i, s), 1, 1e-12);
  for (const int i : {5, 6, 7}) BOOST_CHECK_CLOSE(kept(i, s), 0.125, 1e-12);
  for (const int i : {3, 4}) {
    const double turns = 1000 / (2 * std::numbers::pi * std::pow(10.0, i / 2.0));
    const double share = (turns - 1) / 5;
    BOOST_CHECK_CLOSE(kept(i, s), share + (1 - share) / 8, 1e-10);
  }
}

// The pair that turns r times is 16 ln(1000 / (2 pi r)) / (2 ln 10000): 3.0 for r = 5, 4.4 for r = 1.
BOOST_AUTO_TEST_CASE(yarn_scales_by_the_number_of_the_pair) {
  RotaryScaling s{.kind = RotaryScale::yarn, .factor = 4, .original_length = 1000, .slow = 1, .fast = 5, .length = 1.5};
  BOOST_CHECK_EQUAL(rotary_angles(kColumns, kTheta, s).length, 1.5);
  const double first = 8 * std::log(1000 / (2 * std::numbers::pi * 5)) / std::log(kTheta);
  const double last = 8 * std::log(1000 / (2 * std::numbers::pi)) / std::log(kTheta);
  BOOST_REQUIRE(std::floor(first) == 3 && std::ceil(last) == 5);
  for (const auto& [pair, share] : {std::pair{0, 1.0}, {3, 1.0}, {4, 0.5}, {5, 0.0}, {7, 0.0}})
    BOOST_CHECK_CLOSE(kept(pair, s), share + (1 - share) / 4, 1e-10);
  s.is_rounded = false;
  const double share = 1 - (4 - first) / (last - first);
  BOOST_CHECK_CLOSE(kept(4, s), share + (1 - share) / 4, 1e-10);
  BOOST_CHECK_CLOSE(yarn_length(4), 0.1 * std::log(4.0) + 1, 1e-12);
  BOOST_CHECK_CLOSE(yarn_length(4, 2), 0.2 * std::log(4.0) + 1, 1e-12);
  BOOST_CHECK_EQUAL(yarn_length(0.5), 1);
}

// Its definition, as its authors' code has it, where the ends of the ramp are pairs, beyond the pairs, beyond all
// columns, or one and the same.
BOOST_AUTO_TEST_CASE(yarn_of_any_numbers) {
  for (const double length : {5.0, 20.0, 400.0, 1000.0, 40'000.0, 1e7, 3e8})
    for (const auto& [slow, fast] : {std::pair{0.5, 1.0}, {1.0, 5.0}, {1.0, 32.0}, {2.0, 300.0}})
      for (const bool is_rounded : {true, false}) {
        const RotaryScaling s{.kind = RotaryScale::yarn,
                              .factor = 3,
                              .original_length = length,
                              .slow = slow,
                              .fast = fast,
                              .is_rounded = is_rounded};
        const auto pair_of = [&](double turns) {
          return kColumns * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(double{kTheta}));
        };
        double first = pair_of(fast), last = pair_of(slow);
        if (is_rounded) first = std::floor(first), last = std::ceil(last);
        first = std::max(first, 0.0);
        last = std::min(last, kColumns - 1.0);
        if (first == last) last += 0.001;
        for (int pair = 0; pair < kColumns / 2; ++pair) {
          const double share = 1 - std::clamp((pair - first) / (last - first), 0.0, 1.0);
          BOOST_CHECK_CLOSE(kept(pair, s), share + (1 - share) / 3, 1e-9);
        }
      }
}

BOOST_AUTO_TEST_CASE(bad_arguments_are_refused) {
  for (const int columns : {0, -2, 3}) BOOST_CHECK_THROW(rotary_angles(columns, kTheta), ArgumentError);
  BOOST_CHECK_THROW(rotary_angles(kColumns, 0), ArgumentError);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double factor : {0.0, -1.0, kInfinity})
    BOOST_CHECK_THROW(rotary_angles(kColumns, kTheta, {.kind = RotaryScale::linear, .factor = factor}), ArgumentError);
  for (const RotaryScale kind : {RotaryScale::llama3, RotaryScale::yarn}) {
    const RotaryScaling good{.kind = kind, .factor = 2, .original_length = 100};
    BOOST_CHECK_NO_THROW(rotary_angles(kColumns, kTheta, good));
    RotaryScaling bad = good;
    bad.original_length = 0;
    BOOST_CHECK_THROW(rotary_angles(kColumns, kTheta, bad), ArgumentError);
    bad = good;
    bad.fast = bad.slow;
    BOOST_CHECK_THROW(rotary_angles(kColumns, kTheta, bad), ArgumentError);
    bad = good;
    bad.length = 0;
    BOOST_CHECK_THROW(rotary_angles(kColumns, kTheta, bad), ArgumentError);
  }
}
