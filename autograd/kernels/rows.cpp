// The maximum or minimum, softmax and its relatives on one row: one pass for the maximum, one for the exponentials and
// their sum, one to scale. Layer norm and RMS norm, with the sum and the dropouts around them: kNormRows rows at a
// time, stage by stage, so that the dependent sums of one row hide behind those of the others. Batch norm: plain loops,
// which the compiler vectorises.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/rows.cpp"
#include <hwy/foreach_target.h>

#include "dropout-inl.h"
#include "kernels.h"

#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::HWY_NAMESPACE {
namespace {

void softmax_row(real* y, const real* x, std::size_t count, std::size_t n) {
  const real total = exp_row(y, x, 1, row_max(x, count), count);
  const real inverse = total == 0 ? real{0} : 1 / total;  // all were -inf
  for (std::size_t j = 0; j < count; ++j) y[j] *= inverse;
  std::fill(y + count, y + n, real{0});
}

void softmax_row_backward(real* dx, real beta, const real* dy, const real* y, std::size_t n) {
  const V total = set(dot_row(dy, y, n));
  for_each(n, [&](Part at) HWY_ATTR { accumulate(load(y, at) * (load(dy, at) - total), beta, dx, at); });
}

LogSumExp log_sum_exp(const real* x, std::size_t n) {
  const V zero = hn::Zero(D());
  const real max = row_max(x, n);
  const V shift = set(max);
  DoubleSum below;
  const real total = sum_parts(n, [&](V sum, Part at) HWY_ATTR {
    const V difference = load(x, at) - shift;
    below.add(first(difference, zero, at));
    return sum + first(exp_nonpositive(difference), zero, at);
  });
  return {.max = max, .log_sum = std::log(total), .below = below.total()};
}

void log_softmax_row_backward(real* dx, real beta, const real* dy, const real* y, std::size_t n) {
  const V total = set(sum_parts(n, [&](V sum, Part at) HWY_ATTR { return sum + load(dy, at); }));
  for_each(n, [&](Part at) HWY_ATTR {
    const V p = exp_nonpositive(load(y, at));
    accumulate(hn::NegMulAdd(p, total, load(dy, at)), beta, dx, at);
  });
}

void log_sum_exp_backward(real* dx, real beta, const real* x, const LogSumExp& sum, real uniform, real scale,
                          std::size_t n) {
  const V max = set(sum.max);
  const V log_sum = set(sum.log_sum);
  for_each(n, [&](Part at) HWY_ATTR {
    const V p = exp_nonpositive(load(x, at) - max - log_sum);
    accumulate(set(scale) * (p - set(uniform)), beta, dx, at);
  });
}

real max_or_min(const real* x, real sign, std::size_t n) {
  const V lowest = set(-std::numeric_limits<real>::infinity());
  V top = lowest;
  auto is_nan = hn::IsNaN(lowest);  // in each lane
  for_each(n, [&](Part at) HWY_ATTR {
    const V v = first(set(sign) * load(x, at), lowest, at);
    top = hn::Max(top, v);
    is_nan = hn::Or(is_nan, hn::IsNaN(v));
  });
  return hn::AllFalse(D(), is_nan) ? sign * max_lanes(top) : std::numeric_limits<real>::quiet_NaN();
}

// Dropout factors for whole rows of a matrix.
class RowFactors {
 public:
  RowFactors(const Dropping& dropping, std::size_t cols, real* row)
      : active_(dropping.p > 0), random_(dropping), cols_(cols), row_(row) {}

  bool active() const { return active_; }
  HWY_INLINE const real* of(std::size_t row) {
    constexpr std::size_t kGroup = DropoutFactors::kGroup;
    const std::size_t begin = row * cols_;
    const std::size_t end = begin + cols_;
    const bool is_in_one_group = begin / kGroup == (end - 1) / kGroup;
    if (is_in_one_group) return draw(begin / kGroup) + begin % kGroup;
    for (std::size_t i = begin, count; i < end; i += count) {
      count = std::min(end - i, kGroup - i % kGroup);
      std::copy_n(draw(i / kGroup) + i % kGroup, count, row_ + (i - begin));
    }
    return row_;
  }

