// Loops over raw pointers, vectorised with Google Highway and dispatched at run time to AVX-512,
// AVX2, NEON or plain code. Nothing here knows a Tensor.
//
// Outputs come first. `dx` is the gradient of x. Where a kernel takes `beta`, it writes
// dx = beta * dx + term, and with beta = 0 the memory may be uninitialised (beta is 0 or 1); other
// gradients are added to. Matrices are row-major; ld* is the distance between rows.
#pragma once

#include "../core/kernel.h"
#include "../core/random.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels {

// ---- elementwise --------------------------------------------------------------------------------

// y = f(x); dx = beta dx + dy f'(x), from x and y = f(x); dx may be dy. NaN in gives NaN out, except relu's gradient,
// which is 0 at NaN.
struct Unary {
  void (*forward)(real* y, const real* x, std::size_t n);
  void (*backward)(real* dx, real beta, const real* dy, const real* x, const real* y, std::size_t n);
};
struct UnaryTable {
  Unary relu, gelu, gelu_tanh, silu, tanh, sigmoid, softplus, erf, exp;
};
extern Kernel<const UnaryTable&()> unary;

// ---- arrays -------------------------------------------------------------------------------------

extern Kernel<void(real* y, real beta, const real* x, real factor, std::size_t n)> axpy;  // y = beta y + factor x
extern Kernel<void(real* y, const real* a, const real* b, std::size_t n)> add;            // y = a + b
inline void scale(real* y, const real* x, real factor, std::size_t n) { axpy(y, 0, x, factor, n); }
extern Kernel<void(double* sums, const real* x, real factor, std::size_t n)> axpy_wide;  // sums += factor x
// Where more terms than this meet in one sum, they are added in blocks of so many, or in double precision: each
// addition to a float rounds to the sum so far, and a million of them lose three digits.
constexpr std::size_t kMostTerms = 512;
// sums += 1^T x
extern Kernel<void(real* sums, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols)> add_column_sums;
using FromRowsToRows = void(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows,
                            std::size_t cols);
extern Kernel<FromRowsToRows> copy_rows;                           // y = x
extern Kernel<FromRowsToRows> add_rows;                            // y += x
extern Kernel<double(const real* x, std::size_t n)> sum;           // accumulated in double
extern Kernel<double(const real* x, std::size_t n)> squared_norm;  // sum x^2, accumulated in double

// ---- rows ---------------------------------------------------------------------------------------

// The largest element for sign 1, the smallest for -1; NaN if there is one.
extern Kernel<real(const real* x, real sign, std::size_t n)> max_or_min;

// y_j = exp(x_j - max x) / sum over the first `count` elements; the rest of the n become 0.
extern Kernel<void(real* y, const real* x, std::size_t count, std::size_t n)> softmax_row;
// dx_j = beta dx_j + y_j (dy_j - sum_k dy_k y_k)
extern Kernel<void(real* dx, real beta, const real* dy, const real* y, std::size_t n)> softmax_row_backward;
// logsumexp = max + log_sum, kept apart: in max + log_sum the small term would be rounded away for large logits.
// below: the sum of x_j - max.
struct LogSumExp {
  real max, log_sum;
  double below;
};
extern Kernel<LogSumExp(const real* x, std::size_t n)> log_sum_exp;
// dx_j = beta dx_j + dy_j - exp(y_j) sum_k dy_k
extern Kernel<void(real* dx, real beta, const real* dy, const real* y, std::size_t n)> log_softmax_row_backward;

// dx_j = beta dx_j + scale (exp(x_j - log_sum_exp) - uniform)
extern Kernel<void(real* dx, real beta, const real* x, const LogSumExp& sum, real uniform, real scale, std::size_t n)>
    log_sum_exp_backward;

// ---- dropout ------------------------------------------------------------------------------------

