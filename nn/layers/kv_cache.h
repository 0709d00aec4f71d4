// KeyValueCache: the keys and values of the positions decoded so far, so that a step computes only the new ones.
//
//   const Inference inference;
//   KeyValueCache cache = model.make_cache(prompts.size());
//   Tensor logits = model(prompts, &cache);   // then one token, or any number, for each sequence:
//   logits = model(next, &cache);             // scores equal those of the whole text up to rounding
#pragma once

#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/memory.h"
#include "../../autograd/ops.h"

#include <cstddef>
#include <span>
#include <vector>

namespace seppo::inline SEPPO_ABI {

// What queries attend: sequences at `rows` of a matrix whose columns are K, then V.
struct KeysValues {
  Columns columns;  // [rows, 2 d_model]
  Offsets rows;
  Mask mask = Mask::none();
};

class KeyValueCache;

// One layer's part of a cache, or of none.
struct LayerCache {
  KeyValueCache* cache = nullptr;
  std::size_t layer = 0;

  explicit operator bool() const { return cache != nullptr; }
  KeysValues append(const KeysValues& fresh) const;
  Tensor memory(FunctionRef<Tensor()> compute) const;
  Offsets source_rows() const;
};

class KeyValueCache {
 public:
  KeyValueCache(std::size_t layers, std::size_t sequences, int capacity, int d_model);

  // Models call this first: sequence s grows by rows[s + 1] - rows[s] positions. Returns the first new position of
  // each, on the tape. Throws StateError if one is full, or in Mode::train: gradients would not reach cached positions.
  // A cache whose step has thrown is not to be used further.
  std::span<const int> extend(Offsets rows);

  // Sequence i continues what sequence parents[i] was; several may continue the same one, and some none. Beams: the
  // sequences of source s are source_rows[s] .. source_rows[s + 1] - 1, and so were their parents.
  void select(std::span<const int> parents, Offsets source_rows);
  void select(std::span<const int> parents);  // for models without a memory

  // Forgets the positions of a sequence.
  void restart(std::size_t sequence) { lengths_[sequence] = 0; }

  int length(std::size_t sequence) const { return lengths_[sequence]; }
  LayerCache layer(std::size_t index) { return {this, index}; }

 private:
  friend struct LayerCache;
  KeysValues append(std::size_t layer, const KeysValues& fresh);
  Tensor memory(std::size_t layer, FunctionRef<Tensor()> compute);

  std::size_t capacity_, width_;       // positions of a sequence; 2 d_model
  std::vector<int> lengths_, begins_;  // of each sequence: its positions; its first row in a layer's block
  std::vector<int> source_rows_;
  bool is_step_ = true;                // one new position for each sequence
  std::vector<Memory> self_, memory_;  // of each layer: [sequences, capacity, 2 d_model]; [memory rows, 2 d_model]
  std::vector<int> memory_rows_;       // of each layer
  Memory chosen_;                      // select() writes here, and swaps
};

inline KeysValues LayerCache::append(const KeysValues& fresh) const { return cache->append(layer, fresh); }
inline Tensor LayerCache::memory(FunctionRef<Tensor()> compute) const { return cache->memory(layer, compute); }
inline Offsets LayerCache::source_rows() const { return cache->source_rows_; }

}  // namespace seppo::inline SEPPO_ABI
