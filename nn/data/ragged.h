// Ragged: sequences of different lengths, stored one after another without padding.
//
// `tokens` holds them all; sequence s is tokens[offsets[s]] .. tokens[offsets[s + 1] - 1]. A model computes
// exactly these rows, as FlashAttention's variable-length interface does.
#pragma once

#include "../../autograd/core/check.h"
#include "../../autograd/core/list.h"

#include <cstddef>
#include <span>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct Ragged {
  std::vector<int> tokens;
  std::vector<int> offsets{0};

  void add(List<int> sequence) {
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

  // The sequences of these examples, in this order. Throws IndexError for one out of range.
  Ragged pick(List<int> examples) const {
    Ragged picked;
    for (const int example : examples) {
      check<IndexError>(example >= 0 && static_cast<std::size_t>(example) < size(), "pick: example ", example, " of ",
                        size(), " sequences");
      picked.add((*this)[static_cast<std::size_t>(example)]);
    }
    return picked;
  }

  // Teacher forcing: given sequences BOS ... EOS, a decoder reads all but the last token and must predict all but the
  // first. Empty sequences stay empty.
  Ragged without_last() const { return shifted(0); }
  Ragged without_first() const { return shifted(1); }

 private:
  Ragged shifted(std::size_t begin) const {
    Ragged shorter;
    for (std::size_t s = 0; s < size(); ++s) {
      const std::span<const int> all = (*this)[s];
      shorter.add(all.empty() ? all : all.subspan(begin, all.size() - 1));
    }
    return shorter;
  }
};

}  // namespace SEPPO_ABI
}  // namespace seppo
