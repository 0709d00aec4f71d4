// Mask: which keys a query may attend, for attention() and softmax().
//
// One polarity everywhere: true means "may attend". A row without any allowed key gives weights,
// outputs and gradients of exactly zero, never NaN.
#pragma once

#include "../core/list.h"

#include <cstdint>
#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

struct Mask {
  // Every query attends every key of its sequence.
  static Mask none() { return {}; }
  // The last query attends all keys of its sequence, the one before it all but the last, and so on: query i attends
  // keys 0 .. i + keys - queries. With as many queries as keys that is 0..i; with fewer, decoding with a cache; with
  // more, the first queries attend nothing. (PyTorch's is_causal aligns the first query with the first key instead.)
  static Mask causal() { return {.is_causal = true}; }
  // Queries of sequence s attend its first lengths[s] keys: for padded batches.
  static Mask valid_lengths(List<int> lengths) { return {.lengths = lengths}; }
  static Mask causal_valid_lengths(List<int> lengths) { return {.is_causal = true, .lengths = lengths}; }
  // Query i, counted over all sequences, attends the first lengths[i] keys of its sequence.
  static Mask valid_query_lengths(List<int> lengths) { return {.query_lengths = lengths}; }
  // One byte for each (query, key) pair, row-major, sequence after sequence; 0 forbids.
  static Mask allowed(List<std::uint8_t> pairs) { return {.pairs = pairs}; }

  bool is_causal = false;
  std::span<const int> lengths = {};
  std::span<const int> query_lengths = {};
  std::span<const std::uint8_t> pairs = {};

  // Whether it fits sequences of any size.
  bool has_no_lists() const { return lengths.empty() && query_lengths.empty() && pairs.empty(); }
};

}  // namespace SEPPO_ABI
}  // namespace seppo
