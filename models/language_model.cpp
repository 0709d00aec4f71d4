// LanguageModel: from tokens to what the layers read, and from what they make to scores.
#include "language_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// A learned table may begin with rows of no position.
int rows_of_table(const LanguageModelConfig& c) { return c.max_length + c.decoder.position_offset; }

PositionalEncodingOptions position_options(const LanguageModelConfig& c) {
  return {.n_heads = c.layer.n_heads,
          .theta = c.rope_theta,
          .head_width = c.layer.head_width,
          .share = c.decoder.rope.share,
          .scaling = c.decoder.rope.scaling};
}

std::optional<PositionalEncoding> local_positions_of(const Scope& s, const LanguageModelConfig& c) {
  const auto is_local = [](const LayerAttention& a) { return a.positions == LayerPositions::local; };
  if (std::ranges::none_of(c.decoder.attentions, is_local)) return {};
  PositionalEncodingOptions options = position_options(c);
  options.theta = c.decoder.local_rope_theta;
  options.scaling = {};
  return PositionalEncoding(s, c.positions, rows_of_table(c), c.layer.d_model, options);
}

// Where each sequence begins in the table.
std::span<const int> first_rows(std::size_t sequences, std::span<const int> first_positions, int offset) {
  if (offset == 0) return first_positions;
  int* const rows = tape().allocate<int>(sequences);
  for (std::size_t s = 0; s < sequences; ++s) rows[s] = offset + (first_positions.empty() ? 0 : first_positions[s]);
  return {rows, sequences};
}

double embedding_factor(const LanguageModelConfig& c) {
  const double width = c.decoder.is_embedding_scaled ? std::sqrt(static_cast<double>(c.layer.d_model)) : 1;
  return width * c.decoder.embedding_scale;
}

// How many rows that count have their largest score at their target.
double hits(const Tensor& scores, List<int> targets, int ignored) {
  const std::vector<int> best = argmax(scores);
  double hits = 0;
  for (std::size_t i = 0; i < best.size(); ++i)
    if (targets[i] != ignored && best[i] == targets[i]) ++hits;
  return hits;
}

}  // namespace

LanguageModel::LanguageModel(const Scope& s, const LanguageModelConfig& c)
    : config(check_config("language model", c)),
      embedding(s / "embedding", c.vocabulary, c.layer.d_model, init_normal(0.02)),
      positions(s / "positions", c.positions, rows_of_table(c), c.layer.d_model, position_options(c)),
      local_positions(local_positions_of(s / "local_positions", c)),
      dropout(c.layer.dropout),
      layers(s / "layers", c.n_layers, c.layer, c.decoder) {
  if (c.decoder.embedding_norm)
    embedding_norm.emplace(s / "embedding_norm", c.layer.d_model, norm_options(c.layer, c.decoder));
  if (!c.tie_output)
    output.emplace(s / "output", c.layer.d_model, c.vocabulary,
                   LinearOptions{.bias = c.decoder.output_bias, .init = init_normal(0.02)});
}

Tensor LanguageModel::features(const Ragged& tokens, KeyValueCache* cache) const {
  const DecoderConfig& d = config.decoder;
  const auto first = cache ? cache->extend(tokens.offsets) : std::span<const int>();
  const auto ids = positions.ids(tokens.offsets, first_rows(tokens.size(), first, d.position_offset));
  Tensor x = embedding(tokens.tokens, {.scale = static_cast<real>(embedding_factor(config)),
                                       .positions = positions.table,
                                       .position_ids = ids});  // [rows, d_model]
  if (embedding_norm) x = (*embedding_norm)(x);
  DecoderExtras extras{.cache = cache, .common = positions.for_attention(ids)};
  if (local_positions) extras.local = local_positions->for_attention(ids);
  x = layers(dropout(x), tokens.offsets, extras);
  return d.output_scale == 1 ? x : scale(x, static_cast<real>(d.output_scale));
}

Tensor LanguageModel::scores(const Tensor& x) const {
  const Tensor plain = output ? (*output)(x) : embedding.as_linear(x);
  const auto cap = static_cast<real>(config.decoder.output_softcap);
  return cap == 0 ? plain : scale(tanh(scale(plain, 1 / cap)), cap);
}

Tensor LanguageModel::loss(const Tensor& x, List<int> targets, const LinearCrossEntropyOptions& options) const {
  const Region here(output ? output->name : embedding.name);
  if (!config.decoder.output_bias && config.decoder.output_softcap == 0)
    return here(linear_cross_entropy(x, output ? output->weight : embedding.weight, targets, options));
  const Tensor whole = scores(x);
  if (options.correct) *options.correct = hits(whole, targets, options.ignore_index);
  return here(cross_entropy(whole, targets, {.ignore_index = options.ignore_index, .reduction = Reduction::sum}));
}

}  // namespace SEPPO_ABI
}  // namespace seppo
