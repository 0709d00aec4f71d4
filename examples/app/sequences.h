// Random sequences of numbers, which several tasks are about, and their text.
#pragma once

#include <seppo/autograd/core/random.h>
#include <seppo/nn/data/ragged.h>

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace examples {

struct RandomSequences {
  int count, length, symbols;  // each symbol is 0 .. symbols - 1
};
// Parts of the data, such as those for training and for validation, come from streams of their own.
inline seppo::Ragged random_sequences(std::uint64_t seed, std::uint64_t stream, const RandomSequences& size) {
  seppo::RandomStream random(seed, seppo::Purpose::data, stream);
  seppo::Ragged sequences;
  for (int i = 0; i < size.count; ++i) {
    std::vector<int> sequence;
    for (int j = 0; j < size.length; ++j)
      sequence.push_back(static_cast<int>(random.below(static_cast<unsigned>(size.symbols))));
    sequences.add(sequence);
  }
  return sequences;
}

// "3 1 4 1".
inline std::string spaced(std::span<const int> numbers) { return fmt::format("{}", fmt::join(numbers, " ")); }

}  // namespace examples
