// The catalogue of operations: every op, its shapes and its formula. Attention and losses have pages of their own,
// ops/attention.h and ops/losses.h, which this one includes.
//
// All ops compute at once and record their gradient on the current tape (tape.h). Every op returns a new tensor, except
// dropout with p = 0 or in eval mode, which returns its input. Only batch_norm's running statistics are modified in
// place. Shapes that do not fit throw ShapeError, indices out of range IndexError, scalars out of range ArgumentError.
// Names and meanings are PyTorch's but for docs/from-pytorch.md's table. Negative axes count from the end. Lists of
// numbers (ids, targets, ...) are copied: they need not outlive the call. Second derivatives are not supported:
// gradients are numbers, not tensors on the tape, and an op recorded during backward throws StateError.
#pragma once

#include "core/gradient.h"
#include "core/guards.h"
#include "core/tape.h"
#include "core/tensor.h"
#include "ops/attention.h"
#include "ops/losses.h"
#include "ops/mask.h"

#include <array>
#include <concepts>
#include <initializer_list>
#include <limits>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// ---- making tensors ------------------------------------------------------------------------------

Tensor full(const Shape& shape, real value);
inline Tensor zeros(const Shape& shape) { return full(shape, 0); }
inline Tensor ones(const Shape& shape) { return full(shape, 1); }
inline Tensor zeros_like(const Tensor& x) { return zeros(x.shape()); }
inline Tensor ones_like(const Tensor& x) { return ones(x.shape()); }
// start, start + step, ... below end (above it, if step is negative); arange(end) starts at 0.
Tensor arange(double start, double end, double step = 1);
inline Tensor arange(double end) { return arange(0, end); }
// Random values, drawn from a stream one after another: N(0, 1), and uniform from low to high.
Tensor randn(const Shape& shape, RandomStream& random);
Tensor uniform(const Shape& shape, double low, double high, RandomStream& random);
// Copies `values`, row-major: a list, vector, array or span of numbers of any type. Throws ShapeError when the counts
// differ.
Tensor tensor(const Shape& shape, List<real> values);
// The same as a leaf: backward accumulates its gradient, which grad() reads.
Tensor variable(const Shape& shape, List<real> values);

template <class T>
concept OtherNumbers = std::ranges::contiguous_range<T> && std::is_arithmetic_v<std::ranges::range_value_t<T>> &&
    !std::same_as<std::ranges::range_value_t<T>, real>;

std::vector<real> to_reals(const OtherNumbers auto& numbers) {
  std::vector<real> values;
  values.reserve(std::ranges::size(numbers));
  for (const auto number : numbers) values.push_back(static_cast<real>(number));
  return values;
}
Tensor tensor(const Shape& shape, const OtherNumbers auto& values) { return tensor(shape, to_reals(values)); }
Tensor variable(const Shape& shape, const OtherNumbers auto& values) { return variable(shape, to_reals(values)); }
inline Tensor tensor(const Shape& shape, std::initializer_list<double> values) {
  return tensor(shape, std::vector<real>(values.begin(), values.end()));
}
inline Tensor variable(const Shape& shape, std::initializer_list<double> values) {
  return variable(shape, std::vector<real>(values.begin(), values.end()));
}
// The same values without history; shares the storage of x.
Tensor detach(const Tensor& x);

// What an op takes as an operand: a tensor, or a number, which stands for a tensor of one element.
struct Operand {
  Operand(const Tensor& x) : tensor(x) {}
  Operand(real value);
  template <std::floating_point T>  // 0.1 is not a float, and compilers would warn
  Operand(T value) : Operand(static_cast<real>(value)) {}
  operator const Tensor&() const { return tensor; }
  const Tensor* operator->() const { return &tensor; }
  Tensor tensor;
};

// ---- elementwise, with NumPy broadcasting --------------------------------------------------------
// Axes are aligned at the end; an axis of size 1 repeats.

Tensor add(const Operand& a, const Operand& b);
Tensor sub(const Operand& a, const Operand& b);
Tensor mul(const Operand& a, const Operand& b);
Tensor div(const Operand& a, const Operand& b);
inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
// a += b is a = a + b: a new tensor, which `a` then refers to. Other handles keep the old one.
inline Tensor& operator+=(Tensor& a, const Operand& b) { return a = a + b; }
inline Tensor& operator-=(Tensor& a, const Operand& b) { return a = a - b; }
inline Tensor& operator*=(Tensor& a, const Operand& b) { return a = a * b; }
inline Tensor& operator/=(Tensor& a, const Operand& b) { return a = a / b; }

// x^exponent; x^0 is 1 with slope 0. NaN where x < 0 and the exponent is not an integer.
Tensor pow(const Tensor& x, real exponent);
Tensor pow(const Tensor& x, const Tensor& exponent);

