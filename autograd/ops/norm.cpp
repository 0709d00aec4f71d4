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

// layer_norm, rms_norm and add_norm: y and bias may be empty.
Tensor normalise(const char* name, const Tensor& x, const Tensor& y, const Tensor& gain, const Tensor& bias,
                 const AddNormOptions& o) {
  check_features(name, x, {gain, bias}, o.eps);
  check(!y.defined() || x.shape() == y.shape(), name, ": x ", x, " and y ", y, " differ in shape");
  Tape& t = tape();
  Tensor out = t.create(x.shape());
  const kernels::Dropping before = next_dropping(name, o.dropout_before), after = next_dropping(name, o.dropout_after);
  auto* const moments = t.allocate<kernels::RowMoments>(x.rows());
  const std::size_t rows = x.rows(), cols = x.cols();
  // Rows for a thread, and rows whose sums are added up: the first is a multiple of the second.
  const std::size_t wanted = (kPiece / cols / kernels::kNormRows + 1) * kernels::kNormRows;
  const std::size_t block = std::min(wanted, kernels::kMostTerms), piece = (wanted + block - 1) / block * block;
  const auto inputs = [=, is_centred = o.is_centred](std::size_t first, std::size_t last) {
    return kernels::NormInputs{x.data(),   data_or_null(y), gain.data(), data_or_null(bias), first, last, cols,
                               is_centred, before,          after};
  };
  const auto scratch = [=] { return scratch_memory(kernels::norm_scratch(cols) * sizeof(real)).as<real>(); };
  parallel_range(0, rows, piece, [&](std::size_t first, std::size_t last) {
    kernels::normalise(out.data(), moments, inputs(first, last), o.eps, scratch());
  });
  const Tensor recorded[] = {x, gain, y.defined() ? y : bias, y.defined() ? bias : y};
  t.record(name, out, recorded, [=] {
    real *const dgain = grad_if_required(gain), *const dbias = grad_if_required(bias);
    // Last, so that beta is 1 where an input is used twice.
    const GradTarget dx = target_if_required(x), dy = target_if_required(y);
    const std::size_t size = (rows + block - 1) / block * 2 * cols;
    const RecycledArray sums(tape().arena(), size);  // of each block, for gain and bias
    std::fill_n(sums.data(), size, real{0});
    // If x and y are parts of one tensor, they may share rows, to which only one thread may add.
    const bool may_overlap =
        dx.grad && dy.grad && dx.grad != dy.grad && dx.grad < dy.grad + x.numel() && dy.grad < dx.grad + x.numel();
    parallel_for(0, rows, may_overlap ? rows : piece, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; i += block) {
        real* const own = sums.data() + i / block * 2 * cols;
        kernels::normalise_backward(
            {dx.grad, dx.beta, dy.grad, dy.beta, dgain ? own : nullptr, dbias ? own + cols : nullptr}, grad_of(out),
            inputs(i, std::min(i + block, last)), moments, scratch());
      }
    });
    const TermSums of_gain(dgain, cols, rows), of_bias(dbias, cols, rows);
    for (std::size_t i = 0; i < size; i += 2 * cols) {
      if (dgain) of_gain.add(0, sums.data() + i, cols);
      if (dbias) of_bias.add(0, sums.data() + i + cols, cols);
    }
    of_gain.finish();
    of_bias.finish();
  });
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

// y = gain x_hat + bias, x_hat = (x - mean) r, r = 1 / sqrt(variance + eps), for each column;
// with the batch's own statistics dx = gain r (dy - mean dy - x_hat mean(dy x_hat)), with given ones gain r dy.
Tensor batch_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& options) {
  check_features("batch_norm", x, {gain, bias, running_mean, running_var}, options.eps);
  const double m = options.momentum;
  check<ArgumentError>(m >= 0 && m <= 1, "batch_norm: momentum ", m, " is not in [0, 1]");
  Tape& t = tape();
  const bool is_train = t.mode == Mode::train && !options.use_running_statistics;
  check(!is_train || x.rows() > 1, "batch_norm: training needs more than one row, got x ", x);
  check<StateError>(!is_train || !inside_task(),
                    "batch_norm: the statistics of shards that run side by side would mix; train with whole_batch");
  const std::size_t n = x.cols();
  const double count = static_cast<double>(x.rows());
  double *const mean = t.allocate<double>(n), *const scales = t.allocate<double>(n);
  if (is_train) {
    kernels::column_moments(mean, scales, x.data(), x.rows(), n);
    for (std::size_t j = 0; j < n; ++j) {  // the running variance is the unbiased one
      real &to_mean = running_mean.data()[j], &to_var = running_var.data()[j];
      to_mean = t.recomputes ? to_mean : static_cast<real>((1 - m) * double{to_mean} + m * mean[j]);
      to_var = t.recomputes ? to_var : static_cast<real>((1 - m) * double{to_var} + m * scales[j] / (count - 1));
      scales[j] /= count;
    }
  } else {
    std::copy_n(running_mean.data(), n, mean);
    std::copy_n(running_var.data(), n, scales);
  }
  for (std::size_t j = 0; j < n; ++j) scales[j] = 1 / std::sqrt(scales[j] + options.eps);

  const auto inputs = [=] {
    return kernels::ColumnNorm{x.data(), gain.data(), bias.data(), mean, scales, x.rows(), n};
  };
  Tensor y = t.create(x.shape());
  kernels::column_norm(y.data(), inputs());
  record("batch_norm", y, {x, gain, bias}, [=] {
    double *const sums = tape().allocate<double>(2 * n), *const along = sums + n;
    std::fill_n(sums, 2 * n, 0.0);
    kernels::column_norm_sums(sums, along, grad_of(y), inputs());
    real *const dx = grad_if_required(x), *const dgain = grad_if_required(gain), *const dbias = grad_if_required(bias);
    for (std::size_t j = 0; j < n; ++j) {
      if (dbias) dbias[j] += static_cast<real>(sums[j]);
      if (dgain) dgain[j] += static_cast<real>(along[j]);
    }
    std::transform(sums, sums + 2 * n, sums, [=](double sum) { return is_train ? sum / count : 0; });
    if (dx) kernels::column_norm_backward(dx, grad_of(y), sums, along, inputs());
  });
  return y;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
