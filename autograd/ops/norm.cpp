// Normalisations: layer norm and RMS norm of rows, batch norm of columns.
#include "../core/arena.h"
#include "op.h"
#include "term_sums.h"

#include <algorithm>
#include <cmath>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

void check_features(const char* op, const Tensor& x, std::initializer_list<Tensor> features, double eps) {
  check(x.rank() >= 1 && x.size(-1) > 0, op, ": needs a last axis of at least one element, got x ", x);
  for (const Tensor& p : features)
    check(!p.defined() || (p.rank() == 1 && p.size(0) == x.size(-1)), op, ": gain and bias must have the size of x ", x,
          " dim ", x.rank() - 1, " = ", x.size(-1), ", got ", p);
  check<ArgumentError>(eps >= 0, op, ": eps ", eps, " is negative");
}

const real* data_or_null(const Tensor& x) { return x.defined() ? x.data() : nullptr; }

// What forward and backward of layer_norm, rms_norm and add_norm share.
struct RowNorm {
  Tensor x, y, gain, bias;  // y and bias may be empty
  double eps;
  bool is_centred;
  kernels::Dropping before, after;
  kernels::RowMoments* moments;  // of each row, for backward
  std::size_t block;             // rows whose terms for gain and bias are added up before they join the others
  std::size_t piece;             // rows that pay for another thread: a multiple of the former

  std::size_t rows() const { return x.rows(); }
  std::size_t cols() const { return x.cols(); }
  std::size_t blocks() const { return (rows() + block - 1) / block; }

  kernels::NormInputs inputs(std::size_t first, std::size_t last) const {
    return {.x = x.data(),
            .y = data_or_null(y),
            .gain = gain.data(),
            .bias = data_or_null(bias),
            .first = first,
            .last = last,
            .cols = cols(),
            .is_centred = is_centred,
            .before = before,
            .after = after};
  }
  real* scratch() const { return scratch_memory(kernels::norm_scratch(cols()) * sizeof(real)).as<real>(); }
};

void forward(const RowNorm& norm, const Tensor& out) {
  parallel_range(0, norm.rows(), norm.piece, [&](std::size_t first, std::size_t last) {
    kernels::normalise(out.data(), norm.moments, norm.inputs(first, last), norm.eps, norm.scratch());
  });
}

void backward(const RowNorm& norm, const Tensor& out) {
  const std::size_t cols = norm.cols();
  real* const dgain = grad_if_required(norm.gain);
  real* const dbias = grad_if_required(norm.bias);
  // Last, so that beta is 1 where an input is used twice.
  const GradTarget dx = target_if_required(norm.x);
  const GradTarget dy = target_if_required(norm.y);
  const std::size_t size = norm.blocks() * 2 * cols;  // of each block, for gain and bias
  const RecycledArray sums(tape().arena(), size);
  std::fill_n(sums.data(), size, real{0});
  const std::size_t piece = may_overlap(dx, dy, norm.x.numel()) ? norm.rows() : norm.piece;
  parallel_for(0, norm.rows(), piece, [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; i += norm.block) {
      real* const own = sums.data() + i / norm.block * 2 * cols;
      const kernels::NormGradients gradients{.dx = dx.grad,
                                             .beta_x = dx.beta,
                                             .dy = dy.grad,
                                             .beta_y = dy.beta,
                                             .dgain = dgain ? own : nullptr,
                                             .dbias = dbias ? own + cols : nullptr};
      const std::size_t end = std::min(i + norm.block, last);
      kernels::normalise_backward(gradients, grad_of(out), norm.inputs(i, end), norm.moments, norm.scratch());
    }
  });
  const TermSums of_gain(dgain, cols, norm.rows());
  const TermSums of_bias(dbias, cols, norm.rows());
  for (std::size_t i = 0; i < size; i += 2 * cols) {
    if (dgain) of_gain.add(0, sums.data() + i, cols);
    if (dbias) of_bias.add(0, sums.data() + i + cols, cols);
  }
  of_gain.finish();
  of_bias.finish();
}

Tensor normalise(const char* name, const Tensor& x, const Tensor& y, const Tensor& gain, const Tensor& bias,
                 const AddNormOptions& options) {
  check_features(name, x, {gain, bias}, options.eps);
  check(!y.defined() || x.shape() == y.shape(), name, ": x ", x, " and y ", y, " differ in shape");
  Tape& t = tape();
  const Tensor out = t.create(x.shape());
  const kernels::Dropping before = next_dropping(name, options.dropout_before);
  const kernels::Dropping after = next_dropping(name, options.dropout_after);
  const std::size_t wanted = (kPiece / x.cols() / kernels::kNormRows + 1) * kernels::kNormRows;  // rows for a thread
  const std::size_t block = std::min(wanted, kernels::kMostTerms);
  const RowNorm norm{.x = x,
                     .y = y,
                     .gain = gain,
                     .bias = bias,
                     .eps = options.eps,
                     .is_centred = options.is_centred,
                     .before = before,
                     .after = after,
                     .moments = t.allocate<kernels::RowMoments>(x.rows()),
                     .block = block,
                     .piece = (wanted + block - 1) / block * block};
  forward(norm, out);
  const Tensor recorded[] = {x, gain, y.defined() ? y : bias, y.defined() ? bias : y};
  t.record(name, out, recorded, [=] { backward(norm, out); });
  return out;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, double eps) {
  return normalise("layer_norm", x, {}, gain, bias, {.eps = eps});
}

