// The AddSub model: an encoder-decoder Transformer with what the course does otherwise, its loss, and how it is scored.
#pragma once

#include "addsub/data.h"
#include "app/attention_pictures.h"
#include "app/course_positions.h"

#include <seppo/models/transformer.h>
#include <seppo/nn/train/metrics.h>

#include <array>
#include <set>
#include <span>
#include <vector>

namespace addsub {

enum class DropoutPlace {
  residual,  // LayerNorm(x + Dropout(sublayer(x))), and of the embedded inputs: the paper
  norm       // Dropout(LayerNorm(x + sublayer(x))): the course
};
inline std::span<const char* const> enum_names(DropoutPlace) {
  static constexpr const char* kNames[] = {"residual", "norm"};
  return kNames;
}

struct ModelConfig {
  // One embedding for both sides, not scaled; a separate output layer.
  seppo::TransformerConfig transformer = {.src_vocabulary = 16,
                                          .tgt_vocabulary = 16,
                                          .layer = {.d_model = 32, .n_heads = 4, .d_ff = 32, .dropout = 0},
                                          .enc_layers = 4,
                                          .dec_layers = 4,
                                          .max_length = kSourceLength,
                                          .share_embeddings = true,
                                          .scale_embeddings = false};
  examples::Positions positions = examples::Positions::sinusoid;
  DropoutPlace dropout_place = DropoutPlace::residual;

  void fields(seppo::ConfigVisitor& v);
  void validate() const;
};

struct Model {
  using Config = ModelConfig;
  Model(const seppo::Scope& s, const ModelConfig& config);

  ModelConfig config;
  seppo::Transformer transformer;
};

enum class Smoothing { all, others };
inline std::span<const char* const> enum_names(Smoothing) {
  static constexpr const char* kNames[] = {"all", "others"};
  return kNames;
}
// Label smoothing as cross_entropy() has it, from the share that goes to all classes (PyTorch), or to the others than
// the right one (the course, tensor2tensor).
double smoothing_over_all(double share, Smoothing over);

// Cross-entropy of the target tokens after BOS, summed, for the given rows of the data.
seppo::ShardLoss loss(const Model& model, const Dataset& data, std::span<const int> rows, double label_smoothing = 0);

// The model's answer to each expression, decoded greedily: tokens after BOS.
std::vector<std::vector<int>> answers(const Model& model, const seppo::Ragged& expressions);

struct Score {
  seppo::StepLoss tokens = {};                           // each predicted from the right ones before it
  std::array<std::size_t, kTargetLength - 1> correct{};  // of them at the sign, tens, units and EOS
  std::vector<int> wrong = {};                           // rows whose whole answer, decoded greedily, is not right
  std::size_t examples = 0, fresh = 0, fresh_wrong = 0;  // fresh: the expression is not among the seen ones

  double exact_match() const { return share(examples - wrong.size(), examples); }
  double accuracy_at(std::size_t place) const { return share(correct[place], examples); }
  double fresh_exact_match() const { return share(fresh - fresh_wrong, fresh); }
  static double share(std::size_t n, std::size_t of) {
    return of ? static_cast<double>(n) / static_cast<double>(of) : 0;
  }
};
// Of all rows; `seen` are indices of expressions.
Score score(const Model& model, const Dataset& data, const std::set<int>& seen = {});

// What courses grade by: how many of these percentages of right tokens are reached, rounded to whole ones.
inline constexpr std::array kTiers{50, 63, 70, 74, 80};
int course_tier(double token_accuracy);

}  // namespace addsub
