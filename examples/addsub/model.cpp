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
      "dropout_place norm needs norm post");
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

namespace {

std::vector<std::vector<int>> decode(const Model& model, const Ragged& source) {
  return greedy_decode(model.transformer, source, {.bos = kBos, .eos = kEos, .max_length = kTargetLength - 1});
}

std::vector<std::string> token_names(std::span<const int> ids) {
  std::vector<std::string> names;
  for (const int id : ids) names.push_back(vocabulary().token(id));
  return names;
}

}  // namespace

std::vector<int> answer(const Model& model, const Expression& expression) {
  Ragged source;
  source.add(expression.source());
  return decode(model, source)[0];
}

examples::Sample explain(const Model& model, const Expression& expression, std::span<const int> answer) {
  std::vector<int> target{kBos};
  target.insert(target.end(), answer.begin(), answer.end());
  Ragged source, whole;
  source.add(expression.source());
  whole.add(target);
  const Ragged read = whole.without_last();  // by the decoder
  seppo::AttentionRecorder recorder;
  {
    const seppo::UseMode eval(seppo::Mode::eval);
    const seppo::TapeMark mark;
    const seppo::Observe scope(recorder);
    model.transformer.logits(source, read);
  }
  return {.input = expression.arithmetic(),
          .expected = "",
          .output = token_text(answer),
          .maps = std::move(recorder.maps),
          .labels = [from = token_names(source.tokens), to = token_names(read.tokens)](const seppo::AttentionMap& map) {
            const bool in_encoder = map.name.starts_with("encoder"), is_cross = map.name.ends_with("cross_attn");
            return examples::AttentionLabels{in_encoder ? from : to, in_encoder || is_cross ? from : to};
          }};
}

double Score::token_accuracy() const {
  double sum = 0;
  for (std::size_t place = 0; place < correct.size(); ++place) sum += accuracy_at(place);
  return sum / static_cast<double>(correct.size());
}

Score score(const Model& model, const Dataset& data, std::span<const int> rows) {
  Score total{.examples = rows.size()};
  std::mutex mutex;  // of total: chunks are scored by several threads
  const seppo::StepLoss sums = seppo::evaluate(rows, [&](std::span<const int> chunk) {
    const Ragged source = data.source.pick(chunk), target = data.target.pick(chunk), next = target.without_first();
    const Tensor logits = model.transformer.logits(source, target.without_last());
    const std::vector<int> best = argmax(logits);
    const auto answers = decode(model, source);
    const std::scoped_lock lock(mutex);
    for (std::size_t i = 0; i < best.size(); ++i) total.correct[i % total.correct.size()] += best[i] == next.tokens[i];
    for (std::size_t i = 0; i < chunk.size(); ++i)
      if (!std::equal(answers[i].begin(), answers[i].end(), next[i].begin(), next[i].end()))
        total.wrong.push_back(chunk[i]);
    return seppo::classification_loss(logits, next.tokens);
  });
  std::sort(total.wrong.begin(), total.wrong.end());
  total.loss = sums.mean();
  return total;
}

int course_tier(double token_accuracy) {
  const double percent = std::round(100 * token_accuracy);
  return static_cast<int>(std::count_if(kTiers.begin(), kTiers.end(), [&](int tier) { return percent >= tier; }));
}

}  // namespace addsub
