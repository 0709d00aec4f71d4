// Ragged: sequences of different lengths, one after another, without padding.
//
// tokens holds all of them; sequence s is tokens[offsets[s]] .. tokens[offsets[s + 1] - 1]. A model
// computes exactly these rows (as FlashAttention's variable-length interface does).
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <span>
#include <vector>

namespace seppo::inline SEPPO_ABI {

struct Ragged {
  std::vector<int> tokens;
  std::vector<int> offsets{0};

  void add(std::span<const int> sequence) {
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    offsets.push_back(static_cast<int>(tokens.size()));
  }
  void clear() {
    tokens.clear();
    offsets.resize(1);
  }
  std::size_t size() const { return offsets.size() - 1; }  // sequences
  std::span<const int> operator[](std::size_t s) const {
    return std::span(tokens).subspan(static_cast<std::size_t>(offsets[s]),
                                     static_cast<std::size_t>(offsets[s + 1] - offsets[s]));
  }
};

}  // namespace seppo::inline SEPPO_ABI
