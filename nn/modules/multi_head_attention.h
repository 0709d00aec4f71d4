// MultiHeadAttention (Vaswani et al. 2017, 3.2.2).
//
// The projections of Q, K and V are one stacked weight [3 d_model, d_model], as in PyTorch's nn.MultiheadAttention:
// self-attention computes all three in one product; cross-attention uses the first third for the queries and the rest
// for the keys and values of the memory. With fewer heads of keys and values than of queries (n_kv_heads; Ainslie et
// al. 2023) it is [d_model + 2 kv_width, d_model]. To see the weights: AttentionRecorder (autograd/tools).
#pragma once

#include "../../autograd/core/region.h"
#include "kv_cache.h"
#include "linear.h"
#include "positional_encoding.h"

#include <optional>

namespace seppo {
inline namespace SEPPO_ABI {

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