 private:
  HWY_INLINE const real* draw(std::size_t group) {
    if (group != group_) random_(factors_, static_cast<std::uint32_t>(group));
    group_ = group;
    return factors_;
  }

  bool active_;
  DropoutFactors random_;
  std::size_t cols_;
  real* row_;
  std::size_t group_ = static_cast<std::size_t>(-1);
  real factors_[DropoutFactors::kGroup];
};

// The row to normalise: x, or x + dropout(y), which is computed into `row`.
HWY_INLINE const real* norm_input(const NormInputs& in, RowFactors& before, std::size_t i, real* row) {
  const real* const x = in.x + i * in.cols;
  if (!in.y) return x;
  const real* const y = in.y + i * in.cols;
  if (before.active()) {
    const real* const factors = before.of(i);
    for_each(in.cols,
             [&](Part at) HWY_ATTR { store(hn::MulAdd(load(y, at), load(factors, at), load(x, at)), row, at); });
  } else {
    for_each(in.cols, [&](Part at) HWY_ATTR { store(load(x, at) + load(y, at), row, at); });
  }
  return row;
}

// The moments of a row, but for rstd.
HWY_INLINE RowMoments mean_of(const real* row, std::size_t n) {
  DoubleSum sum;
  for_each(n, [&](Part at) HWY_ATTR { sum.add(load(row, at)); });
  const double mean = sum.total() / static_cast<double>(n);
  const auto center = static_cast<real>(mean);
  return {.center = center, .shift = static_cast<real>(mean - double{center}), .rstd = 0};
}

HWY_INLINE double variance_of(const real* row, const RowMoments& mean, std::size_t n) {
  const V center = set(mean.center);
  const V shift = set(mean.shift);
  DoubleSum squares;
  for_each(n, [&](Part at) HWY_ATTR {
    const V difference = load(row, at) - center - shift;
    squares.add_square(first(difference, hn::Zero(D()), at));
  });
  return squares.total() / static_cast<double>(n);
}

void find_moments(RowMoments* moments, const real* const* rows, std::size_t count, bool is_centred, double eps,
                  std::size_t n) {
  double variance[kNormRows];
  for (std::size_t r = 0; r < count; ++r) moments[r] = is_centred ? mean_of(rows[r], n) : RowMoments{};
  for (std::size_t r = 0; r < count; ++r) variance[r] = variance_of(rows[r], moments[r], n);
  for (std::size_t r = 0; r < count; ++r) moments[r].rstd = static_cast<real>(1 / std::sqrt(variance[r] + eps));
}

// x_hat of the elements of a row.
struct Normaliser {
  V center, shift, rstd;

  explicit HWY_INLINE Normaliser(const RowMoments& m) : center(set(m.center)), shift(set(m.shift)), rstd(set(m.rstd)) {}

