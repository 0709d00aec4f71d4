// RMS norm of rows, and batch norm of columns.
#include "../ops.h"
#include "../core/parallel.h"

#include <algorithm>
#include <cmath>

namespace seppo::inline SEPPO_ABI {
namespace {

void check_features(const char* op, const Tensor& x, std::initializer_list<Tensor> features) {
  check(x.rank() >= 1 && x.size(-1) > 0, op, ": needs a last axis of at least one element, got x ", x);
  for (const Tensor& p : features)
    check(p.rank() == 1 && p.size(0) == x.size(-1), op, ": gain and bias must have the size of x ", x, " dim ",
          x.rank() - 1, " = ", x.size(-1), ", got ", p);
}

double real_to_double(real v) { return static_cast<double>(v); }

}  // namespace

// y = gain x_hat, x_hat = x r, r = 1 / sqrt(mean x^2 + eps);
// dx = r (gain dy - x_hat mean(gain dy x_hat))
Tensor rms_norm(const Tensor& x, const Tensor& gain, double eps) {
  check_features("rms_norm", x, {gain});
  check<ArgumentError>(eps >= 0, "rms_norm: eps ", eps, " is negative");
  Tape& t = tape();
  Tensor y = t.create(x.shape());
  const std::size_t n = x.cols();
  double* const scales = t.allocate<double>(x.rows());
  for (std::size_t i = 0; i < x.rows(); ++i) {
    const real* const row = x.data() + i * n;
    double squares = 0;
    for (std::size_t j = 0; j < n; ++j) squares += real_to_double(row[j]) * real_to_double(row[j]);
    scales[i] = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
    for (std::size_t j = 0; j < n; ++j)
      y.data()[i * n + j] = static_cast<real>(real_to_double(row[j]) * scales[i]) * gain.data()[j];
  }
  record("rms_norm", y, {x, gain}, [=] {
    real* const dx = x.requires_grad() ? grad_of(x) : nullptr;
    real* const dgain = gain.requires_grad() ? grad_of(gain) : nullptr;
    for (std::size_t i = 0; i < x.rows(); ++i) {
      const real *const row = x.data() + i * n, *const dy = grad_of(y) + i * n;
      const auto x_hat = [&](std::size_t j) { return real_to_double(row[j]) * scales[i]; };
      double along = 0;
      for (std::size_t j = 0; j < n; ++j) {
        along += real_to_double(gain.data()[j]) * real_to_double(dy[j]) * x_hat(j);
        if (dgain) dgain[j] += dy[j] * static_cast<real>(x_hat(j));
      }
      along /= static_cast<double>(n);
      for (std::size_t j = 0; dx && j < n; ++j)
        dx[i * n + j] +=
            static_cast<real>(scales[i] * (real_to_double(gain.data()[j]) * real_to_double(dy[j]) - x_hat(j) * along));
    }
  });
  return y;
}

// y = gain x_hat + bias, x_hat = (x - mean) r, r = 1 / sqrt(variance + eps), for each column;
// with the batch's own statistics dx = gain r (dy - mean dy - x_hat mean(dy x_hat)), with given ones gain r dy.
Tensor batch_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, const BatchNormOptions& options) {
  check_features("batch_norm", x, {gain, bias, running_mean, running_var});
  check<ArgumentError>(options.eps >= 0, "batch_norm: eps ", options.eps, " is negative");
  check<ArgumentError>(options.momentum >= 0 && options.momentum <= 1, "batch_norm: momentum ", options.momentum,
                       " is not in [0, 1]");
  Tape& t = tape();
  const bool is_train = t.mode == Mode::train && !options.use_running_statistics;
  check(!is_train || x.rows() > 1, "batch_norm: training needs more than one row, got x ", x);
  check<StateError>(!is_train || !inside_task(),
                    "batch_norm: the statistics of shards that run side by side would mix");
  const std::size_t rows = x.rows(), n = x.cols();
  const double count = static_cast<double>(rows);
  double *const mean = t.allocate<double>(n), *const scales = t.allocate<double>(n), *const var = t.allocate<double>(n);
  for (std::size_t j = 0; j < n; ++j) {
    mean[j] = is_train ? 0 : real_to_double(running_mean.data()[j]);
    var[j] = is_train ? 0 : real_to_double(running_var.data()[j]);
  }
  if (is_train) {
    for (std::size_t i = 0; i < x.numel(); ++i) mean[i % n] += real_to_double(x.data()[i]) / count;
    for (std::size_t i = 0; i < x.numel(); ++i)
      var[i % n] += std::pow(real_to_double(x.data()[i]) - mean[i % n], 2) / count;
    const double m = options.momentum;
    for (std::size_t j = 0; j < n; ++j) {  // the running variance is the unbiased one
      real &to_mean = running_mean.data()[j], &to_var = running_var.data()[j];
      to_mean = static_cast<real>((1 - m) * real_to_double(to_mean) + m * mean[j]);
      to_var = static_cast<real>((1 - m) * real_to_double(to_var) + m * var[j] * count / (count - 1));
    }
  }
  for (std::size_t j = 0; j < n; ++j) scales[j] = 1 / std::sqrt(var[j] + options.eps);

  const auto x_hat = [=](std::size_t i) { return (real_to_double(x.data()[i]) - mean[i % n]) * scales[i % n]; };
  Tensor y = t.create(x.shape());
  for (std::size_t i = 0; i < y.numel(); ++i)
    y.data()[i] = static_cast<real>(real_to_double(gain.data()[i % n]) * x_hat(i)) + bias.data()[i % n];
  record("batch_norm", y, {x, gain, bias}, [=] {
    const real* const dy = grad_of(y);
    double *const sums = tape().allocate<double>(n), *const along = tape().allocate<double>(n);
    std::fill_n(sums, n, 0.0);
    std::fill_n(along, n, 0.0);
    for (std::size_t i = 0; i < y.numel(); ++i) {
      sums[i % n] += real_to_double(dy[i]);
      along[i % n] += real_to_double(dy[i]) * x_hat(i);
    }
    real* const dbias = bias.requires_grad() ? grad_of(bias) : nullptr;
    real* const dgain = gain.requires_grad() ? grad_of(gain) : nullptr;
    for (std::size_t j = 0; j < n; ++j) {
      if (dbias) dbias[j] += static_cast<real>(sums[j]);
      if (dgain) dgain[j] += static_cast<real>(along[j]);
    }
    if (!x.requires_grad()) return;
    real* const dx = grad_of(x);
    for (std::size_t i = 0; i < x.numel(); ++i) {
      const std::size_t j = i % n;
      const double centred = is_train ? (sums[j] + x_hat(i) * along[j]) / count : 0;
      dx[i] += static_cast<real>(real_to_double(gain.data()[j]) * scales[j] * (real_to_double(dy[i]) - centred));
    }
  });
  return y;
}

}  // namespace seppo::inline SEPPO_ABI
