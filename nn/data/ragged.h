// Ragged: sequences of different lengths, stored one after another without padding.
//
// `tokens` holds them all; sequence s is tokens[offsets[s]] .. tokens[offsets[s + 1] - 1]. A model computes
// exactly these rows, as FlashAttention's variable-length interface does.
//
//   const Ragged texts = Ragged::of({{3, 1, 4}, {1, 5}});  // tokens 3 1 4 1 5, offsets 0 3 5
//   texts.pick({1, 1})                                     // 1 5 1 5, offsets 0 2 4
#pragma once

#include "../../autograd/core/check.h"
#include "../../autograd/core/list.h"

#include <cstddef>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

struct Ragged {
  std::vector<int> tokens;
  std::vector<int> offsets{0};

  static Ragged of(List<std::vector<int>> sequences) {
    Ragged all;
    for (const std::vector<int>& sequence : sequences) all.add(sequence);
    return all;
  }
  // Sequences of one length, such as the rows of a matrix. Throws ShapeError if the tokens are no whole number of them.
  static Ragged of_length(int length, std::vector<int> tokens) {
    check(length > 0 && tokens.size() % static_cast<std::size_t>(length) == 0, "ragged: ", tokens.size(),
          " tokens are no whole number of sequences of ", length);
    Ragged all;
    for (std::size_t end = 0; end < tokens.size();)
      all.offsets.push_back(offset(end += static_cast<std::size_t>(length)));
    all.tokens = std::move(tokens);
    return all;
  }
  // From arrays of others. Throws ShapeError unless the offsets begin with 0, do not fall, and end with the number of
  // tokens.
  static Ragged of_offsets(std::vector<int> tokens, std::vector<int> offsets) {
    check(!offsets.empty() && offsets.front() == 0, "ragged: the offsets do not begin with 0");
    for (std::size_t s = 1; s < offsets.size(); ++s)
      check(offsets[s - 1] <= offsets[s], "ragged: offset ", s, ", ", offsets[s], ", is below ", offsets[s - 1]);
    check(static_cast<std::size_t>(offsets.back()) == tokens.size(), "ragged: the last offset is ", offsets.back(),
          ", not ", tokens.size(), ", the number of tokens");
    return {std::move(tokens), std::move(offsets)};
  }

  // Throws ShapeError if there would be more than 2^31 - 1 tokens.
  void add(List<int> sequence) {
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    offsets.push_back(offset(tokens.size()));
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
  static int offset(std::size_t tokens) {
    constexpr int kMost = std::numeric_limits<int>::max();
    check(tokens <= kMost, "ragged: ", tokens, " tokens are more than ", kMost);
    return static_cast<int>(tokens);
  }
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
