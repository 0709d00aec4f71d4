// The same attention, computed in several ways: as a course builds it up, loop by loop.
#pragma once

#include <seppo/nn/modules/multi_head_attention.h>

#include <span>
#include <vector>

namespace attention_lab {

using seppo::Tensor;

// softmax(q k^T / sqrt(d)) v for one sequence, q, k, v [length, d], with a loop over queries and one over keys.
Tensor two_loops(const Tensor& q, const Tensor& k, const Tensor& v);

// The same two loops for a batch, [batch, length, d]: each step works on the whole batch.
Tensor two_loops_for_a_batch(const Tensor& q, const Tensor& k, const Tensor& v);

// No loop: two batched products. It stores the scores, [batch, length, length].
Tensor no_loop(const Tensor& q, const Tensor& k, const Tensor& v);

// seppo's own op, which stores no scores.
Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v, int n_heads = 1);

// Multi-head self-attention with the weights of `attention`, x [batch, length, d_model]: a projection and an
// attention for each head, one after another.
Tensor separate_heads(const seppo::MultiHeadAttention& attention, const Tensor& x);

// The same as the module computes it: one product for all heads' queries, keys and values.
Tensor stacked_heads(const seppo::MultiHeadAttention& attention, const Tensor& x);

}  // namespace attention_lab
