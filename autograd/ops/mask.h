// Mask: which keys a query may attend, for attention() and softmax().
//
// One polarity everywhere: true means "may attend". A row without any allowed key gives weights,
// outputs and gradients of exactly zero, never NaN.
#pragma once

#include "../core/real.h"

#include <cstdint>
#include <span>

namespace seppo::inline SEPPO_ABI {

struct Mask {
  // Every query attends every key of its sequence.
  static Mask none() { return {}; }
  // Query i attends keys 0..i. With fewer queries than keys the last query attends the last key, as
  // in decoding with a cache.
  static Mask causal() { return {.is_causal = true}; }
  // Sequence s attends its first lengths[s] keys: padded batches.
  static Mask valid_lengths(std::span<const int> lengths) { return {.lengths = lengths}; }
  static Mask causal_valid_lengths(std::span<const int> lengths) { return {.is_causal = true, .lengths = lengths}; }
  // One byte for each (query, key) pair, row-major, sequence after sequence; 0 forbids.
  static Mask allowed(std::span<const std::uint8_t> pairs) { return {.pairs = pairs}; }

  bool is_causal = false;
  std::span<const int> lengths = {};
  std::span<const std::uint8_t> pairs = {};
};

}  // namespace seppo::inline SEPPO_ABI
