// The AddSub model is made, asked and scored.
#include "addsub/model.h"

#include <seppo/models/decoding/greedy.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <utility>

namespace addsub {

using seppo::Ragged;
using seppo::Tensor;

namespace {

seppo::TransformerConfig transformer_config(const ModelConfig& c) {
  seppo::TransformerConfig config = c.transformer;
  config.positions = examples::library_positions(c.positions);
  return config;
}

template <class... AddNorms>
void drop_after_norm(AddNorms&... add_norms) {
  ((add_norms.options.dropout_after = std::exchange(add_norms.options.dropout_before, 0)), ...);
}

}  // namespace

void ModelConfig::fields(seppo::ConfigVisitor& v) {
  transformer.layer.fields(v);
  v("enc_layers", transformer.enc_layers, {0, 1000}, "layers of the encoder");
  v("dec_layers", transformer.dec_layers, {0, 1000}, "layers of the decoder");
  v("positions", positions, examples::kPositionsHelp);
  v("dropout_place", dropout_place, "drop before the residual sum, as the paper, or after the norm, as the course");
}

void ModelConfig::validate() const {
  transformer.validate();
  seppo::check<seppo::ArgumentError>(
      dropout_place == DropoutPlace::residual || transformer.layer.norm == seppo::Norm::post,
      "dropout_place after the norms needs norm post");
}

Model::Model(const seppo::Scope& s, const ModelConfig& c) : config(c), transformer(s, transformer_config(c)) {
  c.validate();
  examples::set_course_table(transformer.positions, s / "positions", c.positions, c.transformer.layer.d_model);
  if (c.dropout_place == DropoutPlace::residual) return;
  transformer.embedding_dropout.p = 0;
  for (auto& layer : transformer.encoder.layers) drop_after_norm(layer.add_norm_1, layer.add_norm_2);
  for (auto& layer : transformer.decoder.layers) drop_after_norm(layer.add_norm_1, layer.add_norm_2, layer.add_norm_3);
}

double smoothing_over_all(double share, Smoothing over) {
  const double n = vocabulary().size();
  return over == Smoothing::all ? share : share * n / (n - 1);  // of which the right class gets 1 / n back
}

seppo::ShardLoss loss(const Model& model, const Dataset& data, std::span<const int> rows, double label_smoothing) {
  const Ragged target = data.target.pick(rows);
  const Tensor logits = model.transformer.logits(data.source.pick(rows), target.without_last());
  return seppo::classification_loss(logits, target.without_first().tokens, label_smoothing);
}

std::vector<std::vector<int>> answers(const Model& model, const Ragged& expressions) {
  return greedy_decode(model.transformer, expressions, {.bos = kBos, .eos = kEos, .max_length = kTargetLength - 1});
}

Score score(const Model& model, const Dataset& data, const std::set<int>& seen) {
  std::vector<int> rows(data.rows.size());
  std::iota(rows.begin(), rows.end(), 0);
  Score total{.examples = rows.size()};
  std::mutex mutex;  // of total: several threads score
  total.tokens = seppo::evaluate(rows, [&](std::span<const int> chunk) {
    const Ragged source = data.source.pick(chunk), target = data.target.pick(chunk), next = target.without_first();
    const Tensor logits = model.transformer.logits(source, target.without_last());
    const std::vector<int> best = argmax(logits);
    const auto decoded = answers(model, source);
    const std::scoped_lock lock(mutex);
    for (std::size_t i = 0; i < best.size(); ++i) total.correct[i % total.correct.size()] += best[i] == next.tokens[i];
    for (std::size_t i = 0; i < chunk.size(); ++i)
      if (!std::ranges::equal(decoded[i], next[i])) total.wrong.push_back(chunk[i]);
    return seppo::classification_loss(logits, next.tokens);
  });
  std::ranges::sort(total.wrong);
  const auto is_fresh = [&](int row) { return !seen.contains(data.rows[static_cast<std::size_t>(row)].index()); };
  total.fresh = static_cast<std::size_t>(std::ranges::count_if(rows, is_fresh));
  total.fresh_wrong = static_cast<std::size_t>(std::ranges::count_if(total.wrong, is_fresh));
  return total;
}

int course_tier(double token_accuracy) {
  const double percent = std::round(100 * token_accuracy);
  return static_cast<int>(std::count_if(kTiers.begin(), kTiers.end(), [&](int tier) { return percent >= tier; }));
}

}  // namespace addsub
