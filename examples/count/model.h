// Questions about a whole sequence of symbols, and a model that answers them: an encoder, pooled into one vector.
#pragma once

#include <seppo/models/classifier.h>
#include <seppo/nn/train/data_parallel.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace count {

constexpr int kSymbols = 16;  // 0 .. 15
constexpr int kLength = 16;

// "zeros": how many symbols are 0; "largest": which symbol is the largest; "most-frequent": which stands there most
// often, the smallest of equally frequent ones.
const std::vector<std::string>& questions();
int classes(const std::string& question);  // answers are 0 .. classes-1
int right_answer(const std::string& question, std::span<const int> symbols);

enum class Part : std::uint64_t { train = 20, validation = 21, test = 22 };
// `number` random sequences; each part has random numbers of its own.
seppo::Ragged make_sequences(std::uint64_t seed, Part part, int number);

struct ModelOptions {
  int d_model = 32, n_heads = 1, d_ff = 64, n_layers = 1;
  double dropout = 0;
  std::string pooling = "class-token", positions = "sinusoid", question = "zeros";

  nlohmann::json to_json() const;
  static ModelOptions from_json(const nlohmann::json& config);
  seppo::Classifier classifier(const seppo::Scope& scope) const;
};
const std::vector<std::string>& pooling_names();

// Cross-entropy of the answers for these sequences, summed.
seppo::ShardLoss loss(const seppo::Classifier& model, const std::string& question, const seppo::Ragged& sequences,
                      std::span<const int> picks);
// The share of right answers.
double accuracy(const seppo::Classifier& model, const std::string& question, const seppo::Ragged& sequences);
// The model's answer for one sequence; with `maps`, the attention weights of every layer and head.
int answer(const seppo::Classifier& model, std::span<const int> symbols, seppo::AttentionMaps* maps = nullptr);

// Symbols between blanks; throws seppo::FormatError unless they are 1 to 16 whole numbers of 0 .. 15.
std::vector<int> parse_symbols(std::string_view text);

}  // namespace count