// A dropout; none with p = 0. Element i is kept if its 16 bits of Philox4x32-10 are not below p 2^16: of each
// 128 elements, element 32 w + 16 h + l has half h (0 is the lower) of word w of block 16 (i / 128) + l. The
// counter is (block, sample, step, purpose and site).
struct Dropping {
  double p = 0;
  RandomContext key = {};
};
// Elements [first, last), first a multiple of 128: y = beta y + x / (1 - p) where kept, else + 0
extern Kernel<void(real* y, real beta, const real* x, const Dropping& dropping, std::size_t first, std::size_t last)>
    dropout;

// ---- norms --------------------------------------------------------------------------------------

// out = dropout(gain x_hat + bias), x_hat the normalised rows of x, or of x + dropout(y), from `first` to before
// `last`.
struct NormInputs {
  const real *x, *y, *gain, *bias;  // y and bias may be null
  std::size_t first, last, cols;
  bool is_centred;                   // the mean is subtracted: layer norm; else RMS norm
  Dropping before = {}, after = {};  // of y and of the result
};
// What backward needs of a row: x_hat = ((x - center) - shift) * rstd. The mean is center + shift: split
// in two, so that subtracting it from values much larger than their spread loses nothing.
struct RowMoments {
  real center, shift, rstd;
};
constexpr std::size_t kNormRows = 8;  // interleaved, so that one row's dependent sums hide behind the others'.
constexpr std::size_t norm_scratch(std::size_t cols) { return (2 * kNormRows + 1) * cols; }  // elements
extern Kernel<void(real* out, RowMoments* moments, const NormInputs& in, double eps, real* scratch)> normalise;
// Any may be null; dgain and dbias are added to.
struct NormGradients {
  real* dx;
  real beta_x;
  real* dy;
  real beta_y;
  real *dgain, *dbias;
};
extern Kernel<void(const NormGradients& gradients, const real* dout, const NormInputs& in, const RowMoments* moments,
                   real* scratch)>
    normalise_backward;

// Batch norm: the columns of x [rows, cols], in double precision: x_hat = (x - mean) scale, y = gain x_hat + bias.
struct ColumnNorm {
  const real *x, *gain, *bias;
  const double *mean, *scale;
  std::size_t rows, cols;
};
// squares: the sums of the squared differences from the means.
extern Kernel<void(double* mean, double* squares, const real* x, std::size_t rows, std::size_t cols)> column_moments;
extern Kernel<void(real* y, const ColumnNorm& in)> column_norm;
// sums += 1^T dy; along += 1^T (dy x_hat)
extern Kernel<void(double* sums, double* along, const real* dy, const ColumnNorm& in)> column_norm_sums;
// dx += gain scale (dy - sums - x_hat along)
extern Kernel<void(real* dx, const real* dy, const double* sums, const double* along, const ColumnNorm& in)>
    column_norm_backward;

// ---- attention ----------------------------------------------------------------------------------

// Causal attention: the last query may attend all keys, the one before it all but the last, and so on.
inline std::size_t causal_keys(std::size_t query, std::size_t queries, std::size_t keys) {
  return std::max(query + 1 + keys, queries) - queries;
}

// The first of the last `window` keys before `end`; 0: all of them.
inline std::size_t window_begin(std::size_t end, std::size_t window) {
  return window > 0 && end > window ? end - window : 0;
}

// What a head reads: columns of a wider matrix, whose rows are `stride` elements apart. No default values: arrays of
// heads are filled later.
struct HeadInput {
  const real* data;
  real* gradient;  // in backward, which adds to it, with the same stride; may be null
  std::size_t stride;

  HeadInput from(std::size_t element) const {
    return {data ? data + element : nullptr, gradient ? gradient + element : nullptr, stride};
  }
};
struct HeadOutput {
  real* data;
  const real* gradient;  // in backward
  std::size_t stride;

  HeadOutput from(std::size_t element) const {
    return {data + element, gradient ? gradient + element : nullptr, stride};
  }
};

