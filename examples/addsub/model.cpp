#include "addsub/model.h"

#include "app/checkpoint_config.h"
#include "app/training.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/models/decoding/greedy.h>

#include <algorithm>
#include <numeric>

namespace addsub {

using seppo::Ragged;
using seppo::Tensor;

nlohmann::json ModelOptions::to_json() const {
  return {{"d_model", d_model},
          {"n_heads", n_heads},
          {"d_ff", d_ff},
          {"enc_layers", enc_layers},
          {"dec_layers", dec_layers},
          {"dropout", dropout},
          {"dropout_place", dropout_place},
          {"norm", norm},
          {"positions", positions}};
}

ModelOptions ModelOptions::from_json(const nlohmann::json& config) {
  using examples::config_integer;
  return {.d_model = config_integer(config, "d_model", 1, 1 << 16),
          .n_heads = config_integer(config, "n_heads", 1, 1 << 16),
          .d_ff = config_integer(config, "d_ff", 1, 1 << 20),
          .enc_layers = config_integer(config, "enc_layers", 0, 1000),
          .dec_layers = config_integer(config, "dec_layers", 0, 1000),
          .dropout = examples::config_number(config, "dropout", 0, 1),
          .norm = examples::config_text(config, "norm"),
          .dropout_place = examples::config_text(config, "dropout_place"),
          .positions = config.contains("positions") ? examples::config_text(config, "positions") : "sinusoid"};
}

seppo::TransformerConfig ModelOptions::transformer() const {
  return {
      .src_vocabulary = vocabulary().size(),
      .tgt_vocabulary = vocabulary().size(),
      .d_model = d_model,
      .n_heads = n_heads,
      .d_ff = d_ff,
      .enc_layers = enc_layers,
      .dec_layers = dec_layers,
      .dropout = dropout,
      .norm = examples::parse_norm(norm),
      .dropout_place = dropout_place == "norm" ? seppo::DropoutPlace::after_norm : seppo::DropoutPlace::before_residual,
      .positions = examples::parse_positions(positions),
      .max_length = kSourceLength,
      .share_embeddings = true,
      .tie_output = false,
      .scale_embeddings = false};
}

namespace {

struct Batch {
  Ragged source, target_in;  // BOS sign d d
  std::vector<int> target;   // sign d d EOS
};

Batch make_batch(const Dataset& data, std::span<const int> rows) {
  Batch batch;
  for (const int row : rows) {
    const auto& target = data.targets[static_cast<std::size_t>(row)];
    batch.source.add(data.rows[static_cast<std::size_t>(row)].source());
    batch.target_in.add(std::span(target).first(kTargetLength - 1));
    batch.target.insert(batch.target.end(), target.begin() + 1, target.end());
  }
  return batch;
}

using PlaceCounts = std::array<std::size_t, kTargetLength - 1>;

PlaceCounts count_correct(const Tensor& logits, std::span<const int> targets) {
  PlaceCounts correct{};
  const std::vector<int> best = argmax(logits);
  for (std::size_t i = 0; i < targets.size(); ++i) correct[i % correct.size()] += best[i] == targets[i];
  return correct;
}

constexpr std::size_t kChunk = 64;  // examples scored at a time by one thread

}  // namespace

double smoothing_over_all(double share, const std::string& over) {
  if (over == "all") return share;
  const double n = vocabulary().size();
  return share * n / (n - 1);  // of which the right class gets 1 / n back
}

double Score::token_accuracy() const {
  double sum = 0;
  for (std::size_t place = 0; place < correct.size(); ++place) sum += accuracy_at(place);
  return sum / static_cast<double>(correct.size());
}

seppo::ShardLoss loss(const seppo::Transformer& model, const Dataset& data, std::span<const int> rows,
                      double label_smoothing) {
  const Batch batch = make_batch(data, rows);
  return examples::classification_loss(model.logits(batch.source, batch.target_in), batch.target, label_smoothing);
}

std::vector<std::vector<int>> answer(const seppo::Transformer& model, std::span<const Expression> expressions) {
  Ragged source;
  for (const Expression& e : expressions) source.add(e.source());
  return greedy_decode(model, source, {.bos = kBos, .eos = kEos, .max_length = kTargetLength - 1});
}

namespace {

// What the decoder reads to give this answer: BOS, and the answer without its last token.
std::vector<int> decoder_input(std::span<const int> answer) {
  std::vector<int> tokens{kBos};
  tokens.insert(tokens.end(), answer.begin(), answer.end() - (answer.empty() ? 0 : 1));
  return tokens;
}

}  // namespace

seppo::AttentionMaps attention_of(const seppo::Transformer& model, const Expression& expression,
                                  std::span<const int> answer) {
  const seppo::UseMode eval(seppo::Mode::eval);
  const seppo::TapeMark mark;
  Ragged source, target;
  source.add(expression.source());
  target.add(decoder_input(answer));
  seppo::AttentionMaps maps;
  model.logits(source, target, &maps);
  return maps;
}

examples::AttentionLabels attention_labels(const seppo::AttentionMap& map, const Expression& expression,
                                           std::span<const int> answer) {
  std::vector<std::string> source, target;
  for (const int token : expression.source()) source.push_back(vocabulary().token(token));
  for (const int token : decoder_input(answer)) target.push_back(vocabulary().token(token));
  const bool in_encoder = map.name.starts_with("encoder"), is_cross = map.name.ends_with("cross_attn");
  return {in_encoder ? source : target, in_encoder || is_cross ? source : target};
}

Score score(const seppo::Transformer& model, const Dataset& data, std::span<const int> rows) {
  std::vector<Score> parts((rows.size() + kChunk - 1) / kChunk);
  seppo::parallel_for(0, rows.size(), kChunk, [&](std::size_t first, std::size_t last) {
    const seppo::UseMode eval(seppo::Mode::eval);
    const seppo::TapeMark mark;
    const auto chunk = rows.subspan(first, last - first);
    Score& part = parts[first / kChunk];
    part.examples = chunk.size();
    const Batch batch = make_batch(data, chunk);
    part.correct = count_correct(model.logits(batch.source, batch.target_in), batch.target);
    const auto answers =
        greedy_decode(model, batch.source, {.bos = kBos, .eos = kEos, .max_length = kTargetLength - 1});
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      const auto& target = data.targets[static_cast<std::size_t>(chunk[i])];
      if (std::equal(answers[i].begin(), answers[i].end(), target.begin() + 1, target.end()))
        ++part.exact;
      else
        part.wrong.push_back(chunk[i]);
    }
  });
  Score total;
  for (const Score& part : parts) {
    total.examples += part.examples;
    total.exact += part.exact;
    for (std::size_t i = 0; i < total.correct.size(); ++i) total.correct[i] += part.correct[i];
    total.wrong.insert(total.wrong.end(), part.wrong.begin(), part.wrong.end());
  }
  return total;
}

}  // namespace addsub
