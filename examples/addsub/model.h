// The AddSub model: an encoder-decoder Transformer, its configuration, and how it is scored.
#pragma once

#include "addsub/data.h"
#include "common/attention_pictures.h"

#include <seppo/models/transformer.h>
#include <seppo/nn/data_parallel.h>

#include <nlohmann/json.hpp>

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

// Cross-entropy of the target tokens after BOS, summed, for the given rows of the data.
seppo::ShardLoss loss(const seppo::Transformer& model, const Dataset& data, std::span<const int> rows,
                      double label_smoothing);

struct Score {
  std::size_t examples = 0;
  std::size_t exact = 0;           // the whole answer right, decoded greedily
  std::size_t tokens_correct = 0;  // of 4 for each example, each predicted from the right tokens before it
  std::vector<int> wrong;          // rows whose answer was not exact

  double exact_match() const { return examples ? static_cast<double>(exact) / static_cast<double>(examples) : 0; }
  double token_accuracy() const {
    return examples ? static_cast<double>(tokens_correct) / (4.0 * static_cast<double>(examples)) : 0;
  }
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