// One head of one sequence: out[queries, v_width] = softmax(scale q k^T + bias) v, the softmax over the allowed
// keys. A query that may attend nothing gives zeros. Keys from valid_keys on are never read.
struct AttentionHead {
  HeadInput q, k, v;
  HeadOutput out;
  std::size_t queries, keys, width, v_width;  // width: of q and k
  std::size_t valid_keys;
  bool causal;  // query i may attend keys up to i + keys - queries
  real scale;
  // The rest is for long sequences only.
  const std::uint8_t* allowed;  // [queries, keys], or null: all allowed
  real softcap;                 // of scores before the bias, softcap tanh(score / softcap); 0: none
  HeadInput bias;               // [queries, keys], may be null
  real slope;                   // the bias is also -slope |position of the query - key|
  const int* positions;         // of the queries; null: i + keys - queries
  std::size_t window;           // of the keys that causality leaves to a query, it sees the last ones; 0: all

  // How many keys, from the first, a query may attend, but for those not `allowed`.
  std::size_t attended(std::size_t query) const {
    return causal ? std::min(valid_keys, causal_keys(query, queries, keys)) : valid_keys;
  }
  // The first of them that it may attend.
  std::size_t first_attended(std::size_t query) const { return window_begin(attended(query), window); }
  bool has_bias() const { return bias.data || slope != 0; }
  real bias_of(std::size_t query, std::size_t key) const {
    const real given = bias.data ? bias.data[query * bias.stride + key] : real{0};
    const int position = positions ? positions[query] : static_cast<int>(query + keys - queries);
    return given - slope * static_cast<real>(std::abs(position - static_cast<int>(key)));
  }
};

// Short sequences: a group of heads is computed side by side, one in each lane of the vectors. `saved`
// goes from forward to backward.
extern Kernel<std::size_t()> attention_group_size;              // heads
constexpr std::size_t kMostAttentionLanes = 64 / sizeof(real);  // of any instruction set
struct AttentionGroup {
  const AttentionHead* heads;
  std::size_t size;
  std::size_t queries, keys;  // the most of any head
  bool keeps_inputs;          // in `saved`, already side by side; else backward gathers them again
};
using SizeOfGroup = std::size_t(const AttentionGroup& group);  // in elements
extern Kernel<SizeOfGroup> short_attention_inputs;             // of Q, K and V
extern Kernel<SizeOfGroup> short_attention_saved;
extern Kernel<SizeOfGroup> short_attention_scratch;
using ShortAttention = void(const AttentionGroup& group, real* saved, real* scratch);
extern Kernel<ShortAttention> short_attention;
extern Kernel<ShortAttention> short_attention_backward;

// Long sequences: tiles of scores, never all of them (Rabe and Staats 2021; Dao et al. 2022). Backward
// recomputes them from log_sums[queries, 2]: a row's largest score, and the logarithm of its sum as in LogSumExp.
// Meanwhile the inputs of `next`, the head computed next, are prefetched.
struct AttentionDropout {
  Dropping weights;
  std::uint32_t head;  // each head has bits of its own
};
extern Kernel<std::size_t(const AttentionHead& head)> long_attention_scratch;  // elements
using LongAttention = void(const AttentionHead& head, const AttentionHead& next, const AttentionDropout& dropout,
                           real* log_sums, real* scratch);
extern Kernel<LongAttention> long_attention;
extern Kernel<LongAttention> long_attention_backward;

// ---- optimiser ----------------------------------------------------------------------------------

// One step of Adam (Kingma and Ba 2015), or AdamW (Loshchilov and Hutter 2019) when `decoupled`:
//   g = gradient_scale * gradient (+ weight_decay * p unless decoupled)
//   m = beta1 m + (1 - beta1) g;   v = beta2 v + (1 - beta2) g^2
//   p = p (1 - lr weight_decay if decoupled) - lr (m / correction1) / (sqrt(v / correction2) + eps)
// and gradient = 0. A finite g whose square would overflow counts as the largest whose square does not, about; as m and
// sqrt(v) shrink alike, the step is that of g itself.
struct AdamStep {
  double lr, beta1, beta2, eps, weight_decay;
  bool decoupled;
  double correction1, correction2;  // 1 - beta^t
  double gradient_scale;
};
extern Kernel<void(real* p, real* gradient, real* m, real* v, std::size_t n, const AdamStep& step)> adam;

}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
