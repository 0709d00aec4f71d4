// Normalisations: layer norm and RMS norm of rows, batch norm of columns.
#include "../core/parallel.h"
#include "op.h"

#include <algorithm>
#include <cmath>

namespace seppo::inline SEPPO_ABI {
namespace {

void check_features(const char* op, const Tensor& x, std::initializer_list<Tensor> features, double eps) {
  check(x.rank() >= 1 && x.size(-1) > 0, op, ": needs a last axis of at least one element, got x ", x);
  for (const Tensor& p : features)
    check(p.rank() == 1 && p.size(0) == x.size(-1), op, ": gain and bias must have the size of x ", x, " dim ",
          x.rank() - 1, " = ", x.size(-1), ", got ", p);
  check<ArgumentError>(eps >= 0, op, ": eps ", eps, " is negative");
}

// layer_norm and add_norm: y may be empty.
Tensor normalise(const char* name, const Tensor& x, const Tensor& y, const Tensor& gain, const Tensor& bias,
                 const AddNormOptions& o) {
  check_features(name, x, {gain, bias}, o.eps);
  check(!y.defined() || x.shape() == y.shape(), name, ": x ", x, " and y ", y, " differ in shape");
  Tape& t = tape();
  Tensor out = t.create(x.shape());
  const kernels::Dropping before = next_dropping(name, o.dropout_before), after = next_dropping(name, o.dropout_after);
  auto* const moments = t.allocate<kernels::RowMoments>(x.rows());
  const auto inputs = [=] {
    return kernels::NormInputs{
        x.data(), y.defined() ? y.data() : nullptr, gain.data(), bias.data(), x.rows(), x.cols(), before, after};
  };
  const auto scratch = [=] { return RecycledArray(tape().arena(), kernels::layer_norm_scratch(x.cols())); };
  kernels::layer_norm(out.data(), moments, inputs(), o.eps, scratch().data());
  record(name, out, {x, gain, bias, y}, [=] {
    real *const dgain = grad_if_required(gain), *const dbias = grad_if_required(bias);
    // Last, so that beta is 1 where an input is used twice.
    const auto target = [](const Tensor& input) {
      return input.defined() && input.requires_grad() ? grad_target(input) : GradTarget{nullptr, 0};
    };
    const GradTarget dx = target(x), dy = target(y);
    kernels::layer_norm_backward({dx.grad, dx.beta, dy.grad, dy.beta, dgain, dbias}, grad_of(out), inputs(), moments,
                                 scratch().data());
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

// y = gain x_hat, x_hat = x r, r = 1 / sqrt(mean x^2 + eps);
// dx = r (gain dy - x_hat mean(gain dy x_hat))
Tensor rms_norm(const Tensor& x, const Tensor& gain, double eps) {
  check_features("rms_norm", x, {gain}, eps);
  Tape& t = tape();
  Tensor y = t.create(x.shape());
  const std::size_t n = x.cols();
  double* const scales = t.allocate<double>(x.rows());
  for (std::size_t i = 0; i < x.rows(); ++i) {
    const real* const row = x.data() + i * n;
    scales[i] = 1 / std::sqrt(kernels::squared_norm(row, n) / static_cast<double>(n) + eps);
    for (std::size_t j = 0; j < n; ++j)
      y.data()[i * n + j] = static_cast<real>(double{row[j]} * scales[i]) * gain.data()[j];
  }
  record("rms_norm", y, {x, gain}, [=] {
    real *const dx = grad_if_required(x), *const dgain = grad_if_required(gain);
    for (std::size_t i = 0; i < x.rows(); ++i) {
      const real *const row = x.data() + i * n, *const dy = grad_of(y) + i * n;
      const auto x_hat = [&](std::size_t j) { return double{row[j]} * scales[i]; };
      const auto slope = [&](std::size_t j) { return double{gain.data()[j]} * double{dy[j]}; };
      double along = 0;
      for (std::size_t j = 0; j < n; ++j) along += slope(j) * x_hat(j) / static_cast<double>(n);
      for (std::size_t j = 0; j < n; ++j) {
        if (dgain) dgain[j] += dy[j] * static_cast<real>(x_hat(j));
        if (dx) dx[i * n + j] += static_cast<real>(scales[i] * (slope(j) - x_hat(j) * along));
      }
    }
  });
  return y;
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
                    "batch_norm: the statistics of shards that run side by side would mix");
  const std::size_t n = x.cols();
  const double count = static_cast<double>(x.rows());
  double *const mean = t.allocate<double>(n), *const scales = t.allocate<double>(n);
  if (is_train) {
    double* const var = scales;
    std::fill_n(mean, n, 0.0);
    std::fill_n(var, n, 0.0);
    for (std::size_t i = 0; i < x.numel(); ++i) mean[i % n] += double{x.data()[i]} / count;
    for (std::size_t i = 0; i < x.numel(); ++i) var[i % n] += std::pow(double{x.data()[i]} - mean[i % n], 2) / count;
    for (std::size_t j = 0; j < n; ++j) {  // the running variance is the unbiased one
      real &to_mean = running_mean.data()[j], &to_var = running_var.data()[j];
      to_mean = static_cast<real>((1 - m) * double{to_mean} + m * mean[j]);
      to_var = static_cast<real>((1 - m) * double{to_var} + m * var[j] * count / (count - 1));
    }
  } else {
    std::copy_n(running_mean.data(), n, mean);
    std::copy_n(running_var.data(), n, scales);
  }
  for (std::size_t j = 0; j < n; ++j) scales[j] = 1 / std::sqrt(scales[j] + options.eps);

  const auto x_hat = [=](std::size_t i) { return (double{x.data()[i]} - mean[i % n]) * scales[i % n]; };
  Tensor y = t.create(x.shape());
  for (std::size_t i = 0; i < y.numel(); ++i)
    y.data()[i] = static_cast<real>(double{gain.data()[i % n]} * x_hat(i)) + bias.data()[i % n];
  record("batch_norm", y, {x, gain, bias}, [=] {
    const real* const dy = grad_of(y);
    double *const sums = tape().allocate<double>(n), *const along = tape().allocate<double>(n);
    std::fill_n(sums, n, 0.0);
    std::fill_n(along, n, 0.0);
    for (std::size_t i = 0; i < y.numel(); ++i) {
      sums[i % n] += double{dy[i]};
      along[i % n] += double{dy[i]} * x_hat(i);
    }
    real *const dx = grad_if_required(x), *const dgain = grad_if_required(gain), *const dbias = grad_if_required(bias);
    for (std::size_t j = 0; j < n; ++j) {
      if (dbias) dbias[j] += static_cast<real>(sums[j]);
      if (dgain) dgain[j] += static_cast<real>(along[j]);
    }
    for (std::size_t i = 0; dx && i < x.numel(); ++i) {
      const std::size_t j = i % n;
      const double centred = is_train ? (sums[j] + x_hat(i) * along[j]) / count : 0;
      dx[i] += static_cast<real>(double{gain.data()[j]} * scales[j] * (double{dy[i]} - centred));
    }
  });
  return y;
}

}  // namespace seppo::inline SEPPO_ABI
