// Half and BFloat: to floats, exactly, and from floats, rounded.
#include "safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace seppo {
inline namespace SEPPO_ABI {

Half::operator float() const {
  // Exponent and fraction moved to a float's places; a float's exponents begin 112 earlier.
  float size = std::bit_cast<float>((bits & 0x7fffu) << 13) * 0x1p112f;
  if (size > 65536) size = NAN;  // the largest exponent has infinity and NaNs
  if (size == 65536) size = HUGE_VALF;
  const bool is_negative = bits >> 15;
  return std::copysign(size, is_negative ? -1.0F : 1.0F);
}

namespace {

// `bits` without its lowest n bits, rounded to the nearest, of two to the even one.
std::uint32_t rounded_off(std::uint32_t bits, int n) {
  const std::uint32_t below_half = (1u << (n - 1)) - 1;
  const std::uint32_t is_odd = (bits >> n) & 1;
  return (bits + below_half + is_odd) >> n;
}

}  // namespace

Half Half::nearest(float x) {
  constexpr std::uint32_t kInfinity = 0x7c00;
  const auto sign = std::bit_cast<std::uint32_t>(x) >> 16 & 0x8000;
  const float size = std::fabs(x);
  if (std::isnan(x)) return {static_cast<std::uint16_t>(sign | 0x7e00)};
  std::uint32_t bits;
  if (size < 0x1p-14f) {
    bits = static_cast<std::uint32_t>(std::nearbyint(size * 0x1p24f));  // a multiple of 2^-24
  } else {
    bits = rounded_off(std::bit_cast<std::uint32_t>(size), 13) - (112u << 10);  // exponents begin 112 later
  }
  return {static_cast<std::uint16_t>(sign | std::min(bits, kInfinity))};
}

BFloat BFloat::nearest(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if (std::isnan(x)) return {static_cast<std::uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<std::uint16_t>(rounded_off(bits, 16))};
}

}  // namespace SEPPO_ABI
}  // namespace seppo