  HWY_INLINE V operator()(V x) const { return (x - center - shift) * rstd; }
};

// out = factors (gain x_hat + bias) for one row; factors may be null
HWY_INLINE void normalise_row(real* out, const real* row, const RowMoments& moments, const NormInputs& in,
                              const real* factors) {
  const Normaliser normalised(moments);
  const real* const gain = in.gain;  // locals, since vectors that are stored may alias a struct
  const real* const bias = in.bias;
  for_each(in.cols, [&](Part at) HWY_ATTR {
    const V x_hat = normalised(load(row, at));
    const V shift = bias ? load(bias, at) : hn::Zero(D());
    const V y = hn::MulAdd(x_hat, load(gain, at), shift);
    store(factors ? y * load(factors, at) : y, out, at);
  });
}

void normalise(real* out, RowMoments* moments, const NormInputs& in, double eps, real* scratch) {
  RowFactors before(in.before, in.cols, scratch);
  RowFactors after(in.after, in.cols, scratch);
  for (std::size_t i = in.first; i < in.last; i += kNormRows) {
    const std::size_t count = std::min(kNormRows, in.last - i);
    const real* rows[kNormRows];
    for (std::size_t r = 0; r < count; ++r) rows[r] = norm_input(in, before, i + r, out + (i + r) * in.cols);
    find_moments(moments + i, rows, count, in.is_centred, eps, in.cols);
    for (std::size_t r = 0; r < count; ++r) {
      const real* const factors = after.active() ? after.of(i + r) : nullptr;
      normalise_row(out + (i + r) * in.cols, rows[r], moments[i + r], in, factors);
    }
  }
}

// A row of the backward pass: what was normalised, and the gradient of y = gain x_hat + bias.
struct SlopeRow {
  const real *x, *dy;
};

// Over a row, with g = dy gain.
struct SlopeMeans {
  real g, g_x_hat;
};

// The gradient of y in row i: dout, or its dropout, which is computed into `row`.
HWY_INLINE const real* norm_slope(const real* dout, RowFactors& after, std::size_t i, std::size_t cols, real* row) {
  const real* const slope = dout + i * cols;
  if (!after.active()) return slope;
  multiply_row(row, slope, after.of(i), cols);
  return row;
}

// The means of the row, by the inverse of its size; on the way dgain += dy x_hat, dbias += dy.
HWY_INLINE SlopeMeans slope_means(SlopeRow row, real inverse, const RowMoments& moments, const NormInputs& in,
                                  NormGradients d) {
  const Normaliser normalised(moments);
  const real* const gain = in.gain;
  double total_g = 0, total_g_x_hat = 0;
  for (std::size_t begin = 0; begin < in.cols; begin += block_of_terms()) {
    V sum_g = hn::Zero(D()), sum_g_x_hat = hn::Zero(D());
    for_each(begin, std::min(begin + block_of_terms(), in.cols), [&](Part at) HWY_ATTR {
      const V x_hat = normalised(load(row.x, at));
      const V dy = load(row.dy, at);
      const V g = dy * load(gain, at);
      sum_g += g;
      sum_g_x_hat = hn::MulAdd(g, x_hat, sum_g_x_hat);
      if (d.dgain) accumulate(dy * x_hat, 1, d.dgain, at);
      if (d.dbias) accumulate(dy, 1, d.dbias, at);
    });
    total_g += double{sum_lanes(sum_g)};
    total_g_x_hat += double{sum_lanes(sum_g_x_hat)};
  }
  return {.g = in.is_centred ? static_cast<real>(total_g) * inverse : real{0},
          .g_x_hat = static_cast<real>(total_g_x_hat) * inverse};
}

// dx += rstd (g - mean g - x_hat mean(g x_hat)), and the same times factors, which may be null, to dy. The row begins
// at element `first` of both.
HWY_INLINE void add_input_gradients(NormGradients d, std::size_t first, SlopeRow row, const SlopeMeans& means,
                                    const RowMoments& moments, const NormInputs& in, const real* factors) {
  const Normaliser normalised(moments);
  const real* const gain = in.gain;
  const V mean_g = set(means.g);
  const V mean_g_x_hat = set(means.g_x_hat);
  for_each(in.cols, [&](Part at) HWY_ATTR {
    const V x_hat = normalised(load(row.x, at));
    const V g = load(row.dy, at) * load(gain, at);
    const V dx = normalised.rstd * hn::NegMulAdd(x_hat, mean_g_x_hat, g - mean_g);
    if (d.dx) accumulate(dx, d.beta_x, d.dx + first, at);
    if (d.dy) accumulate(factors ? dx * load(factors, at) : dx, d.beta_y, d.dy + first, at);
  });
}

void normalise_backward(const NormGradients& d, const real* dout, const NormInputs& in, const RowMoments* moments,
                        real* scratch) {
  RowFactors before(in.before, in.cols, scratch);
  RowFactors after(in.after, in.cols, scratch);
  const real inverse = 1 / static_cast<real>(in.cols);
  real* const inputs = scratch + in.cols;
  real* const slopes = inputs + kNormRows * in.cols;
  for (std::size_t i = in.first; i < in.last; i += kNormRows) {
    const std::size_t count = std::min(kNormRows, in.last - i);
    SlopeRow rows[kNormRows];
    SlopeMeans means[kNormRows];
    for (std::size_t r = 0; r < count; ++r) {
      rows[r].x = norm_input(in, before, i + r, inputs + r * in.cols);
      rows[r].dy = norm_slope(dout, after, i + r, in.cols, slopes + r * in.cols);
    }
    for (std::size_t r = 0; r < count; ++r) means[r] = slope_means(rows[r], inverse, moments[i + r], in, d);
    if (!d.dx && !d.dy) continue;
    for (std::size_t r = 0; r < count; ++r) {
      const real* const factors = before.active() && d.dy ? before.of(i + r) : nullptr;
      add_input_gradients(d, (i + r) * in.cols, rows[r], means[r], moments[i + r], in, factors);
    }
  }
}

void column_moments(double* mean, double* squares, const real* x, std::size_t rows, std::size_t cols) {
  std::fill_n(mean, cols, 0.0);
  std::fill_n(squares, cols, 0.0);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) mean[j] += double{x[i * cols + j]};
  for (std::size_t j = 0; j < cols; ++j) mean[j] /= static_cast<double>(rows);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      const double difference = double{x[i * cols + j]} - mean[j];
      squares[j] += difference * difference;
    }
}

