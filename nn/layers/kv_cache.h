// KeyValueCache: the keys and values of the positions decoded so far, so that a step computes only the new ones.
//
//   const Inference inference;
//   KeyValueCache cache = model.make_cache(prompts.size());
//   Tensor logits = model(prompts, &cache);   // then one token, or any number, for each sequence:
//   logits = model(next, &cache);             // scores equal those of the whole text up to rounding
#pragma once

#include "../../autograd/core/memory.h"
#include "../../autograd/core/utility.h"
#include "../../autograd/ops.h"

#include <cstddef>
#include <span>
#include <vector>

namespace seppo::inline SEPPO_ABI {

// What queries attend: sequences at `rows` of K and V.
struct KeysValues {
  Columns k, v;  // [rows, kv_width]
  Offsets rows;
  Mask mask = Mask::none();
};

class KeyValueCache;

// The part of a cache that belongs to one layer; false without a cache. For the attention of that layer.
struct LayerCache {
  class KeyValueCache* cache = nullptr;
  std::size_t layer = 0;

  explicit operator bool() const { return cache != nullptr; }
  // Stores new keys and values behind the cached ones of each sequence; returns all of them. The mask must be causal.
  KeysValues append(const KeysValues& fresh) const;
  // The keys and values of the memory, [memory rows, 2 kv_width], which the first call computes.
  Tensor memory(FunctionRef<Tensor()> compute) const;
  // Where the new positions of each source's sequences begin; rows: where those of each sequence do.
  Offsets source_rows(Offsets rows) const;
};

class KeyValueCache {
 public:
  // Of `layers` layers, for sequences of at most `capacity` positions with kv_width columns of keys, and of values.
  KeyValueCache(std::size_t layers, std::size_t sequences, int capacity, int kv_width);

  // Models call this first: sequence s grows by rows[s + 1] - rows[s] positions. Returns the first new position of
  // each, on the tape. Throws StateError if one is full, or in Mode::train: gradients would not reach cached positions.
  // A cache is unusable after an exception from the model that it was passed to.
  std::span<const int> extend(Offsets rows);

  // Sequence i continues what sequence parents[i] was; several may continue the same one, and some none.
  void select(std::span<const int> parents);
  // With a memory: source s now has the sequences source_rows[s] .. source_rows[s + 1] - 1, continuing sequences of s.
  void select(std::span<const int> parents, Offsets source_rows);

  // Forgets the positions of a sequence.
  void restart(std::size_t sequence);
  int length(std::size_t sequence) const;  // positions

 private:
  friend struct LayerCache;
  std::size_t checked(std::size_t sequence) const;

  std::size_t capacity_, width_;       // positions of a sequence; 2 kv_width
  std::vector<int> lengths_, begins_;  // of each sequence: its positions; its first row in a layer's block
  std::vector<int> source_rows_;
  bool is_step_ = true;                // one new position for each sequence
  std::vector<Memory> self_, memory_;  // of each layer: [sequences, capacity, K | V]; [memory rows, K | V]
  std::vector<int> memory_rows_;       // of each layer
  Memory chosen_;                      // select() writes here, and swaps
};

}  // namespace seppo::inline SEPPO_ABI
