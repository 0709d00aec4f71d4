// Questions about a whole sequence of symbols, and a model that answers them: an encoder, pooled into one vector.
#pragma once

#include "app/course_positions.h"

#include "encoder_graphs.h"

#include <seppo/nn/data/ragged.h>
#include <seppo/nn/train/data_parallel.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
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

// What is learned, and so what the model's scores mean.
enum class Loss {
  ce,   // cross-entropy: one distribution over the answers
  bce,  // binary cross-entropy, summed over the answers: is it this one, or not? Each is asked alone
  mse   // squared error: the model gives one number, and the nearest integer is its answer
};
inline std::span<const char* const> enum_names(Loss) {
  static constexpr const char* kNames[] = {"ce", "bce", "mse"};
  return kNames;
}

struct ModelConfig {
  Question question = Question::zeros;
  Loss loss = Loss::ce;
  seppo::LayerConfig layer = {.d_model = 32, .n_heads = 1, .d_ff = 64, .dropout = 0};
  int n_layers = 1;
  examples::Positions positions = examples::Positions::sinusoid;
  examples::Pooling pooling = examples::Pooling::class_token;

  void fields(seppo::ConfigVisitor& v) {
    v("question", question, "the question about each sequence");
    v("loss", loss,
      "cross-entropy of the answers, binary cross-entropy of each answer for itself, or squared error of one number",
      {.may_be_missing = true});
    v("pooling", pooling, "the vector that stands for the whole sequence");
    layer.fields(v);
    v("n_layers", n_layers, {1, 64}, "encoder layers");
    v("positions", positions, examples::kPositionsHelp);
  }
  void validate() const {
    layer.validate();
    examples::check_not_coupled(positions);
  }
};

struct Model {
  using Config = ModelConfig;
  Model(const seppo::Scope& s, const ModelConfig& c)
      : config(c),
        classifier(s, {.predictor = {.features = kSymbols,
                                     .classes = c.loss == Loss::mse ? 1 : classes(c.question),
                                     .layer = c.layer,
                                     .n_layers = c.n_layers,
                                     .positions = examples::library_positions(c.positions),
                                     .max_length = kLength},
                       .pooling = c.pooling}) {
    examples::set_course_table(classifier.predictor.positions, s / "positions", c.positions, c.layer.d_model);
  }

  // Scores of the answers [sequences, classes]; with Loss::mse, one number for each sequence [sequences, 1].
  Tensor operator()(const Ragged& input) const {
    return classifier(seppo::one_hot(input.tokens, kSymbols), input.offsets);
  }

  // The answers that these scores mean, one for each sequence.
  std::vector<int> answers(const Tensor& scores) const {
    if (config.loss != Loss::mse) return argmax(scores);
    std::vector<int> nearest;
    for (const seppo::real number : scores.values()) nearest.push_back(static_cast<int>(std::lround(number)));
    return nearest;
  }

  ModelConfig config;
  examples::Classifier classifier;
};

// Symbols [batch, 16] -> scores [batch, classes].
inline seppo::OnnxGraph onnx_graph(const Model& m) {
  seppo::OnnxGraph g("count");
  const seppo::OnnxValue scores = emit(g, m.classifier, examples::emit_symbols(g, kLength, kSymbols));
  g.output("scores", scores, seppo::OnnxType::reals, {"batch", m.classifier.config.predictor.classes});
  return g;
}

// Of a batch: the loss summed over its sequences, their number, and that of correct answers.
inline seppo::ShardLoss loss(const Model& model, const Ragged& sequences) {
  const Question question = model.config.question;
  std::vector<int> right;
  for (std::size_t s = 0; s < sequences.size(); ++s) right.push_back(right_answer(question, sequences[s]));
  const Tensor scores = model(sequences);
  const auto summed = [&] {
    constexpr seppo::Reduction kSum = seppo::Reduction::sum;
    switch (model.config.loss) {
      case Loss::bce:
        return binary_cross_entropy_with_logits(scores, seppo::one_hot(right, classes(question)), {.reduction = kSum});
      case Loss::mse:
        return mse_loss(scores, seppo::tensor(scores.shape(), right), kSum);
      case Loss::ce:
        break;
    }
    return cross_entropy(scores, right, {.reduction = kSum});
  };
  const std::vector<int> answers = model.answers(scores);
  const double correct =
      std::transform_reduce(answers.begin(), answers.end(), right.begin(), 0.0, std::plus<>(), std::equal_to<>());
  return {.loss = summed(), .count = right.size(), .correct = correct};
}

}  // namespace count
