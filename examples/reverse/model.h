// The reversal task and its model: an encoder that predicts, at each position, the symbol at the
// mirrored position. From tutorial 6 of the UvA deep learning course.
#pragma once

#include "app/attention_pictures.h"

#include <seppo/models/predictor.h>
#include <seppo/nn/data/ragged.h>
#include <seppo/nn/train/data_parallel.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reversal {

constexpr int kSymbols = 10;  // the digits
constexpr int kLength = 16;

struct ModelOptions {
  int d_model = 32, n_heads = 1, d_ff = 64, n_layers = 1;
  double dropout = 0;
  std::string norm = "post", positions = "sinusoid";
  // Another course's model: one layer norm for both sublayers, dropout after it, no output network.
  bool is_plain = false;

  nlohmann::json to_json() const;
  static ModelOptions from_json(const nlohmann::json& config);
  seppo::PredictorConfig predictor() const;
};

enum class Part : std::uint64_t { train = 10, validation = 11, test = 12 };
// `count` random sequences; each part has random numbers of its own.
seppo::Ragged make_sequences(std::uint64_t seed, Part part, int count);

// Mean cross-entropy is this sum divided by its count of positions.
seppo::ShardLoss loss(const seppo::Predictor& model, const seppo::Ragged& sequences, std::span<const int> picks);

struct Score {
  double exact = 0, token_accuracy = 0;  // shares of whole sequences and of single symbols
};
Score score(const seppo::Predictor& model, const seppo::Ragged& sequences);

// The model's answer for one sequence; with `maps`, the attention weights of every layer and head.
std::vector<int> answer(const seppo::Predictor& model, std::span<const int> sequence,
                        seppo::AttentionMaps* maps = nullptr);

// "0 1 2 ..." or "012...": throws seppo::FormatError unless it is 16 digits.
std::vector<int> parse_sequence(std::string_view text);
std::string digits_text(std::span<const int> digits);

// Of the model's attention: a row for each output, a column for each input.
examples::AttentionLabels attention_labels(std::span<const int> input, std::span<const int> output);

}  // namespace reversal