// The larger, or smaller, of the two. Where they are equal each gets half of the gradient. NaN propagates.
Tensor maximum(const Operand& a, const Operand& b);
Tensor minimum(const Operand& a, const Operand& b);

// 1 where the comparison holds, else 0; they carry no gradient.
Tensor gt(const Operand& a, const Operand& b);  // a > b
Tensor ge(const Operand& a, const Operand& b);
Tensor lt(const Operand& a, const Operand& b);
Tensor le(const Operand& a, const Operand& b);
Tensor eq(const Operand& a, const Operand& b);
Tensor ne(const Operand& a, const Operand& b);

// a where the condition is not 0, else b; NaN in the one not chosen does not spread. The condition gets no gradient,
// the one not chosen a gradient of 0: if it was computed where its own slope is infinite or NaN, as sqrt(x) at 0, that
// becomes 0 inf = NaN. Then choose among the inputs as well, sqrt(where(c, x, 1)).
Tensor where(const Tensor& condition, const Operand& a, const Operand& b);
// `value` where the mask is not 0, else x. The mask is broadcast to the shape of x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, real value);

Tensor scale(const Tensor& x, real factor);  // factor x
inline Tensor neg(const Tensor& x) { return scale(x, -1); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
Tensor abs(const Tensor& x);  // slope 0 at 0
Tensor square(const Tensor& x);
Tensor sqrt(const Tensor& x);                        // slope +inf at 0
Tensor rsqrt(const Tensor& x);                       // 1 / sqrt(x)
Tensor clamp(const Tensor& x, real low, real high);  // min(max(x, low), high); slope 1 at the limits
Tensor floor(const Tensor& x);                       // the largest integer up to x; slope 0
Tensor trunc(const Tensor& x);                       // x without its fraction; slope 0
Tensor round(const Tensor& x);                       // the nearest integer, of two the even one; slope 0
Tensor relu(const Tensor& x);                        // max(x, 0); relu'(0) = 0
Tensor gelu(const Tensor& x);                        // x Phi(x), exact (Hendrycks and Gimpel 2016)
Tensor gelu_tanh(const Tensor& x);  // their approximation: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
Tensor silu(const Tensor& x);       // x / (1 + e^-x), "swish" (Elfwing et al. 2017; Ramachandran et al. 2017)
Tensor softplus(const Tensor& x);   // log(1 + e^x)
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);  // 1 / (1 + e^-x)
Tensor erf(const Tensor& x);      // 2/sqrt(pi) times the integral of e^-t^2 from 0 to x
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);    // log(0) = -inf, log of a negative number NaN
Tensor log1p(const Tensor& x);  // log(1 + x), and expm1 e^x - 1, exact to rounding near 0
Tensor expm1(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor elu(const Tensor& x, real alpha = 1);  // x for x > 0, else alpha (e^x - 1) (Clevert et al. 2016)

// Zeroes each element with probability p and divides the rest by 1 - p; the identity in eval mode
// (Srivastava et al. 2014). The mask is a function of tape().random, whose steps tape().clear() counts, and is
// recomputed by backward, not stored. Throws ArgumentError unless 0 <= p <= 1, StateError after 2^24 masks of one step.
Tensor dropout(const Tensor& x, double p);

// ---- products ------------------------------------------------------------------------------------

// [..., m, k] x [..., k, n] -> [..., m, n]; leading axes broadcast. A vector [k] counts as a row on the
// left and as a column on the right, and the result lacks that axis.
Tensor matmul(const Tensor& a, const Tensor& b);

// Einstein's sum: einsum("bqhd,bkhd->bhqk", q, k) multiplies elements whose labels agree and sums over the
// labels that the result lacks. "..." stands for any axes, aligned at the end. Without "->" the result has these axes
// and then the labels that occur once, in alphabetical order. One operand or two; each label at most once in each (no
// diagonals).
Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b = {});

// Activations of linear maps; from swiglu on they are those of gated networks, silu(a) b, gelu(a) b and gelu_tanh(a) b
// (FeedForward).
enum class Activation { none, relu, gelu, gelu_tanh, silu, swiglu, geglu, geglu_tanh };
// y = activation(x W^T + b): x [..., in], W [out, in], b [out] or empty -> [..., out]. W [in] and b [] -> [...].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Activation activation = Activation::none);

// f(a) b, element by element, where f is silu for swiglu, gelu for geglu and gelu_tanh for geglu_tanh (Shazeer 2020).
// f(a) is not stored: backward computes it again. Throws ArgumentError for another activation.
Tensor gated(const Tensor& a, const Tensor& b, Activation activation);

