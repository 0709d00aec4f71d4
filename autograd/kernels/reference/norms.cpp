// Layer norm and RMS norm over rows, with the sum and the dropouts around them; batch norm over columns.
#include "reference.h"

#include <algorithm>
#include <cmath>

namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels {
namespace reference {

// The factor of element i, 1 without dropout.
inline double factor_of(const Dropping& dropping, std::size_t i) {
  return dropping.p > 0 ? dropout_factor(dropping, i) : 1;
}

// The element to normalise: of x, or of x + dropout(y).
inline real input_of(const NormInputs& in, std::size_t i) {
  if (!in.y) return in.x[i];
  return static_cast<real>(double{in.x[i]} + double{in.y[i]} * factor_of(in.before, i));
}

// x_hat of one element.
inline double normalised(const NormInputs& in, const RowMoments& m, std::size_t i) {
  return (double{input_of(in, i)} - double{m.center} - double{m.shift}) * double{m.rstd};
}

inline RowMoments moments_of(const NormInputs& in, std::size_t row, double eps) {
  const std::size_t begin = row * in.cols, end = begin + in.cols;
  const auto n = static_cast<double>(in.cols);
  double mean = 0;
  if (in.is_centred) {
    for (std::size_t i = begin; i < end; ++i) mean += double{input_of(in, i)};
    mean /= n;
  }
  double variance = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const double difference = double{input_of(in, i)} - mean;
    variance += difference * difference;
  }
  variance /= n;
  const auto center = static_cast<real>(mean);
  return {center, static_cast<real>(mean - double{center}), static_cast<real>(1 / std::sqrt(variance + eps))};
}

void normalise(real* out, RowMoments* moments, const NormInputs& in, double eps, real*) {
  for (std::size_t row = in.first; row < in.last; ++row) {
    moments[row] = moments_of(in, row, eps);
    for (std::size_t j = 0; j < in.cols; ++j) {
      const std::size_t i = row * in.cols + j;
      const double bias = in.bias ? double{in.bias[j]} : 0;
      const double y = normalised(in, moments[row], i) * double{in.gain[j]} + bias;
      out[i] = static_cast<real>(y * factor_of(in.after, i));
    }
  }
}

// With n = x_hat and g = dout gain: dx = rstd (g - mean(g) - n mean(g n)), without mean(g) for RMS norm.
void normalise_backward(const NormGradients& d, const real* dout, const NormInputs& in, const RowMoments* moments,
                        real*) {
  for (std::size_t row = in.first; row < in.last; ++row) {
    const RowMoments& m = moments[row];
    const auto slope = [&](std::size_t i) { return double{dout[i]} * factor_of(in.after, i); };
    double mean_g = 0, mean_gn = 0;
    for (std::size_t j = 0; j < in.cols; ++j) {
      const std::size_t i = row * in.cols + j;
      const double x_hat = normalised(in, m, i);
      const double g = slope(i) * double{in.gain[j]};
      mean_g += g / static_cast<double>(in.cols);
      mean_gn += g * x_hat / static_cast<double>(in.cols);
      if (d.dgain) accumulate(d.dgain[j], 1, slope(i) * x_hat);
      if (d.dbias) accumulate(d.dbias[j], 1, slope(i));
    }
    if (!in.is_centred) mean_g = 0;
    for (std::size_t j = 0; j < in.cols; ++j) {
      const std::size_t i = row * in.cols + j;
      const double g = slope(i) * double{in.gain[j]};
      const double dx = double{m.rstd} * (g - mean_g - normalised(in, m, i) * mean_gn);
      if (d.dx) accumulate(d.dx[i], d.beta_x, dx);
      if (d.dy) accumulate(d.dy[i], d.beta_y, dx * factor_of(in.before, i));
    }
  }
}

void column_moments(double* mean, double* squares, const real* x, std::size_t rows, std::size_t cols) {
  for (std::size_t j = 0; j < cols; ++j) {
    mean[j] = 0;
    squares[j] = 0;
    for (std::size_t i = 0; i < rows; ++i) mean[j] += double{x[i * cols + j]};
    mean[j] /= static_cast<double>(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      const double difference = double{x[i * cols + j]} - mean[j];
      squares[j] += difference * difference;
    }
  }
}

inline double normalised(const ColumnNorm& in, std::size_t i, std::size_t j) {
  return (double{in.x[i * in.cols + j]} - in.mean[j]) * in.scale[j];
}

void column_norm(real* y, const ColumnNorm& in) {
  for (std::size_t i = 0; i < in.rows; ++i)
    for (std::size_t j = 0; j < in.cols; ++j)
      y[i * in.cols + j] = static_cast<real>(double{in.gain[j]} * normalised(in, i, j) + double{in.bias[j]});
}

void column_norm_sums(double* sums, double* along, const real* dy, const ColumnNorm& in) {
  for (std::size_t i = 0; i < in.rows; ++i)
    for (std::size_t j = 0; j < in.cols; ++j) {
      const double slope{dy[i * in.cols + j]};
      sums[j] += slope;
      along[j] += slope * normalised(in, i, j);
    }
}

void column_norm_backward(real* dx, const real* dy, const double* sums, const double* along, const ColumnNorm& in) {
  for (std::size_t i = 0; i < in.rows; ++i)
    for (std::size_t j = 0; j < in.cols; ++j) {
      const double slope = double{dy[i * in.cols + j]} - sums[j] - normalised(in, i, j) * along[j];
      accumulate(dx[i * in.cols + j], 1, double{in.gain[j]} * in.scale[j] * slope);
    }
}

}  // namespace reference

SEPPO_REFERENCE_KERNEL(normalise);
SEPPO_REFERENCE_KERNEL(normalise_backward);
SEPPO_REFERENCE_KERNEL(column_moments);
SEPPO_REFERENCE_KERNEL(column_norm);
SEPPO_REFERENCE_KERNEL(column_norm_sums);
SEPPO_REFERENCE_KERNEL(column_norm_backward);

}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
