// Random numbers without state: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", 2011), a function of a key and a counter.
//
// The key is the seed; the counter says what the number is for: for dropout (purpose, step, sample, site,
// element), in a stream (purpose, index, position). So a dropout mask does not depend on threads, processes,
// or where training was resumed, and nothing needs saving beyond the seed and the step.
#pragma once

#include "real.h"

#include <array>
#include <concepts>
#include <cstdint>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

enum class Purpose : std::uint32_t { init = 1, shuffle = 2, dropout = 3, data = 4, test = 5, sampling = 6, split = 7 };

// A purpose of your own, for n in 0..127, whose streams share no number with those of the library's purposes. Throws
// ArgumentError out of range.
Purpose own_purpose(int n);

// Identifies the random numbers of one dropout, up to the element.
struct RandomContext {
  static constexpr std::uint32_t kSites = 1u << 24;  // of one step: the site shares a counter word with the purpose

  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t sample = 0;  // the first sample of the shard within the global batch
  std::uint32_t site = 0;    // counts the dropouts of a step in the order they run
};

// Philox4x32-10: 128 random bits for a 64-bit key and a 128-bit counter.
std::array<std::uint32_t, 4> philox(std::uint64_t key, const std::array<std::uint32_t, 4>& counter);

// A sequence of random numbers: stream `index` of a purpose. Equal arguments give equal sequences on every
// platform, of normal() as far as std::sin, cos and log1p agree: no std::distribution is used.
class RandomStream {
 public:
  // Seed and index are integers of any type, such as an example's number, taken modulo 2^64.
  template <std::integral Seed, std::integral Index = int>
  RandomStream(Seed seed, Purpose purpose, Index index = 0)
      : seed_(static_cast<std::uint64_t>(seed)), purpose_(purpose), index_(static_cast<std::uint64_t>(index)) {}

  std::uint32_t next();                  // uniform over all 32-bit numbers
  double uniform();                      // in [0, 1), 53 bits
  double normal();                       // N(0, 1), Box and Muller 1958
  std::uint32_t below(std::uint32_t n);  // uniform over 0..n-1, unbiased; n > 0
  int index(int n);                      // the same number as an int; throws ArgumentError unless n > 0

  // Goes on as if `numbers` more had been drawn by next(): uniform() draws two, normal() four for two of its numbers,
  // of which one that is left is forgotten.
  void skip(std::uint64_t numbers);

 private:
  std::uint64_t seed_;
  Purpose purpose_;
  std::uint64_t index_;
  std::uint32_t block_ = 0;
  int used_ = 4;
  std::array<std::uint32_t, 4> buffer_{};
  double spare_ = 0;
  bool has_spare_ = false;
};

// A random permutation of 0..n-1 (Fisher and Yates).
std::vector<int> random_permutation(int n, RandomStream random);

}  // namespace SEPPO_ABI
}  // namespace seppo