// A matrix scale B A of low rank, to be added to a weight [out, in] (LoRA; Hu et al. 2021).
struct LowRank {
  Tensor a;  // [r, in]
  Tensor b;  // [out, r]
  double scale = 1;
};
// activation(x (W + scale B A)^T + bias), computed as x W^T + (scale x A^T) B^T: only the [..., r] numbers in brackets
// are kept for backward, which computes nothing for a frozen W.
Tensor linear_lora(const Tensor& x, const Tensor& weight, const LowRank& adapter, const Tensor& bias = {},
                   Activation activation = Activation::none);

// ---- rows ----------------------------------------------------------------------------------------

// e^x / sum e^x along an axis. A slice that is -inf throughout gives zeros.
Tensor softmax(const Tensor& x, int axis = -1);
// x [..., queries, keys]: softmax over the allowed keys; each leading index is one sequence.
Tensor softmax(const Tensor& x, const Mask& mask);
// x - log sum e^x. A slice that is -inf throughout gives NaN, as no logarithm of its zeros makes sense.
Tensor log_softmax(const Tensor& x, int axis = -1);

// gain (x - mean) / sqrt(variance + eps) + bias over the last axis, with the biased variance
// (Ba, Kiros and Hinton 2016). x [..., n], gain and bias [n]; the bias may be empty.
Tensor layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias = {}, double eps = 1e-5);

// gain x / sqrt(mean x^2 + eps) over the last axis (Zhang and Sennrich 2019). x [..., n], gain [n].
Tensor rms_norm(const Tensor& x, const Tensor& gain, double eps = 1e-5);

// gain (x - mean) / sqrt(variance + eps) + bias for each column of x [..., n] (Ioffe and Szegedy 2015).
// In train mode, mean and (biased) variance are taken over all rows, of which there must be more than one, and the
// running ones [n] move towards them by `momentum` (the variance towards the unbiased one). Otherwise the running
// statistics are used. Gain and bias [n]. Throws StateError in train mode where DataParallel has several shards.
struct BatchNormOptions {
  double momentum = 0.1, eps = 1e-5;
  bool use_running_statistics = false;  // in train mode too
};
Tensor batch_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& options = {});

// The "Add & Norm" of a Transformer in one pass, without storing intermediate results:
// dropout(layer_norm(x + dropout(y, before), gain, bias, eps), after). x and y have equal shapes.
struct AddNormOptions {
  double eps = 1e-5;
  double dropout_before = 0, dropout_after = 0;
  bool is_centred = true;  // false: rms_norm instead
};
Tensor add_norm(const Tensor& x, const Tensor& y, const Tensor& gain, const Tensor& bias,
                const AddNormOptions& options = {});
// x + dropout(y, p), likewise.
Tensor add_dropout(const Tensor& x, const Tensor& y, double p);

// ---- indices -------------------------------------------------------------------------------------

struct EmbeddingOptions {
  real scale = 1;
  Tensor positions = {};  // [max_positions, d]; none when empty
  List<int> position_ids = {};
  int padding_idx = std::numeric_limits<int>::min();  // ids equal to it give the row no gradient
};
// y_i = scale table[ids_i] (+ positions[position_ids_i]): table [vocabulary, d] -> [ids, d].
Tensor embedding(const Tensor& table, List<int> ids, const EmbeddingOptions& options = {});

// 1 in column ids_i of row i, else 0: ids -> [ids, classes].
Tensor one_hot(List<int> ids, int classes);

// Integers in the shape of a tensor; refers to them.
struct Indices {
  Shape shape;
  List<int> values;  // row-major
};
// y[i][j] = x[index[i][j]][j] for axis 0 of a matrix, and likewise in general. The indices have as many axes as x,
// and are not larger than x along the other axes; without elements they may have any shape. Here and below, negative
// indices count from the end of the axis.
Tensor gather(const Tensor& x, int axis, const Indices& indices);
// y = x, then y[index[i][j]][j] += source[i][j], likewise; indices without elements must fit too.
Tensor scatter_add(const Tensor& x, int axis, const Indices& indices, const Tensor& source);
// The slices at these indices of an axis, in this order; an index may occur more than once.
Tensor index_select(const Tensor& x, int axis, List<int> index);
// y = x, then the k-th of source's slices along the axis is added to the one at index[k], for each k in turn.
Tensor index_add(const Tensor& x, int axis, List<int> index, const Tensor& source);
// y = x, then each element of the slice at index[k] becomes the larger of itself and source's in the k-th. Equal ones
// share the gradient. NaN propagates. Of -inf for x, it gives the largest elements of groups.
Tensor index_amax(const Tensor& x, int axis, List<int> index, const Tensor& source);
// Softmax along an axis within groups: slices with equal indices, which may be any numbers, are one. Of the scores of a
// graph's edges, with the node that each leads to, it gives the weights of graph attention (Velickovic et al. 2018). A
// group that is -inf throughout gives zeros.
Tensor index_softmax(const Tensor& x, int axis, List<int> index);