Tensor add_norm(const Tensor& x, const Tensor& y, const Tensor& gain, const Tensor& bias,
                const AddNormOptions& options) {
  check(y.defined(), "add_norm: y is an empty handle");
  return normalise("add_norm", x, y, gain, bias, options);
}

Tensor rms_norm(const Tensor& x, const Tensor& gain, double eps) {
  return normalise("rms_norm", x, {}, gain, {}, {.eps = eps, .is_centred = false});
}

namespace {

// Moves the running statistics towards those of the batch. The running variance is the unbiased one.
void update_running(const Tensor& running_mean, const Tensor& running_var, const double* mean, const double* squares,
                    double count, double momentum) {
  real* const to_mean = running_mean.data();
  real* const to_var = running_var.data();
  for (std::size_t j = 0; j < running_mean.numel(); ++j) {
    to_mean[j] = static_cast<real>((1 - momentum) * double{to_mean[j]} + momentum * mean[j]);
    to_var[j] = static_cast<real>((1 - momentum) * double{to_var[j]} + momentum * squares[j] / (count - 1));
  }
}

void backward(const kernels::ColumnNorm& in, const Tensor& y, const Tensor& x, const Tensor& gain, const Tensor& bias,
              bool is_train) {
  const std::size_t n = in.cols;
  const double count = static_cast<double>(in.rows);
  double* const sums = tape().allocate<double>(2 * n);
  double* const along = sums + n;
  std::fill_n(sums, 2 * n, 0.0);
  kernels::column_norm_sums(sums, along, grad_of(y), in);
  real* const dx = grad_if_required(x);
  real* const dgain = grad_if_required(gain);
  real* const dbias = grad_if_required(bias);
  for (std::size_t j = 0; j < n; ++j) {
    if (dbias) dbias[j] += static_cast<real>(sums[j]);
    if (dgain) dgain[j] += static_cast<real>(along[j]);
  }
  std::transform(sums, sums + 2 * n, sums, [=](double sum) { return is_train ? sum / count : 0; });
  if (dx) kernels::column_norm_backward(dx, grad_of(y), sums, along, in);
}

}  // namespace

// y = gain x_hat + bias, x_hat = (x - mean) r, r = 1 / sqrt(variance + eps), for each column;
// with the batch's own statistics dx = gain r (dy - mean dy - x_hat mean(dy x_hat)), with given ones gain r dy.
Tensor batch_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& options) {
  check_features("batch_norm", x, {gain, bias, running_mean, running_var}, options.eps);
  const double momentum = options.momentum;
  check<ArgumentError>(momentum >= 0 && momentum <= 1, "batch_norm: momentum ", momentum, " is not in [0, 1]");
  Tape& t = tape();
  const bool is_train = t.mode == Mode::train && !options.use_running_statistics;
  check(!is_train || x.rows() > 1, "batch_norm: training needs more than one row, got x ", x);
  check<StateError>(!is_train || !(inside_task() || t.sees_a_part),
                    "batch_norm: the statistics would be those of a shard, and mix; train with whole_batch");
  const std::size_t n = x.cols();
  const double count = static_cast<double>(x.rows());
  double* const mean = t.allocate<double>(n);
  double* const scales = t.allocate<double>(n);  // the sums of squares, then the variances, then their 1 / roots
  if (is_train) {
    kernels::column_moments(mean, scales, x.data(), x.rows(), n);
    if (!t.recomputes) update_running(running_mean, running_var, mean, scales, count, momentum);
    for (std::size_t j = 0; j < n; ++j) scales[j] /= count;
  } else {
    std::copy_n(running_mean.data(), n, mean);
    std::copy_n(running_var.data(), n, scales);
  }
  for (std::size_t j = 0; j < n; ++j) scales[j] = 1 / std::sqrt(scales[j] + options.eps);

  const auto inputs = [=] {
    return kernels::ColumnNorm{.x = x.data(),
                               .gain = gain.data(),
                               .bias = bias.data(),
                               .mean = mean,
                               .scale = scales,
                               .rows = x.rows(),
                               .cols = n};
  };
  const Tensor y = t.create(x.shape());
  kernels::column_norm(y.data(), inputs());
  record("batch_norm", y, {x, gain, bias}, [=] { backward(inputs(), y, x, gain, bias, is_train); });
  return y;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
