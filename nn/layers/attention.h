// MultiHeadAttention (Vaswani et al. 2017, 3.2.2), the positional encodings, and the cache of keys and values that
// decoding needs.
//
// The projections of Q, K and V are one stacked weight [3 d_model, d_model], as in PyTorch's nn.MultiheadAttention:
// self-attention computes all three in one product; cross-attention uses the first third for the queries and the rest
// for the keys and values of the memory. With fewer heads of keys and values than of queries (n_kv_heads; Ainslie et
// al. 2023) it is [d_model + 2 kv_width, d_model]. To see the weights: AttentionRecorder (autograd/tools).
#pragma once

#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/memory.h"
#include "../../autograd/core/region.h"
#include "basic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// ---- positions: the absolute encodings are a table [max_positions, d_model] whose row n is added at position n of a
// sequence; the relative ones (rotary, rotary_halves, alibi) act within attention, as for_attention() tells it.

enum class Positions {
  none,
  sinusoid,    // sin(n / 10000^(2i/d)) in column 2i, cos of the same angle in column 2i + 1 (Vaswani et al. 2017, 3.5)
  cosinusoid,  // the same with cos in column 2i and sin in column 2i + 1
  learned,     // a parameter, N(0, 0.02^2)
  rotary,      // queries and keys are rotated, in pairs of columns 2i and 2i + 1 (Su et al. 2021; llama2.c)
  rotary_halves,  // the same with columns i and i + width / 2 of a head (Hugging Face's LLaMA)
  alibi           // scores lowered in proportion to the distance (Press et al. 2021)
};

inline std::span<const char* const> enum_names(Positions) {
  static constexpr const char* kNames[] = {"none",   "sinusoid",      "cosinusoid", "learned",
                                           "rotary", "rotary_halves", "alibi"};
  return kNames;
}

