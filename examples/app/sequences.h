// Random sequences of numbers, which several tasks are about, and their text.
#pragma once

#include "app/program.h"

#include <seppo/autograd/core/random.h>
#include <seppo/nn/data/ragged.h>
#include <seppo/nn/run/data_digest.h>

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace examples {

inline seppo::Ragged random_sequences(seppo::RandomStream random, int count, int length, int symbols) {
  seppo::Ragged sequences;
  for (int i = 0; i < count; ++i) {
    std::vector<int> sequence;
    for (int j = 0; j < length; ++j) sequence.push_back(static_cast<int>(random.below(static_cast<unsigned>(symbols))));
    sequences.add(sequence);
  }
  return sequences;
}

// The data of a task about sequences of symbols 0 .. symbols - 1. Each part is drawn from a random stream of its own:
// `stream` and the two after it.
inline Data<seppo::Ragged> random_data(std::uint64_t seed, std::uint64_t stream, int length, int symbols) {
  constexpr int kTraining = 50'000, kValidation = 1'000, kTest = 10'000;
  const auto part = [&](std::uint64_t number, int count) {
    return random_sequences({seed, seppo::Purpose::data, stream + number}, count, length, symbols);
  };
  Data<seppo::Ragged> data{.training = part(0, kTraining), .validation = part(1, kValidation), .test = part(2, kTest)};
  data.summary = fmt::format("{} training and {} validation sequences", kTraining, kValidation);
  data.digest = seppo::digest_of(data.training, data.validation);
  return data;
}

// "3 1 4 1".
inline std::string spaced(std::span<const int> numbers) { return fmt::format("{}", fmt::join(numbers, " ")); }

}  // namespace examples
