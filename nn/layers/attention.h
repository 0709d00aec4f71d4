// MultiHeadAttention (Vaswani et al. 2017, 3.2.2).
//
// The projections of Q, K and V are one stacked weight [3 d_model, d_model], as in PyTorch's nn.MultiheadAttention:
// self-attention computes all three in one product; cross-attention uses the first third for the queries and the rest
// for the keys and values of the memory. To see the weights: AttentionRecorder (autograd/tools).
#pragma once

#include "kv_cache.h"
#include "linear.h"

namespace seppo::inline SEPPO_ABI {

struct MultiHeadAttentionOptions {
  double dropout = 0;  // of the attention weights
  bool bias = true;    // of the projections
};

struct MultiHeadAttention {
  MultiHeadAttention(const Scope& s, int width, int heads, const MultiHeadAttentionOptions& options = {})
      : in_proj(s / "in_proj", width, 3 * width, {.bias = options.bias, .init = init_xavier_uniform(1, 3)}),
        out_proj(s / "out_proj", width, width, {.bias = options.bias}),
        d_model(width),
        n_heads(heads),
        dropout(options.dropout),
        name(s.region()) {
    check<ArgumentError>(n_heads > 0 && d_model % n_heads == 0, "attention: d_model ", d_model,
                         " is not a multiple of ", n_heads, " heads (", s.path(), ")");
  }

  // Self-attention within each sequence of x [rows, d_model]. With a cache, x continues the cached sequences, and the
  // mask must be causal.
  Tensor operator()(const Tensor& x, Offsets rows, const Mask& mask = Mask::none(), LayerCache cache = {}) const {
    const Region here(name);
    const Tensor qkv = in_proj(x);  // [rows, 3 d_model]
    const KeysValues kv{Columns(qkv, d_model, 2 * d_model), rows, mask};
    return here(attend(Columns(qkv, 0, d_model), rows, cache ? cache.append(kv) : kv));
  }

  // Cross-attention: each sequence of x attends the sequence of the same index in the memory [memory_rows, d_model].
  // With a cache, the memory is projected by the first call only.
  Tensor operator()(const Tensor& x, Offsets rows, const Tensor& memory, Offsets memory_rows, LayerCache cache = {},
                    const Mask& mask = Mask::none()) const {
    const Region here(name);
    const auto project_memory = [&] { return project(memory, d_model, 3 * d_model); };  // [memory_rows, 2 d_model]
    const Tensor kv = cache ? cache.memory(project_memory) : project_memory();
    return here(attend(project(x, 0, d_model), cache ? cache.source_rows(rows) : rows, {kv, memory_rows, mask}));
  }

  Linear in_proj, out_proj;
  int d_model, n_heads;
  double dropout;
  RegionName name;

 private:
  // By rows begin .. end-1 of the stacked weight.
  Tensor project(const Tensor& x, int begin, int end) const {
    return linear(x, slice(in_proj.weight, 0, begin, end),
                  in_proj.bias.defined() ? slice(in_proj.bias, 0, begin, end) : Tensor());
  }
  Tensor attend(const Columns& q, Offsets rows, const KeysValues& kv) const {
    const Columns k(kv.columns.matrix, kv.columns.first, d_model), v(k.matrix, k.first + d_model, d_model);
    return out_proj(attention(q, k, v, n_heads, rows, kv.rows, {kv.mask, dropout}));
  }
};

}  // namespace seppo::inline SEPPO_ABI
