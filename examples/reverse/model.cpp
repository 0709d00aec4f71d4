#include "reverse/model.h"

#include "app/checkpoint_config.h"
#include "app/training.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/data/vocabulary.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace reversal {

using seppo::Ragged;
using seppo::Tensor;

nlohmann::json ModelOptions::to_json() const {
  return {{"d_model", d_model}, {"n_heads", n_heads}, {"d_ff", d_ff},           {"n_layers", n_layers},
          {"dropout", dropout}, {"norm", norm},       {"positions", positions}, {"plain", is_plain}};
}

ModelOptions ModelOptions::from_json(const nlohmann::json& config) {
  using examples::config_integer;
  return {.d_model = config_integer(config, "d_model", 1, 1 << 16),
          .n_heads = config_integer(config, "n_heads", 1, 1 << 16),
          .d_ff = config_integer(config, "d_ff", 1, 1 << 20),
          .n_layers = config_integer(config, "n_layers", 0, 1000),
          .dropout = examples::config_number(config, "dropout", 0, 1),
          .norm = examples::config_text(config, "norm"),
          .positions = config.contains("positions") ? examples::config_text(config, "positions") : "sinusoid",
          .is_plain = config.contains("plain") && config["plain"] == true};
}

seppo::PredictorConfig ModelOptions::predictor() const {
  return {.features = kSymbols,
          .classes = kSymbols,
          .d_model = d_model,
          .n_heads = n_heads,
          .d_ff = d_ff,
          .n_layers = n_layers,
          .dropout = dropout,
          .norm = examples::parse_norm(norm),
          .dropout_place = is_plain ? seppo::DropoutPlace::after_norm : seppo::DropoutPlace::before_residual,
          .shares_norm = is_plain,
          .has_output_network = !is_plain,
          .positions = examples::parse_positions(positions),
          .max_length = kLength};
}

Ragged make_sequences(std::uint64_t seed, Part part, int count) {
  seppo::RandomStream random(seed, seppo::Purpose::data, static_cast<std::uint64_t>(part));
  Ragged sequences;
  for (int i = 0; i < count; ++i) {
    int digits[kLength];
    for (int& digit : digits) digit = static_cast<int>(random.below(kSymbols));
    sequences.add(digits);
  }
  return sequences;
}

namespace {

struct Batch {
  Ragged input;
  std::vector<int> target;  // each sequence reversed
};

template <class Index>
Batch make_batch(const Ragged& sequences, std::size_t count, const Index& index) {
  Batch batch;
  for (std::size_t i = 0; i < count; ++i) {
    const std::span<const int> sequence = sequences[index(i)];
    batch.input.add(sequence);
    batch.target.insert(batch.target.end(), sequence.rbegin(), sequence.rend());
  }
  return batch;
}

Tensor logits(const seppo::Predictor& model, const Ragged& input, seppo::AttentionMaps* maps = nullptr) {
  return model(seppo::one_hot(input.tokens, kSymbols), input.offsets, maps);  // [positions, symbols]
}

}  // namespace

seppo::ShardLoss loss(const seppo::Predictor& model, const Ragged& sequences, std::span<const int> picks) {
  const Batch batch =
      make_batch(sequences, picks.size(), [&](std::size_t i) { return static_cast<std::size_t>(picks[i]); });
  return examples::classification_loss(logits(model, batch.input), batch.target);
}

Score score(const seppo::Predictor& model, const Ragged& sequences) {
  constexpr std::size_t kChunk = 64;  // sequences scored at a time by one thread
  struct Counts {
    std::size_t exact = 0, symbols = 0;
  };
  std::vector<Counts> parts((sequences.size() + kChunk - 1) / kChunk);
  seppo::parallel_for(0, sequences.size(), kChunk, [&](std::size_t first, std::size_t last) {
    const seppo::UseMode eval(seppo::Mode::eval);
    const seppo::TapeMark mark;
    const Batch batch = make_batch(sequences, last - first, [&](std::size_t i) { return first + i; });
    const std::vector<int> best = argmax(logits(model, batch.input));
    Counts& part = parts[first / kChunk];
    for (std::size_t s = 0; s < batch.input.size(); ++s) {
      const auto begin = static_cast<std::size_t>(batch.input.offsets[s]),
                 end = static_cast<std::size_t>(batch.input.offsets[s + 1]);
      std::size_t right = 0;
      for (std::size_t i = begin; i < end; ++i) right += best[i] == batch.target[i];
      part.symbols += right;
      part.exact += right == end - begin;
    }
  });
  Counts total;
  for (const Counts& part : parts) total.exact += part.exact, total.symbols += part.symbols;
  return {static_cast<double>(total.exact) / static_cast<double>(sequences.size()),
          static_cast<double>(total.symbols) / static_cast<double>(sequences.tokens.size())};
}

std::vector<int> answer(const seppo::Predictor& model, std::span<const int> sequence, seppo::AttentionMaps* maps) {
  const seppo::UseMode eval(seppo::Mode::eval);
  const seppo::TapeMark mark;
  Ragged input;
  input.add(sequence);
  return argmax(logits(model, input, maps));
}

std::vector<int> parse_sequence(std::string_view text) {
  std::vector<int> digits;
  for (const std::string_view word : seppo::split_blanks(text))
    for (const char c : word) {
      seppo::check<seppo::FormatError>(c >= '0' && c <= '9', "sequence '", seppo::printable(text), "': '",
                                       seppo::printable(word), "' is not made of digits 0-9");
      digits.push_back(c - '0');
    }
  seppo::check<seppo::FormatError>(digits.size() == kLength, "sequence '", seppo::printable(text), "' has ",
                                   digits.size(), " digits, not ", kLength);
  return digits;
}

std::string digits_text(std::span<const int> digits) { return fmt::format("{}", fmt::join(digits, " ")); }

examples::AttentionLabels attention_labels(std::span<const int> input, std::span<const int> output) {
  examples::AttentionLabels labels;
  for (const int digit : output) labels.queries.push_back(std::to_string(digit));
  for (const int digit : input) labels.keys.push_back(std::to_string(digit));
  return labels;
}

}  // namespace reversal
