// Permutation: a Feistel network with cycle walking.
#include "permutation.h"

#include <algorithm>
#include <bit>

namespace seppo {
inline namespace SEPPO_ABI {

Permutation::Permutation(std::uint32_t n, std::uint64_t seed, Purpose purpose, std::uint64_t stream)
    : n_(n),
      seed_(seed),
      stream_(stream),
      purpose_(purpose),
      half_bits_(std::max(1, (static_cast<int>(std::bit_width(n - 1)) + 1) / 2)) {}

std::uint32_t Permutation::operator()(std::uint32_t place) const {
  std::uint64_t number = permuted(place);
  while (number >= n_) number = permuted(number);  // at most four times on average
  return static_cast<std::uint32_t>(number);
}

std::uint64_t Permutation::permuted(std::uint64_t number) const {
  constexpr std::uint32_t kRounds = 6;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = number >> half_bits_, right = number & mask;
  for (std::uint32_t round = 1; round <= kRounds; ++round) {
    // The last word of RandomStream's counter ends with 0 instead of the round.
    const auto drawn =
        philox(seed_, {static_cast<std::uint32_t>(right), static_cast<std::uint32_t>(stream_),
                       static_cast<std::uint32_t>(stream_ >> 32), static_cast<std::uint32_t>(purpose_) << 24 | round});
    const std::uint64_t next = left ^ (drawn[0] & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
