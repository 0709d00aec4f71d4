// MultiHeadAttention (Vaswani et al. 2017, 3.2.2).
//
//   const MultiHeadAttention attention(parameters.root() / "attention", /*d_model=*/8, /*n_heads=*/2);
//   const Tensor y = attention(x, {0, 3, 5}, {.mask = Mask::causal()});  // two sequences, of three and two rows
//
// The projections of Q, K and V are one stacked weight [3 d_model, d_model], as in PyTorch's nn.MultiheadAttention:
// self-attention computes all three in one product; cross-attention uses the first third for the queries and the rest
// for the keys and values of the memory. With fewer heads of keys and values than of queries (n_kv_heads; Ainslie et
// al. 2023) it is [d_model + 2 kv_width, d_model], and [q_width + 2 kv_width, d_model] if heads have a width of their
// own. To see the weights: AttentionRecorder (autograd/tools).
#pragma once

#include "../../autograd/core/region.h"
#include "kv_cache.h"
#include "layer_norm.h"
#include "linear.h"
#include "positional_encoding.h"

#include <cstddef>
#include <optional>

namespace seppo {
inline namespace SEPPO_ABI {

// Norms of queries and keys before they are rotated.
enum class QkNorm {
  none,
  head,  // of each head by itself (Dehghani et al. 2023), with weights that all heads share
  width  // of all heads together
};

struct MultiHeadAttentionOptions {
  double dropout = 0;  // of the attention weights
  bool bias = true;    // of the projections
  int n_kv_heads = 0;  // divides the heads; 0: as many
  double softcap = 0;  // keeps the scores within -softcap .. softcap, see AttentionOptions; 0: no cap
  // The widths of the inputs of K and V, if they differ from d_model. K and V then have projections of their own,
  // k_proj and v_proj, and only the call with three inputs is possible.
  int k_dim = 0, v_dim = 0;
  std::optional<bool> out_bias = {};  // of the output's projection, if that differs from `bias`
  int head_width = 0;                 // columns of a head; 0: d_model / n_heads
  double scale = 0;                   // of the products of queries and keys; 0: 1 / sqrt(columns of a head)
  int window = 0;                     // of the positions up to its own, a query sees the last ones; 0: all
  QkNorm qk_norm = QkNorm::none;
  LayerNormOptions qk_norm_options = {};
};

// The optional inputs of a call.
struct AttentionExtras {
  Mask mask = Mask::none();
  KeyValueCache* cache = nullptr;     // to continue cached sequences, of which x has the new positions only
  std::size_t layer = 0;              // of the cache
  AttentionPositions positions = {};  // of the rows of x; PositionalEncoding::for_attention makes them
  Tensor bias = {};  // added to the scores, see AttentionOptions; with a cache, [.., new queries, positions so far]
};

struct MultiHeadAttention {
  MultiHeadAttention(const Scope& s, int d_model, int n_heads, const MultiHeadAttentionOptions& options = {});

  // Self-attention within each sequence of x [rows, d_model]. With a cache, the mask must be causal.
  Tensor operator()(const Tensor& x, Offsets offsets, const AttentionExtras& extras = {}) const;

  // Cross-attention: each sequence of x attends to the sequence with the same index in the memory
  // [memory rows, d_model]. With a cache, only the first call projects the memory. Throws ArgumentError for rotary
  // positions.
  Tensor operator()(const Tensor& x, Offsets offsets, const Tensor& memory, Offsets memory_offsets,
                    const AttentionExtras& extras = {}) const;

  // The same with keys [k rows, k_dim] and values [k rows, v_dim] of different inputs. Throws ArgumentError for rotary
  // positions and for a cache.
  Tensor operator()(const Tensor& query, Offsets offsets, const Tensor& key, const Tensor& value, Offsets k_offsets,
                    const AttentionExtras& extras = {}) const;

  int d_model, n_heads;
  int q_width;   // columns of Q
  int kv_width;  // columns of K, and of V
  Linear in_proj, out_proj;
  std::optional<LayerNorm> q_norm, k_norm;  // with QkNorm, for self-attention
  std::optional<Linear> k_proj, v_proj;
  double dropout, softcap, scale;
  int window;
  RegionName name;

 private:
  Columns prepared(const Columns& x, const std::optional<LayerNorm>& norm, const AttentionPositions& positions) const;
  Tensor project(const Tensor& x, int begin, int end) const;
  Tensor attend(const Columns& q, Offsets offsets, const KeysValues& kv, const AttentionExtras& extras) const;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
