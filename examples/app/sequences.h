// Random sequences of numbers, which several tasks are about, and their text.
#pragma once

#include "app/program.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/random.h>
#include <seppo/nn/data/ragged.h>
#include <seppo/nn/run/data_digest.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace examples {

// How many symbols sequences have: all the same number, or any of a range.
struct Lengths {
  int least = 0, most = 0;
};

// "16" or "4-16", from 1 to 10,000. Throws ArgumentError that begins with `name`.
inline Lengths lengths_in(const std::string& text, const char* name) {
  constexpr int kMost = 10'000;
  Lengths lengths;
  const char* const end = text.data() + text.size();
  const auto least = std::from_chars(text.data(), end, lengths.least);
  lengths.most = lengths.least;
  bool is_right = least.ec == std::errc();
  if (is_right && least.ptr != end) {
    const auto most = std::from_chars(std::min(least.ptr + 1, end), end, lengths.most);
    is_right = *least.ptr == '-' && most.ec == std::errc() && most.ptr == end;
  }
  is_right = is_right && 1 <= lengths.least && lengths.least <= lengths.most && lengths.most <= kMost;
  seppo::check<seppo::ArgumentError>(is_right, name, " '", seppo::printable(text), "' is neither a number from 1 to ",
                                     kMost, " nor a range such as 4-16");
  return lengths;
}

// "16" or "4-16".
inline std::string text_of(Lengths lengths) {
  if (lengths.least == lengths.most) return std::to_string(lengths.least);
  return fmt::format("{}-{}", lengths.least, lengths.most);
}

inline seppo::Ragged random_sequences(seppo::RandomStream random, int count, Lengths lengths, int symbols) {
  seppo::Ragged sequences;
  for (int i = 0; i < count; ++i) {
    int length = lengths.least;
    if (lengths.least < lengths.most)
      length += static_cast<int>(random.below(static_cast<unsigned>(lengths.most - lengths.least + 1)));
    std::vector<int> sequence;
    for (int j = 0; j < length; ++j) sequence.push_back(static_cast<int>(random.below(static_cast<unsigned>(symbols))));
    sequences.add(sequence);
  }
  return sequences;
}

// The data of a task about sequences of symbols 0 .. symbols - 1, which may be longer or shorter in the test. Each part
// is drawn from a random stream of its own: `stream` and the two after it.
inline Data<seppo::Ragged> random_data(std::uint64_t seed, std::uint64_t stream, Lengths lengths, Lengths test_lengths,
                                       int symbols) {
  constexpr int kTraining = 50'000, kValidation = 1'000, kTest = 10'000;
  const auto part = [&](std::uint64_t number, int count, Lengths its_lengths) {
    return random_sequences({seed, seppo::Purpose::data, stream + number}, count, its_lengths, symbols);
  };
  Data<seppo::Ragged> data{.training = part(0, kTraining, lengths),
                           .validation = part(1, kValidation, lengths),
                           .test = part(2, kTest, test_lengths)};
  data.summary = fmt::format("{} training and {} validation sequences", kTraining, kValidation);
  data.digest = seppo::digest_of(data.training, data.validation);
  return data;
}

// "3 1 4 1".
inline std::string spaced(std::span<const int> numbers) { return fmt::format("{}", fmt::join(numbers, " ")); }

}  // namespace examples
