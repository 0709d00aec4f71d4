// The AddSub model: an encoder-decoder Transformer with the course's deviations as options, its loss, and its score.
#pragma once

#include "addsub/data.h"
#include "app/course_positions.h"

#include <seppo/models/decoding/beam.h>
#include <seppo/models/onnx/onnx_models.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/ranks.h>
#include <seppo/nn/train/trainer.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace addsub {

enum class DropoutPlace {
  residual,  // LayerNorm(x + Dropout(sublayer(x))), and dropout after the embeddings: the paper
  norm       // Dropout(LayerNorm(x + sublayer(x))): the course
};
inline std::span<const char* const> enum_names(DropoutPlace) {
  static constexpr const char* kNames[] = {"residual", "norm"};
  return kNames;
}

struct ModelConfig {
  // One embedding for encoder and decoder, unscaled; a separate output layer.
  seppo::TransformerConfig transformer = {.src_vocabulary = kTokens,
                                          .tgt_vocabulary = kTokens,
                                          .layer = {.d_model = 32, .n_heads = 4, .d_ff = 32, .dropout = 0},
                                          .enc_layers = 4,
                                          .dec_layers = 4,
                                          .max_length = source_length(),
                                          .share_embeddings = true,
                                          .scale_embeddings = false};
  examples::Positions positions = examples::Positions::sinusoid;
  DropoutPlace dropout_place = DropoutPlace::residual;
  int digits = kDigits;

  void fields(seppo::ConfigVisitor& v) {
    transformer.layer.fields(v);
    v("enc_layers", transformer.enc_layers, {0, 1000}, "layers of the encoder");
    v("dec_layers", transformer.dec_layers, {0, 1000}, "layers of the decoder");
    v("positions", positions, examples::kPositionsHelp);
    v("dropout_place", dropout_place,
      "dropout before the residual sum, as in the paper, or after the norm, as in the course");
    v("digits", digits, {2, 3}, "digits of each number", {.source = seppo::Source::data, .may_be_missing = true});
  }
  void validate() const {
    transformer.validate();
    examples::check_not_coupled(positions);
    seppo::check<seppo::ArgumentError>(
        dropout_place == DropoutPlace::residual || transformer.layer.norm == seppo::Norm::post,
        "dropout_place after the norms needs norm post");
  }
};

struct Model {
  using Config = ModelConfig;
  Model(const seppo::Scope& s, const ModelConfig& c) : config(c), transformer(s, transformer_config(c)) {
    c.validate();
    examples::set_course_table(transformer.positions, s / "positions", c.positions, c.transformer.layer.d_model);
    if (c.dropout_place == DropoutPlace::residual) return;
    const auto drop_after = [](auto&... add_norms) {
      ((add_norms.options.dropout_after = std::exchange(add_norms.options.dropout_before, 0)), ...);
    };
    transformer.embedding_dropout.p = 0;
    for (auto& layer : transformer.encoder.layers) drop_after(layer.add_norm_1, layer.add_norm_2);
    for (auto& layer : transformer.decoder.layers) drop_after(layer.add_norm_1, layer.add_norm_2, layer.add_norm_3);
  }

  ModelConfig config;
  seppo::Transformer transformer;

 private:
  static seppo::TransformerConfig transformer_config(const ModelConfig& c) {
    seppo::TransformerConfig config = c.transformer;
    config.positions = examples::library_positions(c.positions);
    config.max_length = source_length(c.digits);
    return config;
  }
};

inline seppo::OnnxGraph onnx_graph(const Model& m) { return onnx_graph(m.transformer); }

enum class Smoothing { all, others };
inline std::span<const char* const> enum_names(Smoothing) {
  static constexpr const char* kNames[] = {"all", "others"};
  return kNames;
}
// The label smoothing to give to cross_entropy(), which spreads its share over all classes (PyTorch). A share for the
// wrong classes only (the course, tensor2tensor) is enlarged: the right class gets 1 / kTokens of the result back.
inline double smoothing_over_all(double share, Smoothing over) {
  constexpr double n = kTokens;
  return over == Smoothing::all ? share : share * n / (n - 1);
}

// Cross-entropy of the target tokens after BOS, summed.
inline seppo::ShardLoss loss(const Model& model, const Dataset& batch, double smoothing = 0) {
  return seppo::classification_loss(model.transformer.logits(batch.source, batch.target.without_last()),
                                    batch.target.without_first().tokens, smoothing);
}

