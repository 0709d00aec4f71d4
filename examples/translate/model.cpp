#include "translate/model.h"

#include "app/checkpoint_config.h"
#include "app/training.h"
#include "translate/d2l.h"

#include <seppo/autograd/core/parallel.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace translate {

using seppo::Ragged;
using seppo::Tensor;

nlohmann::json ModelOptions::to_json() const {
  return {{"d_model", d_model},       {"n_heads", n_heads},       {"d_ff", d_ff},       {"enc_layers", enc_layers},
          {"dec_layers", dec_layers}, {"max_tokens", max_tokens}, {"dropout", dropout}, {"norm", norm},
          {"positions", positions},   {"tie_output", tie_output}};
}

ModelOptions ModelOptions::from_json(const nlohmann::json& config) {
  using examples::config_integer;
  return {.d_model = config_integer(config, "d_model", 1, 1 << 16),
          .n_heads = config_integer(config, "n_heads", 1, 1 << 16),
          .d_ff = config_integer(config, "d_ff", 1, 1 << 20),
          .enc_layers = config_integer(config, "enc_layers", 0, 1000),
          .dec_layers = config_integer(config, "dec_layers", 0, 1000),
          .max_tokens = config_integer(config, "max_tokens", 2, 1 << 20),
          .dropout = examples::config_number(config, "dropout", 0, 1),
          .norm = examples::config_text(config, "norm"),
          .positions = examples::config_text(config, "positions"),
          .tie_output = config.contains("tie_output") && config["tie_output"] == true};
}

seppo::TransformerConfig ModelOptions::transformer(const Languages& languages) const {
  return {.src_vocabulary = languages.source.size(),
          .tgt_vocabulary = languages.target.size(),
          .d_model = d_model,
          .n_heads = n_heads,
          .d_ff = d_ff,
          .enc_layers = enc_layers,
          .dec_layers = dec_layers,
          .dropout = dropout,
          .norm = examples::parse_norm(norm),
          .positions = examples::parse_positions(positions),
          .max_length = max_tokens,
          .tie_output = tie_output};
}

namespace {
bool is_long(const std::vector<int>& text, int most) { return text.size() > static_cast<std::size_t>(most); }
}  // namespace

std::vector<int> Examples::lengths() const {
  std::vector<int> lengths;
  for (std::size_t i = 0; i < size(); ++i) lengths.push_back(static_cast<int>(sources[i].size() + targets[i].size()));
  return lengths;
}

std::size_t Examples::drop_long(int most) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    if (is_long(sources[i], most) || is_long(targets[i], most)) continue;
    std::swap(sources[kept], sources[i]);
    std::swap(targets[kept++], targets[i]);
  }
  const std::size_t dropped = size() - kept;
  sources.resize(kept);
  targets.resize(kept);
  return dropped;
}

std::size_t Examples::cut_long(int most) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    count += is_long(sources[i], most) || is_long(targets[i], most);
    for (auto* text : {&sources[i], &targets[i]})
      if (is_long(*text, most)) text->resize(static_cast<std::size_t>(most)), text->back() = kEos;
  }
  return count;
}

Examples encode(const Languages& languages, std::span<const Pair> pairs) {
  Examples examples;
  for (const Pair& pair : pairs) {
    examples.sources.push_back(languages.encode(languages.source, pair.source));
    examples.targets.push_back(languages.encode(languages.target, pair.target));
  }
  return examples;
}

