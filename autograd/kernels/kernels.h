// Loops over raw pointers, vectorised with Google Highway and dispatched at run time to AVX-512,
// AVX2, NEON or plain code. Nothing here knows a Tensor.
//
// Outputs come first. `dx` is the gradient of x. Backward kernels write dx = beta * dx + term; with
// beta = 0 the memory may be uninitialised (beta is 0 or 1). Matrices are row-major; ld* is the
// distance between rows. NaN inputs give NaN outputs.
#pragma once

#include <seppo/autograd/real.h>

#include <cstddef>
#include <cstdint>

namespace seppo::inline SEPPO_ABI::kernels {

// ---- elementwise --------------------------------------------------------------------------------

enum class Unary { relu, gelu, tanh, sigmoid, exp, log };

void unary(Unary op, real* y, const real* x, std::size_t n);
void unary_backward(Unary op, real* dx, real beta, const real* dy, const real* x, const real* y, std::size_t n);

enum class Binary { add, sub, mul, div };

// One run of n elements; each operand moves by 0 (broadcast) or 1.
struct BinaryRun {
  std::size_t n;
  std::size_t step_a, step_b;
};
void binary(Binary op, BinaryRun run, real* y, const real* a, const real* b);
// Adds to da and db; either may be null.
void binary_backward(Binary op, BinaryRun run, real* da, real* db, const real* dy, const real* a, const real* b);

void scale(real* y, const real* x, real factor, std::size_t n);            // y = factor x
void axpy(real* y, real beta, const real* x, real factor, std::size_t n);  // y = beta y + factor x
void relu_mask(real* dy, const real* y, std::size_t n);                    // dy = y > 0 ? dy : 0
void broadcast_rows(real* y, const real* row, std::size_t rows, std::size_t cols);
void add_column_sums(real* sums, const real* x, std::size_t rows, std::size_t cols);  // sums += 1^T x
void copy_rows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols);
void add_rows(real* y, std::size_t ldy, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols);
double sum(const real* x, std::size_t n);           // accumulated in double
double squared_norm(const real* x, std::size_t n);  // sum x^2, accumulated in double

// ---- rows ---------------------------------------------------------------------------------------

// y_j = exp(x_j - max x) / sum over the first `count` elements; the rest of the n become 0.
void softmax_row(real* y, const real* x, std::size_t count, std::size_t n);
// dx_j = beta dx_j + y_j (dy_j - sum_k dy_k y_k)
void softmax_row_backward(real* dx, real beta, const real* dy, const real* y, std::size_t n);
real log_sum_exp(const real* x, std::size_t n);
// dx_j = beta dx_j + dy_j - exp(y_j) sum_k dy_k
void log_softmax_row_backward(real* dx, real beta, const real* dy, const real* y, std::size_t n);

// What layer_norm's backward needs of a row: x_hat = ((x - center) - shift) * rstd. The mean is
// center + shift: split in two, so that subtracting it from values much larger than their spread
// loses nothing.
struct RowMoments {
  real center, shift, rstd;
};
void layer_norm(real* y, RowMoments* moments, const real* x, const real* gain, const real* bias, double epsilon,
                std::size_t rows, std::size_t cols);
// Any of dx, dgain, dbias may be null; dgain and dbias are added to.
void layer_norm_backward(real* dx, real beta, real* dgain, real* dbias, const real* dy, const real* x,
                         const RowMoments* moments, const real* gain, std::size_t rows, std::size_t cols);

// dx = beta dx + scale (softmax(x) - smoothed one-hot of target): one row of cross-entropy.
void cross_entropy_row_backward(real* dx, real beta, const real* x, real log_sum_exp, std::size_t target,
                                real smoothing, real scale, std::size_t n);

// y = x / (1 - p) where kept, else 0. Element i is kept if its word of Philox4x32-10 is not below p 2^32;
// of each 64 elements, element 16 w + l has word w of block 16 (i / 64) + l.
struct DropoutKey {
  std::uint64_t seed;
  std::uint32_t step, sample, site;
};
void dropout(real* y, real beta, const real* x, double p, const DropoutKey& key, std::size_t n);

// ---- attention ----------------------------------------------------------------------------------

// One head of one sequence: `queries` rows of q against `keys` rows of k and v, each `width` wide.
struct AttentionHead {
  const real *q, *k, *v;
  std::size_t ldq, ldk, ldv;
  std::size_t queries, keys, width;
  std::size_t valid_keys;       // keys from here on may not be attended
  bool causal;                  // query i may attend keys up to i + keys - queries
  const std::uint8_t* allowed;  // [queries, keys], or null: all allowed
  real scale;                   // of the scores
};
// Elements of scratch memory that attention and its backward need for a head of this size.
std::size_t attention_scratch(std::size_t queries, std::size_t keys, std::size_t width);
// weights[queries, keys] = softmax(scale q k^T) over the allowed keys (a row of zeros if there are
// none); out[queries, width] = weights v.
void attention(real* out, std::size_t ldo, real* weights, const AttentionHead& head, real* scratch);
// Adds to dq, dk, dv, which have the strides of q, k, v; any may be null.
void attention_backward(real* dq, real* dk, real* dv, const real* dout, std::size_t ldo, const real* weights,
                        const AttentionHead& head, real* scratch);

// ---- optimiser ----------------------------------------------------------------------------------

// One step of Adam (Kingma and Ba 2015), or AdamW (Loshchilov and Hutter 2019) when `decoupled`:
//   g = gradient_scale * gradient (+ weight_decay * p unless decoupled)
//   m = beta1 m + (1 - beta1) g;   v = beta2 v + (1 - beta2) g^2
//   p = p (1 - lr weight_decay if decoupled) - lr (m / correction1) / (sqrt(v / correction2) + epsilon)
// and gradient = 0.
struct AdamStep {
  double lr, beta1, beta2, epsilon, weight_decay;
  bool decoupled;
  double correction1, correction2;  // 1 - beta^t
  double gradient_scale;
};
void adam(real* p, real* gradient, real* m, real* v, std::size_t n, const AdamStep& step);

}  // namespace seppo::inline SEPPO_ABI::kernels
