// Attention over ragged and rectangular batches, its scores, and rotary positions; part of the catalogue, ops.h.
#pragma once

#include "../core/list.h"
#include "../core/tensor.h"
#include "mask.h"

#include <span>

namespace seppo {
inline namespace SEPPO_ABI {

// Columns [first, first + count) of a matrix: addresses Q, K and V within one stacked projection
// without copying. A Tensor converts to all of its columns.
struct Columns {
  Columns(const Tensor& x) : matrix(x), first(0), count(x.size(-1)) {}
  Columns(const Tensor& x, int begin, int size) : matrix(x), first(begin), count(size) {}
  Tensor matrix;
  int first, count;
};

// Where the rows of a ragged batch begin: sequence s has rows offsets[s] .. offsets[s+1]-1. Starts
// with 0, does not decrease, and ends with the number of rows.
using Offsets = List<int>;

struct AttentionOptions {
  Mask mask = Mask::none();
  double dropout = 0;  // of the weights, like dropout(); in train mode only
  // Added to the scores: [queries, keys], [heads, queries, keys] or [sequences, heads, queries, keys], where sequences
  // and heads may be 1; each sequence uses the first rows and columns of its matrix. Columns for the most valid keys of
  // a sequence are enough. -inf forbids a key.
  Tensor bias = {};
  // ALiBi (Press et al. 2021): -slopes[head] |position of the query - position of the key| is added to the scores. A
  // sequence's keys have positions 0, 1, 2 ...; its query i has position i + keys - queries, unless `positions`, one
  // for each row of Q, says otherwise.
  std::span<const real> slopes = {};
  std::span<const int> positions = {};
  // Keeps each score within -softcap .. softcap, as softcap tanh(score / softcap), before a bias or ALiBi is added
  // (Gemma 2, 2024); 0: no cap.
  double softcap = 0;
  double scale = 0;  // of Q K^T; 0: 1 / sqrt(width)
  // Of the keys that the mask lets a query attend to when only causality and valid lengths count, it attends to the
  // last `window` (sliding windows; Beltagy et al. 2020); 0: to all. Of long sequences, the others cost next to
  // nothing.
  int window = 0;
};
// softmax(scale Q K^T + bias) V for each sequence and head (Vaswani et al. 2017, 3.2).
// Q [q_rows, n_heads width], K [k_rows, n_kv_heads width], V [k_rows, n_kv_heads v_width] -> [q_rows, n_heads v_width]:
// sequences one after another, heads side by side in the columns. K and V have as many heads as Q, or fewer, each
// shared by n_heads / n_kv_heads consecutive heads of Q (grouped-query attention, Ainslie et al. 2023).
// Long sequences take memory for their rows, not for (query, key) pairs; only short ones, of up to 300 elements a
// head, keep their weights. AttentionRecorder (tools) shows the weights.
// A NaN or infinity in V reaches every query of its sequence, also one whose mask or bias forbids that key, since its
// weight is 0 and 0 NaN is NaN; beyond the valid lengths nothing is read.
Tensor attention(const Columns& q, const Columns& k, const Columns& v, int n_heads, Offsets q_offsets,
                 Offsets k_offsets, const AttentionOptions& options = {});
// The same for rectangular batches: Q [sequences, queries, columns], K and V [sequences, keys, columns].
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, int n_heads, const AttentionOptions& options = {});
// The same with an axis for heads, as in PyTorch: Q [sequences, n_heads, queries, width], K [sequences, n_kv_heads,
// keys, width], V [sequences, n_kv_heads, keys, v_width] -> [sequences, n_heads, queries, v_width]. Nothing is copied.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

// The scores that attention(q, k, v, ...) of a rectangular batch takes the softmax of, scale Q K^T, capped,
// plus bias and ALiBi -> [sequences, heads, queries, keys]: softmax(scores, mask) are its weights, differentiable ones.
// Takes memory for each pair. Throws ArgumentError for a mask, a window
// or dropout, which do not act on scores.
Tensor attention_scores(const Tensor& q, const Tensor& k, int n_heads, const AttentionOptions& options = {});

// Rotary positions (Su et al. 2021): rotates pair i of each head's columns by the angle of the row's position,
// (a, b) -> (a cos - b sin, a sin + b cos), so that the product of two rows depends on the distance of their positions.
enum class RotaryPairs {
  interleaved,  // columns 2i and 2i + 1: the paper, llama2.c
  halves        // columns i and i + width / 2: Hugging Face's LLaMA
};
// x [rows, n_heads width] -> the same shape; row r has position positions[r]. The table [positions, turned] has the
// cosine of pair i's angle in column 2i, its sine in column 2i + 1 (PositionalEncoding makes it); no gradient. Its
// width is that of a head or less: then the first columns of each head are turned, in pairs among themselves, and the
// others stay as they are (GPT-NeoX, 2022).
Tensor rotary(const Columns& x, int n_heads, const Tensor& table, std::span<const int> positions,
              RotaryPairs pairs = RotaryPairs::interleaved);

}  // namespace SEPPO_ABI
}  // namespace seppo