HWY_INLINE double x_hat_of(const ColumnNorm& in, std::size_t i, std::size_t j) {
  return (double{in.x[i * in.cols + j]} - in.mean[j]) * in.scale[j];
}

void column_norm(real* y, const ColumnNorm& in) {
  for (std::size_t i = 0; i < in.rows; ++i)
    for (std::size_t j = 0; j < in.cols; ++j)
      y[i * in.cols + j] = static_cast<real>(double{in.gain[j]} * x_hat_of(in, i, j)) + in.bias[j];
}

void column_norm_sums(double* sums, double* along, const real* dy, const ColumnNorm& in) {
  for (std::size_t i = 0; i < in.rows; ++i)
    for (std::size_t j = 0; j < in.cols; ++j) {
      const double slope{dy[i * in.cols + j]};
      sums[j] += slope;
      along[j] += slope * x_hat_of(in, i, j);
    }
}

void column_norm_backward(real* dx, const real* dy, const double* sums, const double* along, const ColumnNorm& in) {
  for (std::size_t i = 0; i < in.rows; ++i)
    for (std::size_t j = 0; j < in.cols; ++j) {
      const double slope = double{dy[i * in.cols + j]} - sums[j] - x_hat_of(in, i, j) * along[j];
      dx[i * in.cols + j] += static_cast<real>(double{in.gain[j]} * in.scale[j] * slope);
    }
}

}  // namespace
}  // namespace kernels::HWY_NAMESPACE
}  // namespace SEPPO_ABI
}  // namespace seppo
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels {
SEPPO_KERNEL(softmax_row);
SEPPO_KERNEL(softmax_row_backward);
SEPPO_KERNEL(log_sum_exp);
SEPPO_KERNEL(log_softmax_row_backward);
SEPPO_KERNEL(log_sum_exp_backward);
SEPPO_KERNEL(max_or_min);
SEPPO_KERNEL(normalise);
SEPPO_KERNEL(normalise_backward);
SEPPO_KERNEL(column_moments);
SEPPO_KERNEL(column_norm);
SEPPO_KERNEL(column_norm_sums);
SEPPO_KERNEL(column_norm_backward);
}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
#endif
