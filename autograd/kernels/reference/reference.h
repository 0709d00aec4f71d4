// What the reference kernels share. They are the loops of a textbook, one for each function of kernels.h, and make up a
// library built with SEPPO_FAST=OFF. Elsewhere they are what tests compare the fast kernels with. Sums are accumulated
// in double precision.
#pragma once

#include "../kernels.h"

#include <cmath>
#include <cstdint>

// Makes the function reference::name the kernel of that name. A test that wants both, the library's kernels and these,
// defines the macro as nothing.
#ifndef SEPPO_REFERENCE_KERNEL
#define SEPPO_REFERENCE_KERNEL(name) constinit decltype(name) name = reference::name
#endif

namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::reference {

// to = beta to + term, for beta 0 or 1; with 0, `to` may be uninitialised.
inline void accumulate(real& to, real beta, double term) {
  to = static_cast<real>(beta == 0 ? term : double{to} + term);
}

// What dropout multiplies element i by: 0 with probability p, else 1 / (1 - p). kernels.h has the layout of its bits.
inline double dropout_factor(const Dropping& dropping, std::size_t i) {
  const std::size_t group = i / 128, word = i % 128 / 32, half = i % 32 / 16, lane = i % 16;
  const RandomContext& key = dropping.key;
  const std::uint32_t purpose = static_cast<std::uint32_t>(Purpose::dropout) << 24 | key.site;
  const auto block = static_cast<std::uint32_t>(16 * group + lane);
  const std::uint32_t bits = philox(key.seed, {block, key.sample, key.step, purpose})[word] >> (16 * half) & 0xFFFF;
  const bool is_kept = static_cast<double>(bits) >= std::round(dropping.p * 0x1p16);
  return is_kept ? 1 / (1 - dropping.p) : 0;
}

}  // namespace kernels::reference
}  // namespace SEPPO_ABI
}  // namespace seppo
