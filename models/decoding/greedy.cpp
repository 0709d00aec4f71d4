#include "greedy.h"

#include <algorithm>
#include <numeric>

namespace seppo::inline SEPPO_ABI {
namespace {

// What follows `source_rows` when each new row continues one of the old rows of its source.
void check_select(std::span<const int> parents, Offsets source_rows, Offsets old) {
  check(
      source_rows.size() == old.size() && source_rows[0] == 0 && source_rows.back() == static_cast<int>(parents.size()),
      "decode: ", parents.size(), " rows selected for ", old.size() - 1, " sources, but their offsets are ",
      source_rows.size(), " and end with ", source_rows.empty() ? 0 : source_rows.back());
  for (std::size_t s = 0; s + 1 < old.size(); ++s) {
    check(source_rows[s] <= source_rows[s + 1], "decode: offsets decrease at source ", s);
    for (int i = source_rows[s]; i < source_rows[s + 1]; ++i) {
      const int parent = parents[static_cast<std::size_t>(i)];
      check<IndexError>(parent >= old[s] && parent < old[s + 1], "decode: row ", i, " of source ", s,
                        " cannot continue row ", parent, ", whose source is another");
    }
  }
}

// A step reads all that earlier ones wrote, a little from each page.
Memory cache_memory(std::size_t elements) { return Memory(elements * sizeof(real), /*huge=*/true); }

}  // namespace

DecoderCache::DecoderCache(const Transformer& model, const Tensor& memory, Offsets memory_rows, int max_length)
    : model_(model),
      max_length_(max_length),
      memory_rows_(memory_rows.begin(), memory_rows.end()),
      source_rows_(memory_rows.size()) {
  check<ArgumentError>(max_length > 0 && max_length <= model.config.max_length, "decode: max_length ", max_length,
                       " is not in 1..", model.config.max_length, ", the model's own");
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  std::iota(source_rows_.begin(), source_rows_.end(), 0);
  step_rows_ = source_rows_;
  for (const int row : step_rows_) cache_rows_.push_back(row * max_length);
  const std::size_t sources = memory_rows.size() - 1, width = 2 * static_cast<std::size_t>(model.config.d_model);
  for (const DecoderLayer& layer : model.decoder) {
    const Tensor kv = layer.cross_attn.keys_values(memory);
    memory_kv_.push_back(cache_memory(kv.numel()));
    std::copy_n(kv.data(), kv.numel(), memory_kv_.back().as<real>());
    self_kv_.push_back(cache_memory(sources * static_cast<std::size_t>(max_length) * width));
  }
}

Tensor DecoderCache::step(std::span<const int> tokens) {
  check(tokens.size() + 1 == step_rows_.size(), "decode: ", tokens.size(), " tokens for ", step_rows_.size() - 1,
        " rows");
  check<StateError>(length_ < max_length_, "decode: the cache holds ", max_length_, " positions and is full");
  const UseMode eval(Mode::eval);
  Tape& t = tape();
  const int d = model_.config.d_model, rows = static_cast<int>(tokens.size());
  const auto width = static_cast<std::size_t>(2 * d);
  const std::vector<int> valid(tokens.size(), length_ + 1);

  const std::vector<int> position(tokens.size(), length_);
  Tensor x = model_.embed(model_.tgt_embedding, tokens, position);  // [rows, d_model]
  for (std::size_t l = 0; l < model_.decoder.size(); ++l) {
    const DecoderLayer& layer = model_.decoder[l];
    const auto attend_self = [&](const Tensor& z) {
      const Tensor qkv = layer.self_attn.in_proj(z);  // [rows, 3 d_model]
      for (std::size_t s = 0; s < tokens.size(); ++s) {
        const real* const kv = qkv.data() + s * qkv.cols() + static_cast<std::size_t>(d);
        const std::size_t row = s * static_cast<std::size_t>(max_length_) + static_cast<std::size_t>(length_);
        std::copy_n(kv, width, self_kv_[l].as<real>() + row * width);
      }
      const Tensor cache = t.create_external({rows * max_length_, 2 * d}, self_kv_[l].as<real>());
      return layer.self_attn.attend(Columns(qkv, 0, d), step_rows_, cache, cache_rows_, Mask::valid_lengths(valid));
    };
    const auto attend_memory = [&](const Tensor& z) {
      const Tensor memory = t.create_external({memory_rows_.back(), 2 * d}, memory_kv_[l].as<real>());
      return layer.cross_attn.attend(layer.cross_attn.queries(z), source_rows_, memory, memory_rows_, Mask::none());
    };
    x = layer(x, attend_self, attend_memory);
  }
  ++length_;
  return model_.output(x);
}

void DecoderCache::select(std::span<const int> parents, Offsets source_rows) {
  check_select(parents, source_rows, source_rows_);
  const std::size_t width = 2 * static_cast<std::size_t>(model_.config.d_model);
  const std::size_t row = static_cast<std::size_t>(max_length_) * width,
                    used = static_cast<std::size_t>(length_) * width;
  for (Memory& kv : self_kv_) {
    if (chosen_kv_.size() < parents.size() * row * sizeof(real)) chosen_kv_ = cache_memory(parents.size() * row);
    for (std::size_t i = 0; i < parents.size(); ++i)
      std::copy_n(kv.as<real>() + static_cast<std::size_t>(parents[i]) * row, used, chosen_kv_.as<real>() + i * row);
    std::swap(kv, chosen_kv_);
  }
  source_rows_.assign(source_rows.begin(), source_rows.end());
  step_rows_.resize(parents.size() + 1);
  std::iota(step_rows_.begin(), step_rows_.end(), 0);
  cache_rows_.clear();
  for (const int i : step_rows_) cache_rows_.push_back(i * max_length_);
}

std::vector<std::vector<int>> greedy_decode(const Transformer& model, const Ragged& src, const GreedyOptions& options) {
  const UseMode eval(Mode::eval);
  const TapeMark mark;
  std::vector<std::vector<int>> targets(src.size());
  DecoderCache cache(model, model.encode(src), src.offsets, options.max_length);
  std::vector<int> open(src.size()), tokens(src.size(), options.bos);  // of each row: its source, its last token
  std::iota(open.begin(), open.end(), 0);
  while (!open.empty() && cache.length() < options.max_length) {
    const TapeMark step;
    const Tensor logits = cache.step(tokens);
    std::vector<int> rows, source_rows{0};  // that go on
    tokens.clear();
    for (std::size_t s = 0, r = 0; s < targets.size(); ++s) {
      if (r < open.size() && open[r] == static_cast<int>(s)) {
        const real* const row = logits.data() + r * logits.cols();
        const int token = static_cast<int>(std::max_element(row, row + logits.cols()) - row);
        targets[s].push_back(token);
        if (token != options.eos) rows.push_back(static_cast<int>(r)), tokens.push_back(token);
        ++r;
      }
      source_rows.push_back(static_cast<int>(rows.size()));
    }
    if (rows.size() == open.size()) continue;
    cache.select(rows, source_rows);
    std::vector<int> still;
    for (const int r : rows) still.push_back(open[static_cast<std::size_t>(r)]);
    open = std::move(still);
  }
  return targets;
}

}  // namespace seppo::inline SEPPO_ABI
