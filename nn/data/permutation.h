// Permutation: a random order of more numbers than one wants to store, computed place by place.
//
// A Feistel network, whose rounds draw from Philox, permutes the numbers of an even number of bits (Luby and Rackoff
// 1988); a result that is not below n is permuted again until one is (cycle walking, Black and Rogaway 2002).
// random_permutation() (autograd/core/random.h) makes another order, in memory.
#pragma once

#include "../../autograd/core/random.h"

#include <cstdint>

namespace seppo {
inline namespace SEPPO_ABI {

class Permutation {
 public:
  // Of 0..n-1; n > 0. Streams, like those of RandomStream, have independent orders.
  Permutation(std::uint32_t n, std::uint64_t seed, Purpose purpose, std::uint64_t stream);

  // The number at a place, both in 0..n-1.
  std::uint32_t operator()(std::uint32_t place) const;

 private:
  std::uint64_t permuted(std::uint64_t number) const;

  std::uint64_t n_, seed_, stream_;
  Purpose purpose_;
  int half_bits_;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