// The model's answer to each expression, decoded greedily: tokens after BOS.
inline std::vector<std::vector<int>> answers(const Model& model, const seppo::Ragged& expressions) {
  const int length = target_length(model.config.digits) - 1;
  return greedy_decode(model.transformer, expressions, {.bos = kBos, .eos = kEos, .max_length = length});
}

// The places of a target after BOS.
inline std::span<const char* const> places(int digits = kDigits) {
  static constexpr const char* kPlaces[] = {"sign", "hundreds", "tens", "units", "end"};
  static constexpr const char* kFew[] = {"sign", "tens", "units", "end"};
  return digits == 2 ? std::span<const char* const>(kFew) : kPlaces;
}

struct Score {
  seppo::Sums sums = {};                                 // under teacher forcing: of the loss, and by place
  std::vector<int> wrong = {};                           // rows whose greedily decoded answer is not exactly right
  std::size_t examples = 0, fresh = 0, fresh_wrong = 0;  // fresh: with an expression that is not in `seen`

  double loss() const { return sums.mean("loss"); }
  double token_accuracy() const { return sums.mean("correct"); }
  double exact_match() const { return share(examples - wrong.size(), examples); }
  double fresh_exact_match() const { return share(fresh - fresh_wrong, fresh); }
  double accuracy_at(const char* place) const { return sums[place] / static_cast<double>(examples); }

 private:
  static double share(std::size_t n, std::size_t of) {
    return of ? static_cast<double>(n) / static_cast<double>(of) : 0;
  }
};

// Scores all rows; `seen` contains indices of expressions.
inline Score score(const Model& model, const Dataset& data, const std::set<int>& seen = {}) {
  std::vector<int> rows(data.rows.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<double> is_wrong(rows.size());  // by row; each rank scores some of them
  Score total;
  total.examples = rows.size();
  total.sums = seppo::evaluate(rows, [&](std::span<const int> some) {
    const seppo::Ragged source = data.source.pick(some), target = data.target.pick(some);
    const seppo::Ragged next = target.without_first();
    const auto decoded = answers(model, source);  // first, because it frees its memory
    for (std::size_t i = 0; i < some.size(); ++i)
      is_wrong[static_cast<std::size_t>(some[i])] = !std::ranges::equal(decoded[i], next[i]);
    const seppo::Tensor logits = model.transformer.logits(source, target.without_last());
    const std::vector<int> best = argmax(logits);
    seppo::Sums sums = seppo::classification_loss(logits, next.tokens);
    const auto names = places(model.config.digits);
    for (std::size_t i = 0; i < best.size(); ++i) sums.add(names[i % names.size()], best[i] == next.tokens[i]);
    return sums;
  });
  seppo::add_over_ranks(is_wrong);
  std::ranges::copy_if(rows, std::back_inserter(total.wrong),
                       [&](int row) { return is_wrong[static_cast<std::size_t>(row)] != 0; });
  const auto is_fresh = [&](int row) { return !seen.contains(data.rows[static_cast<std::size_t>(row)].index()); };
  total.fresh = static_cast<std::size_t>(std::ranges::count_if(rows, is_fresh));
  total.fresh_wrong = static_cast<std::size_t>(std::ranges::count_if(total.wrong, is_fresh));
  return total;
}

// The grades of Fudan University's course, with the names that it gives them. Token accuracy, rounded to a whole
// percentage, reaches a tier or not.
struct Tier {
  const char* name;
  int percent, points;
};
inline constexpr std::array kTiers{Tier{"Vallina", 50, 12}, Tier{"Simple", 63, 14}, Tier{"Medium", 70, 16},
                                   Tier{"Hard", 74, 20}, Tier{"Strong", 80, 25}};
// How many of the tiers are reached.
inline int course_tier(double token_accuracy) {
  const double percent = std::round(100 * token_accuracy);
  return static_cast<int>(std::ranges::count_if(kTiers, [&](const Tier& tier) { return percent >= tier.percent; }));
}
inline Tier reached_tier(double token_accuracy) {
  const int reached = course_tier(token_accuracy);
  return reached > 0 ? kTiers[static_cast<std::size_t>(reached - 1)] : Tier{"none", 0, 0};
}

}  // namespace addsub