// ---- reductions ----------------------------------------------------------------------------------

// Over which axes: one, several, or all. The reduced axes are dropped, or kept with size 1 (keepdim).
class Axes {
 public:
  Axes() = default;  // all
  Axes(int axis) : axes_{axis}, count_(1) {}
  Axes(std::initializer_list<int> axes);
  // Which axes of x are meant. Throws IndexError for one out of range, or given twice.
  std::array<bool, Shape::kMaxRank> of(const char* op, const Tensor& x) const;

 private:
  std::array<int, Shape::kMaxRank> axes_{};
  std::size_t count_ = 0;
};

// Accumulated in double precision. The sum of nothing is 0, its norm 0 and its product 1; mean, var, stddev, amax and
// amin throw ShapeError.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// The slope of an element is the product of the others, also where one or several are 0.
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// sum (x - mean)^2 / (n - correction): unbiased with correction 1, the variance of the values with 0; and its root.
Tensor var(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keepdim = false);
Tensor stddev(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keepdim = false);
// The Euclidean norm, sqrt(sum x^2). The slope of norm and stddev is 0 where they are 0.
Tensor norm(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// The largest, or smallest, element. Equal ones share the gradient. NaN propagates.
Tensor amax(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Axes& axes = {}, bool keepdim = false);
// log sum e^x; -inf for no elements. Where it is infinite the gradient is 0.
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdim = false);

// The largest, or smallest, along an axis, and its index; among equal ones the first, which alone gets the
// gradient. One index for each element of the result, row-major. NaN propagates.
struct Extreme {
  Tensor values;
  std::vector<int> indices;
};
Extreme max(const Tensor& x, int axis, bool keepdim = false);
Extreme min(const Tensor& x, int axis, bool keepdim = false);
// The k largest along an axis, the largest first, or the k smallest; equal ones keep their order. NaN counts as the
// largest. With k the size of the axis, this sorts.
Extreme topk(const Tensor& x, int k, int axis = -1, bool largest = true);
std::vector<int> argmax(const Tensor& x, int axis = -1);
std::vector<int> argmin(const Tensor& x, int axis = -1);

// y_k = x_0 + ... + x_k along an axis.
Tensor cumsum(const Tensor& x, int axis);

// ---- shapes --------------------------------------------------------------------------------------

// The same values in another shape; shares storage. One size may be -1: inferred.
Tensor reshape(const Tensor& x, std::initializer_list<int> sizes);
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor transpose(const Tensor& x, int axis_a = -2, int axis_b = -1);  // copies
Tensor permute(const Tensor& x, List<int> axes);                      // y's axis i is x's axis axes[i]; copies
Tensor unsqueeze(const Tensor& x, int axis);          // a new axis of size 1, at this place of the result; shares
Tensor squeeze(const Tensor& x, int axis);            // without this axis, which must have size 1; shares
Tensor expand(const Tensor& x, const Shape& shape);   // repeats axes of size 1, and new ones in front; copies
Tensor flip(const Tensor& x, const Axes& axes = {});  // in reverse order along these axes, or along all
Tensor tril(const Tensor& x, int diagonal = 0);       // x [..., rows, columns] with 0 where column - row > diagonal
Tensor triu(const Tensor& x, int diagonal = 0);       // with 0 where column - row < diagonal
// Elements begin .. end-1 of an axis; negative ones count from the end. Along the first axis it shares storage, else it
// copies.
Tensor slice(const Tensor& x, int axis, int begin, int end);
Tensor concat(List<Tensor> tensors, int axis = 0);
Tensor stack(List<Tensor> tensors, int axis = 0);  // along a new axis
// The windows of `size` elements along an axis, `stride` apart, each along a new axis at the end:
// y[..., i, ..., j] = x[..., i stride + j, ...]. Of images [n, h, w, c], unfold(unfold(x, 1, k, s), 2, k, s) is
// [n, h', w', c, k, k]: a product with weights [c k k, out] makes it a convolution, amax over {-2, -1} max pooling.
Tensor unfold(const Tensor& x, int axis, int size, int stride);
// Consecutive parts of an axis: of these sizes, of one size (the last may be smaller), or this many (chunk).
std::vector<Tensor> split(const Tensor& x, List<int> sizes, int axis = 0);
std::vector<Tensor> split(const Tensor& x, int size, int axis = 0);
std::vector<Tensor> chunk(const Tensor& x, int chunks, int axis = 0);

}  // namespace SEPPO_ABI
}  // namespace seppo
