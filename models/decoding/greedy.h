// Greedy decoding with cached keys and values.
#pragma once

#include "../../autograd/core/memory.h"
#include "../transformer.h"

#include <vector>

namespace seppo::inline SEPPO_ABI {

struct GreedyOptions {
  int bos = 0, eos = 0;  // the token that starts a target, and the one that ends it
  int max_length = 64;   // tokens to generate at most, the end token included
};

// The targets that the model finds most probable token by token, for each source; without `bos`, and
// with `eos` if it was reached. Ties go to the lowest id. Nothing is recorded on the tape.
std::vector<std::vector<int>> greedy_decode(const Transformer& model, const Ragged& src, const GreedyOptions& options);

// Decodes step by step: each step attends the cached keys and values of the steps before instead of
// computing them again. Scores equal those of Transformer::decode up to rounding. Each row is one target that grows;
// at first there is one for each source.
class DecoderCache {
 public:
  // `memory` is Transformer::encode's result for sources at `memory_rows`; it is copied.
  DecoderCache(const Transformer& model, const Tensor& memory, Offsets memory_rows, int max_length);

  // Feeds one token to each row. Returns the scores of the next, [rows, tgt_vocabulary].
  Tensor step(std::span<const int> tokens);

  // From now on row i continues what row parents[i] was; several may continue the same, and some none. The rows of
  // source s are source_rows[s] .. source_rows[s + 1] - 1, and their parents were its rows, too.
  void select(std::span<const int> parents, Offsets source_rows);

  int length() const { return length_; }  // tokens fed to each row

 private:
  const Transformer& model_;
  int max_length_, length_ = 0;
  std::vector<int> memory_rows_, source_rows_;
  std::vector<int> cache_rows_, step_rows_;  // of each row: where its cache begins, and its one query
  std::vector<Memory> memory_kv_;            // for each layer [memory rows, 2 d_model]
  std::vector<Memory> self_kv_;              // for each layer [rows, max_length, 2 d_model]
  Memory chosen_kv_;                         // select() writes here, and swaps
};

}  // namespace seppo::inline SEPPO_ABI
