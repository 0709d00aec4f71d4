// Split: which examples train, which validate and which test.
//
//   const Split parts = split_examples(1000, {.validation = 0.1, .test = 0.2, .seed = 1});
//   parts.train, parts.validation, parts.test  // the indices of about 700, 100 and 200 examples
//
// Each example is drawn by itself, from the seed and its number: data that grow at their end leave every example where
// it was, and another share of validation leaves the test part as it was, and the other way round. So the sizes are
// near the shares, not exact.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct SplitShares {
  double validation = 0.1, test = 0.1;  // of all examples; the rest trains
  std::uint64_t seed = 0;
};

enum class SplitPart { train, validation, test };

// The part of one example. Examples that belong together, such as those of one patient, get the same part by a number
// that they share. Throws ArgumentError for shares that are negative or above 1 together.
SplitPart part_of(std::uint64_t number, const SplitShares& shares);

struct Split {
  std::vector<int> train, validation, test;  // ascending
};

// The parts of the examples 0..examples-1. Throws ArgumentError as part_of does, if there are more than 2^31 - 1
// examples, or if a part with a share has none.
Split split_examples(std::size_t examples, const SplitShares& shares);

}  // namespace SEPPO_ABI
}  // namespace seppo