// An element of the sinusoid table. The cosinusoid swaps columns 2i and 2i + 1: it has column ^ 1 here.
inline double sinusoid(int position, int column, int d_model, double base = 10000) {
  const double angle = position / std::pow(base, static_cast<double>(column / 2 * 2) / d_model);
  return column % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

// ALiBi's slope of each head: 2^(-8/n), 2^(-16/n), ... 2^-8 for n heads, if n is a power of two. Otherwise the slopes
// of the next lower power of two, followed by the first, third, fifth ... slope of twice that power.
inline double alibi_slope(int head, int n_heads) {
  const int n = static_cast<int>(std::bit_floor(static_cast<unsigned>(n_heads)));
  return std::exp2(head < n ? -8.0 * (head + 1) / n : -8.0 * (2 * (head - n) + 1) / (2 * n));
}

// What attention needs to know about positions; by default nothing.
struct AttentionPositions {
  std::span<const int> ids = {};  // of each row
  Tensor rotary = {};             // the op's table, [max_positions, width of a head]
  RotaryPairs pairs = RotaryPairs::interleaved;
  std::span<const real> slopes = {};  // of ALiBi, for each head
  Tensor bias = {};  // added to the scores, see AttentionOptions; with a cache, [.., new queries, positions so far]
};

struct PositionalEncodingOptions {
  int n_heads = 1;       // of the attention, for the relative ones
  double theta = 10000;  // rotary: pair i of a head is rotated by theta^(-2i / width) per position
};

struct PositionalEncoding {
  PositionalEncoding(const Scope& s, Positions kind, int length, int d_model,
                     const PositionalEncodingOptions& options = {})
      : max_positions(length) {
    const int heads = options.n_heads, width = heads > 0 ? d_model / heads : 0;
    check<ArgumentError>(max_positions > 0 && width * heads == d_model && options.theta > 0,
                         "positional encoding: max_positions ", max_positions, " or theta ", options.theta,
                         " is not positive, or n_heads ", heads, " does not divide d_model ", d_model);
    const auto waves = [&](int columns, int change, double base) {
      const Tensor rows = s.constant({length, columns}, [](std::span<real>, const Shape&, RandomStream&) {});
      need = [=, done = std::make_shared<std::pair<std::mutex, int>>()](int end) {
        const std::lock_guard lock(done->first);
        for (int& n = done->second; n < std::min(end, length); ++n)
          for (int j = 0; j < columns; ++j)
            rows.data()[std::ptrdiff_t{n} * columns + j] = static_cast<real>(sinusoid(n, j ^ change, columns, base));
      };
      return rows;
    };
    if (kind == Positions::learned) table = s.parameter("weight", {max_positions, d_model}, init_normal(0.02));
    if (kind == Positions::sinusoid || kind == Positions::cosinusoid)
      table = waves(d_model, kind == Positions::cosinusoid, 10000);
    if (kind == Positions::rotary || kind == Positions::rotary_halves) {
      check<ArgumentError>(width % 2 == 0,
                           "positional encoding: rotary positions turn pairs of columns, but heads have ", width);
      relative.rotary = waves(width, 1, options.theta);
      relative.pairs = kind == Positions::rotary ? RotaryPairs::interleaved : RotaryPairs::halves;
    }
    if (kind == Positions::alibi) {
      const Tensor slopes = s.constant({heads}, init_zeros());
      for (int h = 0; h < heads; ++h) slopes.data()[h] = static_cast<real>(alibi_slope(h, heads));
      relative.slopes = slopes.values();
    }
  }
  // Any other table [max_positions, d_model], as Scope::constant or Scope::parameter makes one.
  explicit PositionalEncoding(const Tensor& any) : table(any), max_positions(any.size(0)) {}

  // x + encoding, for x [rows, d_model] with the sequences at `rows`; x itself for relative encodings.
  Tensor operator()(const Tensor& x, Offsets rows) const {
    return table.defined() ? x + embedding(table, ids(rows)) : x;
  }

  // The position of each row within its sequence, on the tape: 0, 1, 2 ..., or first[s], first[s] + 1 ... if given.
  // Throws IndexError past the table's end.
  std::span<const int> ids(Offsets rows, std::span<const int> first = {}) const {
    check(!rows.empty() && rows[0] == 0 && std::ranges::is_sorted(rows), "positions: offsets must rise from 0");
    int* const positions = tape().allocate<int>(static_cast<std::size_t>(rows.back()));
    for (std::size_t s = 0; s + 1 < rows.size(); ++s) {
      const int begin = first.empty() ? 0 : first[s], end = begin + rows[s + 1] - rows[s];
      check<IndexError>(end <= max_positions, "positional encoding: sequence ", s, " has ", end,
                        " positions, the table ", max_positions);
      for (int n = begin; n < end; ++n) positions[rows[s] + n - begin] = n;
      if (need) need(end);
    }
    return {positions, static_cast<std::size_t>(rows.back())};
  }

  // For attention over rows of these positions.
  AttentionPositions for_attention(std::span<const int> position_ids) const {
    if (relative.rotary.defined() && !position_ids.empty()) need(std::ranges::max(position_ids) + 1);
    AttentionPositions p = relative;
    p.ids = position_ids;
    return p;
  }

  Tensor table;                 // undefined for Positions::none and the relative ones
  AttentionPositions relative;  // without ids
  int max_positions;
  // Computes the first rows of a table of sinusoids, when ids() and for_attention() first need them; rows that have
  // not been needed are uninitialised, and take neither time nor memory.
  std::function<void(int rows)> need;
};

// ---- attention

// What queries attend to: the sequences at `rows` of K and V.
struct KeysValues {
  Columns k, v;  // [rows, kv_width]
  Offsets rows;
  Mask mask = Mask::none();
};

// The part of a cache that belongs to one layer; false without a cache. For the attention of that layer.
struct LayerCache {
  class KeyValueCache* cache = nullptr;
  std::size_t layer = 0;

  explicit operator bool() const { return cache != nullptr; }
  // Stores new keys and values behind the cached ones of each sequence; returns all of them. The mask must be
  // Mask::causal(), or causal_valid_lengths() with lengths of at most the positions so far, cached ones included:
  // otherwise throws ArgumentError or, for a length, IndexError. Throws ShapeError if keys or values are not kv_width
  // wide, IndexError if the cache has no such layer, StateError if these are not the rows that extend() was told of.
  KeysValues append(const KeysValues& fresh) const;
  // The keys and values of the memory, [memory rows, 2 kv_width], which the first call computes.
  Tensor memory(FunctionRef<Tensor()> compute) const;
  // Where the new positions of each source's sequences begin; `rows` says where those of each sequence begin.
  Offsets source_rows(Offsets rows) const;

 private:
  void check_layer() const;
};

// The keys and values of the positions decoded so far, so that a step computes only the new ones.
//
//   const Inference inference;
//   KeyValueCache cache = model.make_cache(prompts.size());
//   Tensor logits = model(prompts, &cache);   // then one token, or any number, for each sequence:
//   logits = model(next, &cache);             // scores equal those of the whole text up to rounding
class KeyValueCache {
 public:
  // For `layers` layers and sequences of at most `capacity` positions; keys and values have kv_width columns each. Both
  // are positive, or ArgumentError is thrown.
  KeyValueCache(std::size_t layers, std::size_t sequences, int capacity, int kv_width);

  // Models call this first: sequence s grows by rows[s + 1] - rows[s] positions. Returns the first new position of
  // each, on the tape. Throws StateError if one is full, or in Mode::train: gradients cannot reach cached positions.
  // A cache is unusable after an exception from the model that it was passed to.
  std::span<const int> extend(Offsets rows);

  // Without a memory: sequence i becomes a copy of sequence parents[i]; a parent may occur several times or not at all.
  void select(std::span<const int> parents);
  // With a memory: source s then has the sequences source_rows[s] .. source_rows[s + 1] - 1, copies of its own ones.
  void select(std::span<const int> parents, Offsets source_rows);

  // Forgets the positions of a sequence.
  void restart(std::size_t sequence) { lengths_[checked(sequence)] = grown_[sequence] = 0; }
  int length(std::size_t sequence) const { return lengths_[checked(sequence)]; }  // positions

 private:
  friend struct LayerCache;
  std::size_t checked(std::size_t sequence) const;

  std::size_t capacity_, width_;       // positions of a sequence; 2 kv_width
  std::vector<int> lengths_, begins_;  // of each sequence: its positions; its first row in a layer's block
  std::vector<int> grown_;             // of each sequence: how many of its positions extend() added last
  std::vector<int> source_rows_;
  bool is_step_ = true;                // one new position for each sequence
  std::vector<Memory> self_, memory_;  // of each layer: [sequences, capacity, K | V]; [memory rows, K | V]
  std::vector<int> memory_rows_;       // of each layer
  Memory chosen_;                      // select() writes here, and swaps
};

struct MultiHeadAttentionOptions {
  double dropout = 0;  // of the attention weights
  bool bias = true;    // of the projections
  int n_kv_heads = 0;  // divides the heads; 0: as many
  // The widths of the inputs of K and V, if they differ from d_model. K and V then have projections of their own,
  // k_proj and v_proj, and only the call with three inputs is possible.
  int k_dim = 0, v_dim = 0;
};

struct MultiHeadAttention {
  MultiHeadAttention(const Scope& s, int width, int heads, const MultiHeadAttentionOptions& options = {})
      : d_model(width),
        n_heads(heads),
        kv_width(width_of_keys(s, width, heads, options.n_kv_heads)),
        in_proj(s / "in_proj", width, width + (options.k_dim + options.v_dim != 0 ? 0 : 2 * kv_width),
                {.bias = options.bias, .init = init_xavier_uniform(1, options.k_dim + options.v_dim != 0 ? 1 : 3)}),
        out_proj(s / "out_proj", width, width, {.bias = options.bias}),
        dropout(options.dropout),
        name(s.region()) {
    if (options.k_dim + options.v_dim == 0) return;
    const auto input = [&](int columns) { return columns != 0 ? columns : width; };
    k_proj.emplace(s / "k_proj", input(options.k_dim), kv_width, LinearOptions{.bias = options.bias});
    v_proj.emplace(s / "v_proj", input(options.v_dim), kv_width, LinearOptions{.bias = options.bias});
  }

  // Self-attention within each sequence of x [rows, d_model]. With a cache and causal mask, it continues those cached.
  Tensor operator()(const Tensor& x, Offsets rows, const Mask& mask = Mask::none(), LayerCache cache = {},
                    const AttentionPositions& positions = {}) const {
    const Region here(name);
    const Tensor qkv = in_proj(x);  // [rows, d_model + 2 kv_width]
    Columns q(qkv, 0, d_model);
    KeysValues kv{Columns(qkv, d_model, kv_width), Columns(qkv, d_model + kv_width, kv_width), rows, mask};
    if (positions.rotary.defined()) {
      const int turned_heads = (d_model + kv_width) / (d_model / n_heads);
      const Tensor turned =
          rotary(Columns(qkv, 0, d_model + kv_width), turned_heads, positions.rotary, positions.ids, positions.pairs);
      q = Columns(turned, 0, d_model);
      kv.k = Columns(turned, d_model, kv_width);
    }
    return here(attend(q, rows, cache ? cache.append(kv) : kv, positions));
  }

  // Cross-attention: each sequence of x attends to the sequence with the same index in the memory
  // [memory_rows, d_model]. With a cache, only the first call projects the memory.
  Tensor operator()(const Tensor& x, Offsets rows, const Tensor& memory, Offsets memory_rows, LayerCache cache = {},
                    const Mask& mask = Mask::none()) const {
    const Region here(name);
    const auto project_memory = [&] { return project(memory, d_model, d_model + 2 * kv_width); };
    const Tensor kv = cache ? cache.memory(project_memory) : project_memory();  // [memory_rows, 2 kv_width]
    return here(attend(project(x, 0, d_model), cache ? cache.source_rows(rows) : rows,
                       {Columns(kv, 0, kv_width), Columns(kv, kv_width, kv_width), memory_rows, mask}));
  }

  // The same with keys [k_rows, k_dim] and values [k_rows, v_dim] of different inputs.
  Tensor operator()(const Tensor& query, Offsets rows, const Tensor& key, const Tensor& value, Offsets k_rows,
                    const Mask& mask = Mask::none(), const AttentionPositions& positions = {}) const {
    const Region here(name);
    const Tensor k = k_proj ? (*k_proj)(key) : project(key, d_model, d_model + kv_width);
    const Tensor v = v_proj ? (*v_proj)(value) : project(value, d_model + kv_width, d_model + 2 * kv_width);
    return here(attend(project(query, 0, d_model), rows, {k, v, k_rows, mask}, positions));
  }

  int d_model, n_heads;
  int kv_width;  // columns of K, and of V
  Linear in_proj, out_proj;
  std::optional<Linear> k_proj, v_proj;
  double dropout;
  RegionName name;

 private:
  static int width_of_keys(const Scope& s, int width, int heads, int kv_heads) {
    check<ArgumentError>(heads > 0 && width % heads == 0, "attention: d_model ", width, " is not a multiple of ", heads,
                         " heads (", s.path(), ")");
    check<ArgumentError>(kv_heads >= 0 && (kv_heads == 0 || heads % kv_heads == 0), "attention: ", heads,
                         " heads are not a multiple of ", kv_heads, " of keys and values (", s.path(), ")");
    return kv_heads == 0 ? width : width / heads * kv_heads;
  }
  // The projection by rows begin .. end-1 of the stacked weight.
  Tensor project(const Tensor& x, int begin, int end) const {
    return linear(x, slice(in_proj.weight, 0, begin, end),
                  in_proj.bias.defined() ? slice(in_proj.bias, 0, begin, end) : Tensor());
  }
  Tensor attend(const Columns& q, Offsets rows, const KeysValues& kv, const AttentionPositions& positions = {}) const {
    return out_proj(attention(q, kv.k, kv.v, n_heads, rows, kv.rows,
                              {.mask = kv.mask,
                               .dropout = dropout,
                               .bias = positions.bias,
                               .slopes = positions.slopes,
                               .positions = positions.ids}));
  }
};

}  // namespace SEPPO_ABI
}  // namespace seppo
