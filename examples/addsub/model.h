// The AddSub model: an encoder-decoder Transformer, its configuration, and how it is scored.
#pragma once

#include "addsub/data.h"
#include "app/attention_pictures.h"

#include <seppo/models/transformer.h>
#include <seppo/nn/train/data_parallel.h>

#include <nlohmann/json.hpp>

#include <array>
#include <span>
#include <string>
#include <vector>

namespace addsub {

struct ModelOptions {
  int d_model = 32, n_heads = 4, d_ff = 32, enc_layers = 4, dec_layers = 4;
  double dropout = 0;
  std::string norm = "post", dropout_place = "residual", positions = "sinusoid";

  nlohmann::json to_json() const;
  static ModelOptions from_json(const nlohmann::json& config);
  // One embedding for both sides, not scaled; sinusoid positions; a separate output layer.
  seppo::TransformerConfig transformer() const;
};

// Label smoothing as cross_entropy() has it, from the share that goes to `over`: all classes (PyTorch), or the others
// than the right one (the course, tensor2tensor).
double smoothing_over_all(double share, const std::string& over);

// Cross-entropy of the target tokens after BOS, summed, for the given rows of the data.
seppo::ShardLoss loss(const seppo::Transformer& model, const Dataset& data, std::span<const int> rows,
                      double label_smoothing);

struct Score {
  std::size_t examples = 0;
  std::size_t exact = 0;  // the whole answer right, decoded greedily
  // Right tokens at each place, sign, tens, units and EOS, each predicted from the right ones before it.
  std::array<std::size_t, kTargetLength - 1> correct{};
  std::vector<int> wrong;  // rows whose answer was not exact

  double share(std::size_t count) const {
    return examples ? static_cast<double>(count) / static_cast<double>(examples) : 0;
  }
  double exact_match() const { return share(exact); }
  double accuracy_at(std::size_t place) const { return share(correct[place]); }
  double token_accuracy() const;  // the mean of all places
};
Score score(const seppo::Transformer& model, const Dataset& data, std::span<const int> rows);

// The attention of every layer and head while the model gives this answer, and the tokens beside it.
seppo::AttentionMaps attention_of(const seppo::Transformer& model, const Expression& expression,
                                  std::span<const int> answer);
examples::AttentionLabels attention_labels(const seppo::AttentionMap& map, const Expression& expression,
                                           std::span<const int> answer);

// The model's answers: tokens after BOS.
std::vector<std::vector<int>> answer(const seppo::Transformer& model, std::span<const Expression> expressions);

}  // namespace addsub
