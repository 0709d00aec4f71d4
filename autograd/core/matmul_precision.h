// How precisely large matrix products are computed, where a processor multiplies bfloat16 numbers faster than floats.
//
//   set_matmul_precision(MatmulPrecision::medium);                 // of the whole program
//   const UseMatmulPrecision exactly(MatmulPrecision::highest);    // of this thread, in this scope
//
// Only products change, those of backward as those of forward, and only those large enough to be multiplied so: sums,
// parameters, gradients, moments, softmax and norms are floats always. Double precision has no such choice.
#pragma once

#include "real.h"
#include "scoped_value.h"

#include <cstdint>
#include <optional>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

// A float becomes a sum of bfloat16 numbers, of 8 significant bits each, and the products of these are added as floats.
// An error is given in relation to the sum of the magnitudes of the terms.
enum class MatmulPrecision : std::uint8_t {
  highest,  // of three numbers, whose six largest products are added: as exact as floats
  high,     // of two, whose three largest products are added: errors of up to 2^-16
  medium    // one, rounded: errors of up to 2^-8, but mostly far less, as those of many terms cancel out
};
inline std::span<const char* const> enum_names(MatmulPrecision) {
  static constexpr const char* kNames[] = {"highest", "high", "medium"};
  return kNames;
}

// For every thread, except within a UseMatmulPrecision. `highest` until set.
void set_matmul_precision(MatmulPrecision precision);
// That of the products which the calling thread computes now.
MatmulPrecision matmul_precision();

// The precision of this thread's products, and of the tasks that it shares out (parallel.h), for a scope. Backward has
// the precision of the scope in which it runs.
class UseMatmulPrecision {
 public:
  explicit UseMatmulPrecision(MatmulPrecision precision) : chosen_(chosen(), precision) {}

 private:
  friend MatmulPrecision matmul_precision();
  static std::optional<MatmulPrecision>& chosen();
  ScopedValue<std::optional<MatmulPrecision>> chosen_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
