#include <seppo/models/decode.h>

#include <algorithm>
#include <numeric>

namespace seppo::inline SEPPO_ABI {

DecoderCache::DecoderCache(const Transformer& model, const Tensor& memory, Offsets memory_rows, int max_length)
    : model_(model), max_length_(max_length), memory_rows_(memory_rows.begin(), memory_rows.end()) {
  check<ArgumentError>(max_length > 0 && max_length <= model.config.max_length, "decode: max_length ", max_length,
                       " is not in 1..", model.config.max_length, ", the model's own");
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  const std::size_t sequences = memory_rows.size() - 1;
  step_rows_.resize(sequences + 1);
  std::iota(step_rows_.begin(), step_rows_.end(), 0);
  for (const int row : step_rows_) cache_rows_.push_back(row * max_length);
  const std::size_t width = 2 * static_cast<std::size_t>(model.config.d_model);
  for (const DecoderLayer& layer : model.decoder) {
    const Tensor kv = layer.cross_attn.keys_values(memory);
    memory_kv_.emplace_back(kv.values().begin(), kv.values().end());
    self_kv_.emplace_back(sequences * static_cast<std::size_t>(max_length) * width);
  }
}

Tensor DecoderCache::step(std::span<const int> tokens) {
  check(tokens.size() + 1 == step_rows_.size(), "decode: ", tokens.size(), " tokens for ", step_rows_.size() - 1,
        " sequences");
  check<StateError>(length_ < max_length_, "decode: the cache holds ", max_length_, " positions and is full");
  const UseMode eval(Mode::eval);
  Tape& t = tape();
  const int d = model_.config.d_model, sequences = static_cast<int>(tokens.size());
  const auto width = static_cast<std::size_t>(2 * d);
  const std::vector<int> valid(tokens.size(), length_ + 1);

  const std::vector<int> position(tokens.size(), length_);
  Tensor x = model_.embed(model_.tgt_embedding, tokens, position);  // [sequences, d_model]
  for (std::size_t l = 0; l < model_.decoder.size(); ++l) {
    const DecoderLayer& layer = model_.decoder[l];
    const auto attend_self = [&](const Tensor& z) {
      const Tensor qkv = layer.self_attn.in_proj(z);  // [sequences, 3 d_model]
      for (std::size_t s = 0; s < tokens.size(); ++s) {
        const real* const kv = qkv.data() + s * qkv.cols() + static_cast<std::size_t>(d);
        const std::size_t row = s * static_cast<std::size_t>(max_length_) + static_cast<std::size_t>(length_);
        std::copy_n(kv, width, self_kv_[l].data() + row * width);
      }
      const Tensor cache = t.create_external({sequences * max_length_, 2 * d}, self_kv_[l].data());
      return layer.self_attn.attend(Columns(qkv, 0, d), step_rows_, cache, cache_rows_, Mask::valid_lengths(valid));
    };
    const auto attend_memory = [&](const Tensor& z) {
      const Tensor memory = t.create_external({memory_rows_.back(), 2 * d}, memory_kv_[l].data());
      return layer.cross_attn.attend(layer.cross_attn.queries(z), step_rows_, memory, memory_rows_, Mask::none());
    };
    x = layer(x, attend_self, attend_memory);
  }
  ++length_;
  return model_.output(x);
}

std::vector<std::vector<int>> greedy_decode(const Transformer& model, const Ragged& src, const GreedyOptions& options) {
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  std::vector<std::vector<int>> targets(src.size());
  DecoderCache cache(model, model.encode(src), src.offsets, options.max_length);
  std::vector<int> tokens(src.size(), options.bos);
  std::vector<bool> done(src.size(), false);
  for (std::size_t open = src.size(); open > 0 && cache.length() < options.max_length;) {
    const TapeMark step;
    const Tensor logits = cache.step(tokens);
    for (std::size_t s = 0; s < targets.size(); ++s) {
      if (done[s]) continue;
      const real* const row = logits.data() + s * logits.cols();
      tokens[s] = static_cast<int>(std::max_element(row, row + logits.cols()) - row);
      targets[s].push_back(tokens[s]);
      if (tokens[s] == options.eos) done[s] = true, --open;
    }
  }
  return targets;
}

}  // namespace seppo::inline SEPPO_ABI
