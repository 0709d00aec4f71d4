// The catalogue of operations: every op, its shapes and its formula.
//
// All ops compute at once and record their gradient on the current tape (tape.h). Results are new
// tensors of the tape; inputs are never changed. Shapes that do not fit throw ShapeError, indices out
// of range IndexError, scalars out of range ArgumentError. Names and meanings are PyTorch's where it
// has the op. Second derivatives are not supported: gradients are numbers, not tensors on the tape.
#pragma once

#include <seppo/autograd/mask.h>
#include <seppo/autograd/tape.h>
#include <seppo/autograd/tensor.h>

#include <initializer_list>
#include <limits>
#include <span>

namespace seppo::inline SEPPO_ABI {

// ---- making tensors ------------------------------------------------------------------------------

Tensor zeros(const Shape& shape);
Tensor full(const Shape& shape, real value);
// Copies `values`, row-major. Throws ShapeError when the counts differ.
Tensor tensor(const Shape& shape, std::span<const real> values);
Tensor tensor(const Shape& shape, std::initializer_list<real> values);
// The same as a leaf: backward adds up its gradient, to be read with gradient().
Tensor variable(const Shape& shape, std::span<const real> values);

// ---- elementwise, with NumPy broadcasting --------------------------------------------------------
// Axes are aligned at the end; an axis of size 1 repeats.

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }

Tensor scale(const Tensor& x, real factor);  // factor x
Tensor relu(const Tensor& x);                // max(x, 0); relu'(0) = 0
Tensor gelu(const Tensor& x);                // x Phi(x), exact (Hendrycks and Gimpel 2016)
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);  // 1 / (1 + e^-x)
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);  // log(0) = -inf, log of a negative number NaN

// Zeroes each element with probability p and divides the rest by 1 - p; the identity in eval mode
// (Srivastava et al. 2014). The mask is a function of tape().random and is recomputed by backward,
// not stored. Throws ArgumentError unless 0 <= p <= 1.
Tensor dropout(const Tensor& x, double p);

// ---- products ------------------------------------------------------------------------------------

// [..., m, k] x [..., k, n] -> [..., m, n]; leading axes broadcast.
Tensor matmul(const Tensor& a, const Tensor& b);

enum class Activation { none, relu, gelu };
// y = activation(x W^T + b): x [..., in], W [out, in], b [out] or empty -> [..., out].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Activation activation = Activation::none);

// ---- rows ----------------------------------------------------------------------------------------

// e^x / sum e^x along an axis. A slice that is -inf throughout gives zeros.
Tensor softmax(const Tensor& x, int axis = -1);
// x [..., queries, keys]: softmax over the allowed keys; each leading index is one sequence.
Tensor softmax(const Tensor& x, const Mask& mask);
Tensor log_softmax(const Tensor& x, int axis = -1);  // x - log sum e^x

// gain (x - mean) / sqrt(variance + epsilon) + bias over the last axis, with the biased variance
// (Ba, Kiros and Hinton 2016). x [..., n], gain and bias [n].
Tensor layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, double epsilon = 1e-5);

// The "Add & Norm" of a Transformer in one pass, and without storing the steps between:
// dropout(layer_norm(x + dropout(y, before), gain, bias, epsilon), after). x and y have equal shapes.
struct AddNormOptions {
  double epsilon = 1e-5;
  double dropout_before = 0, dropout_after = 0;
};
Tensor add_norm(const Tensor& x, const Tensor& y, const Tensor& gain, const Tensor& bias,
                const AddNormOptions& options = {});
// x + dropout(y, p), likewise.
Tensor add_dropout(const Tensor& x, const Tensor& y, double p);

// ---- attention -----------------------------------------------------------------------------------

// Columns [first, first + count) of a matrix: addresses Q, K and V within one stacked projection
// without copying. A Tensor converts to all of its columns.
struct Columns {
  Columns(const Tensor& matrix) : matrix(matrix), first(0), count(matrix.dim(-1)) {}
  Columns(const Tensor& matrix, int first, int count) : matrix(matrix), first(first), count(count) {}
  Tensor matrix;
  int first, count;
};

// Where the rows of a ragged batch begin: sequence s has rows offsets[s] .. offsets[s+1]-1. Starts
// with 0, does not decrease, and ends with the number of rows.
using Offsets = std::span<const int>;

struct AttentionOptions {
  Mask mask = Mask::none();
  double dropout = 0;  // of the weights, like dropout(); in train mode only
  // If set, receives the weights before dropout, [sequences, heads, max queries, max keys], zero beyond
  // a sequence's own; they carry no gradient.
  Tensor* weights = nullptr;
};
// softmax(Q K^T / sqrt(d / heads)) V for each sequence and head (Vaswani et al. 2017, 3.2).
// Q [q_rows, d], K and V [k_rows, d]: sequences one after another, heads side by side in the columns.
// Memory grows with the rows, not with their square.
Tensor attention(const Columns& q, const Columns& k, const Columns& v, int n_heads, Offsets q_offsets,
                 Offsets k_offsets, const AttentionOptions& options = {});
// The same for rectangular batches: Q [sequences, queries, d], K and V [sequences, keys, d].
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, int n_heads, const AttentionOptions& options = {});

// ---- indices -------------------------------------------------------------------------------------

struct EmbeddingOptions {
  real scale = 1;
  Tensor positions = {};  // [max_positions, d]; none when empty
  std::span<const int> position_ids = {};
};
// y_i = scale table[ids_i] (+ positions[position_ids_i]): table [vocabulary, d] -> [ids, d].
Tensor embedding(const Tensor& table, std::span<const int> ids, const EmbeddingOptions& options = {});

// ---- losses --------------------------------------------------------------------------------------

enum class Reduction { mean, sum };
struct CrossEntropyOptions {
  double label_smoothing = 0;                           // this share of the target is spread evenly over all classes
  int ignored_index = std::numeric_limits<int>::min();  // rows with this target do not count
  Reduction reduction = Reduction::mean;
};
// -log softmax(logits)[target], over rows: logits [..., classes], one target for each row -> scalar.
// The mean is over the rows that count; with none of them the loss is 0.
Tensor cross_entropy(const Tensor& logits, std::span<const int> targets, const CrossEntropyOptions& options = {});

// ---- reductions ----------------------------------------------------------------------------------

Tensor sum(const Tensor& x);                                   // of all elements -> scalar
Tensor sum(const Tensor& x, int axis, bool keep_dim = false);  // the sum of nothing is 0
Tensor mean(const Tensor& x);                                  // throws ShapeError for no elements
Tensor mean(const Tensor& x, int axis, bool keep_dim = false);

// ---- shapes --------------------------------------------------------------------------------------

// The same values in another shape; shares storage and gradient. One size may be -1: inferred.
Tensor reshape(const Tensor& x, std::initializer_list<int> sizes);
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor transpose(const Tensor& x, int axis_a = -2, int axis_b = -1);  // copies
Tensor permute(const Tensor& x, std::initializer_list<int> axes);     // y's axis i is x's axis axes[i]; copies
// Elements begin .. end-1 of an axis. Along the first axis it shares storage, else it copies.
Tensor slice(const Tensor& x, int axis, int begin, int end);
Tensor concat(std::span<const Tensor> tensors, int axis = 0);
Tensor concat(std::initializer_list<Tensor> tensors, int axis = 0);

}  // namespace seppo::inline SEPPO_ABI