namespace {

// What the decoder reads to write this target: the start, and the target without its last token.
std::vector<int> decoder_input(std::span<const int> target) {
  std::vector<int> tokens{kBos};
  tokens.insert(tokens.end(), target.begin(), target.end() - (target.empty() ? 0 : 1));
  return tokens;
}

struct Batch {
  Ragged source, target_in;
  std::vector<int> target;
};

Batch make_batch(const Examples& examples, std::span<const int> rows) {
  Batch batch;
  for (const int row : rows) {
    const auto& target = examples.targets[static_cast<std::size_t>(row)];
    batch.source.add(examples.sources[static_cast<std::size_t>(row)]);
    batch.target_in.add(decoder_input(target));
    batch.target.insert(batch.target.end(), target.begin(), target.end());
  }
  return batch;
}

// Calls f(chunk, rows) on all threads for chunks of rows of similar length.
template <class F>
void in_chunks(std::span<const int> lengths, const F& f) {
  constexpr std::size_t kChunk = 32;
  std::vector<int> rows(lengths.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::stable_sort(rows.begin(), rows.end(), [&](int a, int b) {
    return lengths[static_cast<std::size_t>(a)] < lengths[static_cast<std::size_t>(b)];
  });
  seppo::parallel_for(0, rows.size(), kChunk, [&](std::size_t first, std::size_t last) {
    const seppo::UseMode eval(seppo::Mode::eval);
    const seppo::TapeMark mark;
    f(first / kChunk, std::span(rows).subspan(first, last - first));
  });
}

seppo::ShardLoss loss_of(const seppo::Transformer& model, const Batch& batch, double label_smoothing) {
  return examples::classification_loss(model.logits(batch.source, batch.target_in), batch.target, label_smoothing);
}

}  // namespace

seppo::ShardLoss loss(const seppo::Transformer& model, const Examples& examples, std::span<const int> rows,
                      double label_smoothing) {
  return loss_of(model, make_batch(examples, rows), label_smoothing);
}

Perplexity perplexity(const seppo::Transformer& model, const Examples& examples) {
  std::vector<seppo::StepLoss> parts(examples.size());
  in_chunks(examples.lengths(), [&](std::size_t chunk, std::span<const int> rows) {
    const seppo::ShardLoss part = loss_of(model, make_batch(examples, rows), 0);
    parts[chunk] = {static_cast<double>(part.loss.item()), part.count, part.correct};
  });
  seppo::StepLoss sum;
  for (const seppo::StepLoss& part : parts) sum.loss += part.loss, sum.count += part.count, sum.correct += part.correct;
  return {std::exp(sum.loss / sum.count), sum.correct / sum.count};
}

std::vector<std::vector<seppo::Hypothesis>> translate(const seppo::Transformer& model,
                                                      std::span<const std::vector<int>> sources,
                                                      const seppo::BeamOptions& options) {
  std::vector<std::vector<seppo::Hypothesis>> results(sources.size());
  std::vector<int> lengths;
  for (const auto& source : sources) lengths.push_back(static_cast<int>(source.size()));
  in_chunks(lengths, [&](std::size_t, std::span<const int> rows) {
    Ragged batch;
    for (const int row : rows) batch.add(sources[static_cast<std::size_t>(row)]);
    auto found = beam_search(model, batch, options);
    for (std::size_t i = 0; i < rows.size(); ++i) results[static_cast<std::size_t>(rows[i])] = std::move(found[i]);
  });
  return results;
}

Score score(const seppo::Transformer& model, const Languages& languages, std::span<const Pair> pairs,
            const seppo::BeamOptions& options) {
  Score result;
  Examples examples = encode(languages, pairs);
  result.cut = examples.cut_long(model.config.max_length);
  result.tokens = perplexity(model, examples);
  std::vector<seppo::Words> translations, references;
  const auto hypotheses = translate(model, examples.sources, options);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    result.translations.push_back(languages.decode(hypotheses[i][0].tokens));
    translations.push_back(words_of(result.translations.back()));
    references.push_back(words_of(languages.tokenizer.prepare(pairs[i].target)));
    result.exact += translations.back() == references.back();
    result.bleu_2 += bleu_k(translations.back(), references.back(), 2);
  }
  result.exact /= static_cast<double>(pairs.size());
  result.bleu_2 /= static_cast<double>(pairs.size());
  result.bleu = seppo::corpus_bleu(translations, references);
  return result;
}

seppo::AttentionMaps attention_of(const seppo::Transformer& model, std::span<const int> source,
                                  std::span<const int> target) {
  const seppo::UseMode eval(seppo::Mode::eval);
  const seppo::TapeMark mark;
  Ragged sources, targets;
  sources.add(source);
  targets.add(decoder_input(target));
  seppo::AttentionMaps maps;
  model.logits(sources, targets, &maps);
  return maps;
}

examples::AttentionLabels attention_labels(const seppo::AttentionMap& map, const Languages& languages,
                                           std::span<const int> source, std::span<const int> target) {
  std::vector<std::string> sources, targets;
  for (const int id : source) sources.push_back(languages.source.token(id));
  for (const int id : decoder_input(target)) targets.push_back(languages.target.token(id));
  const bool in_encoder = map.name.starts_with("encoder"), is_cross = map.name.ends_with("cross_attn");
  return {in_encoder ? sources : targets, in_encoder || is_cross ? sources : targets};
}

}  // namespace translate
