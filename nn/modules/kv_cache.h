// KeyValueCache: the keys and values of the positions decoded so far, so that a step computes only the new ones.
//
//   const Inference inference;
//   KeyValueCache cache = model.make_cache(prompts.size());
//   Tensor logits = model(prompts, &cache);  // then one token, or any number, for each sequence:
//   logits = model(next, &cache);            // scores equal those of the whole text up to rounding
#pragma once

#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/memory.h"
#include "../../autograd/ops.h"

#include <cstddef>
#include <span>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// What queries attend to: the sequences at the offsets of K and V.
struct KeysValues {
  Columns k, v;  // [rows, kv_width]
  Offsets offsets;
  Mask mask = Mask::none();
  int window = 0;  // AttentionOptions::window, if scores do not depend on positions: what no query sees may be left out
};

class KeyValueCache {
 public:
  // For `layers` layers and sequences of at most `capacity` positions; keys and values have kv_width columns each. Both
  // are positive, or ArgumentError is thrown.
  KeyValueCache(std::size_t layers, std::size_t sequences, int capacity, int kv_width);

  // Models call this first: sequence s grows by offsets[s + 1] - offsets[s] positions. Returns the first new position
  // of each, on the tape. Throws StateError if one is full, or in Mode::train: gradients cannot reach cached positions.
  // A cache is unusable after an exception from the model that it was passed to.
  std::span<const int> extend(Offsets offsets);

  // Without a memory: sequence i becomes a copy of sequence parents[i]; a parent may occur several times or not at all.
  void select(std::span<const int> parents);
  // With a memory: source s then has the sequences source_offsets[s] .. source_offsets[s + 1] - 1, copies of its own.
  void select(std::span<const int> parents, Offsets source_offsets);

  // Forgets the positions of a sequence.
  void restart(std::size_t sequence) { lengths_[checked(sequence)] = grown_[sequence] = 0; }
  int length(std::size_t sequence) const { return lengths_[checked(sequence)]; }  // positions

  // ---- for the attention of a layer

  // Stores new keys and values behind the cached ones of each sequence; returns all of them, or those in the window.
  // The mask must be Mask::causal(), or causal_valid_lengths() with lengths of at most the positions so far, cached
  // ones included: otherwise throws ArgumentError or, for a length, IndexError. Throws ShapeError if keys or values are
  // not kv_width wide, IndexError if there is no such layer, StateError if these are not the rows that extend() was
  // told of.
  KeysValues append(std::size_t layer, const KeysValues& fresh);

  // The keys and values of the memory, [memory rows, 2 kv_width], which the first call computes.
  Tensor memory(std::size_t layer, FunctionRef<Tensor()> compute);

  // Where the new positions of each source's sequences begin; `offsets` says where those of each sequence begin.
  Offsets source_offsets(Offsets offsets) const;

 private:
  std::size_t checked(std::size_t sequence) const;
  void check_layer(std::size_t layer) const;
  void check_append(std::size_t layer, const KeysValues& fresh) const;
  real* place_of(std::size_t layer, std::size_t sequence, int position);
  void store(std::size_t layer, const KeysValues& fresh);
  KeysValues columns_of(const Tensor& both, Offsets offsets, const Mask& mask) const;
  KeysValues in_place(std::size_t layer, const Mask& mask);
  std::vector<int> first_seen(const KeysValues& fresh) const;
  KeysValues packed(std::size_t layer, const KeysValues& fresh);
  bool keeps_all(std::span<const int> parents) const;
  void reorder(Memory& block, std::span<const int> parents);

  std::size_t capacity_, width_;       // positions of a sequence; 2 kv_width
  std::vector<int> lengths_, begins_;  // of each sequence: its positions; its first row in a layer's block
  std::vector<int> grown_;             // of each sequence: how many of its positions extend() added last
  std::vector<int> source_offsets_;    // of sequences
  bool is_step_ = true;                // one new position for each sequence
  std::vector<Memory> self_, memory_;  // of each layer: [sequences, capacity, K | V]; [memory rows, K | V]
  std::vector<int> memory_rows_;       // of each layer
  Memory chosen_;                      // reorder() writes here, and swaps
};

}  // namespace SEPPO_ABI
}  // namespace seppo
