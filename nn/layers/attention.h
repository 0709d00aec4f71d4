// MultiHeadAttention (Vaswani et al. 2017, 3.2.2).
//
// The projections of Q, K and V are one stacked weight [3 d_model, d_model], as in PyTorch's
// nn.MultiheadAttention: self-attention computes all three in one product, cross-attention uses its
// first third for the queries and the rest for the keys and values of the memory.
#pragma once

#include "linear.h"

namespace seppo::inline SEPPO_ABI {

struct MultiHeadAttention {
  // `dropout` is that of the attention weights.
  MultiHeadAttention(const Scope& s, int d_model, int n_heads, double dropout = 0, bool has_bias = true)
      : in_proj(s / "in_proj", d_model, 3 * d_model, init_xavier_uniform(1, 3), has_bias),
        out_proj(s / "out_proj", d_model, d_model, init_xavier_uniform(), has_bias),
        d_model(d_model),
        n_heads(n_heads),
        dropout(dropout),
        name(s.region()) {
    check<ArgumentError>(n_heads > 0 && d_model % n_heads == 0, "attention: d_model ", d_model,
                         " is not a multiple of ", n_heads, " heads (", s.path(), ")");
  }

  // Self-attention within each sequence. x [rows, d_model]. `weights`: see AttentionOptions in ops.h.
  Tensor operator()(const Tensor& x, Offsets rows, const Mask& mask = Mask::none(), Tensor* weights = nullptr) const {
    const Region here(name);
    const Tensor qkv = in_proj(x);  // [rows, 3 d_model]
    return here(out_proj(attention(Columns(qkv, 0, d_model), Columns(qkv, d_model, d_model),
                                   Columns(qkv, 2 * d_model, d_model), n_heads, rows, rows, {mask, dropout, weights})));
  }

  // Each sequence of x attends the sequence of the same index in the memory.
  Tensor operator()(const Tensor& x, Offsets rows, const Tensor& memory, Offsets memory_rows,
                    const Mask& mask = Mask::none(), Tensor* weights = nullptr) const {
    const Region here(name);
    return here(attend(queries(x), rows, keys_values(memory), memory_rows, mask, weights));
  }

  // The steps of cross-attention, for decoding with cached keys and values.
  Tensor queries(const Tensor& x) const {  // [rows, d_model]
    return project(x, 0, d_model);
  }
  Tensor keys_values(const Tensor& memory) const {  // [memory_rows, 2 d_model]: K, then V
    return project(memory, d_model, 3 * d_model);
  }
  Tensor attend(const Columns& q, Offsets rows, const Tensor& kv, Offsets kv_rows, const Mask& mask,
                Tensor* weights = nullptr) const {
    return out_proj(attention(q, Columns(kv, 0, d_model), Columns(kv, d_model, d_model), n_heads, rows, kv_rows,
                              {mask, dropout, weights}));
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
};

}  // namespace seppo::inline SEPPO_ABI
