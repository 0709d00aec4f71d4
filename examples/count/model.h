// Questions about a whole sequence of symbols, and a model that answers them: an encoder, pooled into one vector.
#pragma once

#include "app/course_positions.h"

#include "encoder_models.h"

#include <seppo/nn/data/ragged.h>

#include <algorithm>
#include <span>
#include <vector>

namespace count {

using seppo::Ragged;
using seppo::Tensor;

constexpr int kSymbols = 16;  // 0 .. 15
constexpr int kLength = 16;

enum class Question {
  zeros,         // how many symbols are 0
  largest,       // which symbol is the largest
  most_frequent  // which symbol is the most frequent; the smallest of equally frequent ones
};
inline std::span<const char* const> enum_names(Question) {
  static constexpr const char* kNames[] = {"zeros", "largest", "most-frequent"};
  return kNames;
}

// Answers are 0 .. classes - 1.
inline int classes(Question question) { return question == Question::zeros ? kLength + 1 : kSymbols; }

inline int right_answer(Question question, std::span<const int> symbols) {
  if (question == Question::zeros) return static_cast<int>(std::count(symbols.begin(), symbols.end(), 0));
  if (question == Question::largest) return *std::max_element(symbols.begin(), symbols.end());
  int counts[kSymbols] = {};
  for (const int symbol : symbols) ++counts[symbol];
  return static_cast<int>(std::max_element(counts, counts + kSymbols) - counts);
}

struct ModelConfig {
  Question question = Question::zeros;
  seppo::LayerConfig layer = {.d_model = 32, .n_heads = 1, .d_ff = 64, .dropout = 0};
  int n_layers = 1;
  examples::Positions positions = examples::Positions::sinusoid;
  examples::Pooling pooling = examples::Pooling::class_token;

  void fields(seppo::ConfigVisitor& v) {
    v("question", question, "the question about each sequence");
    v("pooling", pooling, "the vector that stands for the whole sequence");
    layer.fields(v);
    v("n_layers", n_layers, {1, 64}, "encoder layers");
    v("positions", positions, examples::kPositionsHelp);
  }
  void validate() const { layer.validate(); }
};

struct Model {
  using Config = ModelConfig;
  Model(const seppo::Scope& s, const ModelConfig& c)
      : config(c),
        classifier(s, {.predictor = {.features = kSymbols,
                                     .classes = classes(c.question),
                                     .layer = c.layer,
                                     .n_layers = c.n_layers,
                                     .positions = examples::library_positions(c.positions),
                                     .max_length = kLength},
                       .pooling = c.pooling}) {
    examples::set_course_table(classifier.predictor.positions, s / "positions", c.positions, c.layer.d_model);
  }

  // Scores of the answers. [sequences, classes]
  Tensor operator()(const Ragged& input) const {
    return classifier(seppo::one_hot(input.tokens, kSymbols), input.offsets);
  }

  ModelConfig config;
  examples::Classifier classifier;
};

}  // namespace count
