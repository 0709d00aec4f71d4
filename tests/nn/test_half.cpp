// Floats of 16 bits: all of them, and the nearest of wider ones.
#include <seppo/nn/io/safetensors.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

using namespace seppo;

namespace {

// The naive value of a 16-bit float: a sum of powers of two.
double half_of(unsigned bits) {
  const unsigned exponent = bits >> 10 & 31;
  double value = exponent == 0 ? 0 : std::pow(2.0, static_cast<double>(exponent) - 15);
  for (unsigned bit = 0; bit < 10; ++bit)
    if (bits >> bit & 1) value += std::pow(2.0, std::max(exponent, 1u) - 25.0 + bit);
  return bits >> 15 ? -value : value;
}

// Of a float, the nearest number with 16 bits: found among all of them, of two the even one.
template <class T>
void check_nearest(float x) {
  const auto distance = [x](unsigned bits) {
    const float value = T{static_cast<std::uint16_t>(bits)};
    return std::isfinite(value) ? std::abs(double{value} - double{x}) : std::numeric_limits<double>::infinity();
  };
  const unsigned found = T::nearest(x).bits;
  BOOST_REQUIRE_EQUAL(std::signbit(static_cast<float>(T{static_cast<std::uint16_t>(found)})), std::signbit(x));
  for (const unsigned other : {found - 1, found + 1}) {
    if ((other & 0x7fff) == 0x7fff || other > 0xffff) continue;  // next to zero, or beyond the other zero
    BOOST_REQUIRE_LE(distance(found), distance(other));
    if (distance(found) == distance(other)) BOOST_REQUIRE_EQUAL(found % 2, 0);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_half_and_bfloat_numbers) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float half = Half{static_cast<std::uint16_t>(bits)};
    if ((bits >> 10 & 31) < 31)
      BOOST_REQUIRE_EQUAL(double{half}, half_of(bits));
    else
      BOOST_REQUIRE((bits & 1023) == 0 ? std::isinf(half) && (half < 0) == (bits >> 15 == 1) : std::isnan(half));
    std::uint32_t wide;
    const float brain = BFloat{static_cast<std::uint16_t>(bits)};
    std::memcpy(&wide, &brain, 4);
    BOOST_REQUIRE(wide == bits << 16 || std::isnan(brain));
  }
  BOOST_CHECK(std::signbit(static_cast<float>(Half{0x8000})));
}

BOOST_AUTO_TEST_CASE(narrow_numbers_are_the_nearest) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    if (!std::isnan(static_cast<float>(Half{narrow}))) BOOST_REQUIRE_EQUAL(Half::nearest(Half{narrow}).bits, bits);
    if (!std::isnan(static_cast<float>(BFloat{narrow})))
      BOOST_REQUIRE_EQUAL(BFloat::nearest(BFloat{narrow}).bits, bits);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const float any = std::bit_cast<float>(bits);
    if (std::abs(any) < 0x1.fep127F) check_nearest<BFloat>(any);
    const float half =
        std::ldexp(1 + static_cast<float>(bits & 0xffff) / 65536, static_cast<int>(bits >> 16) % 40 - 25);
    check_nearest<Half>(bits >> 31 ? -half : half);
    check_nearest<Half>(std::ldexp(static_cast<float>(bits % 8192) + 0.5F, -24));  // halfway between two
  }
  BOOST_CHECK(std::isnan(static_cast<float>(Half::nearest(NAN))) &&
              std::isnan(static_cast<float>(BFloat::nearest(NAN))));
  BOOST_CHECK(std::isinf(static_cast<float>(Half::nearest(65520))) && Half::nearest(65519).bits == 0x7bff);
}
