// Extremes, softmax and its relatives on one row: one pass for the maximum, one for the exponentials and their sum, one
// to scale. Layer norm and RMS norm, with the sum and the dropouts around them: kNormRows rows at a time, stage by
// stage, so that the dependent sums of one row hide behind those of the others. Batch norm: plain loops, which the
// compiler vectorises.
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
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    accumulate(hn::Mul(load(y + j, count), hn::Sub(load(dy + j, count), total)), beta, dx + j, count);
  });
}

LogSumExp log_sum_exp(const real* x, std::size_t n) {
  const real shift = row_max(x, n);
  const V s = set(shift), zero = hn::Zero(D());
  DoubleSum below;
  const real total = sum_blocks(n, [&](std::size_t begin, std::size_t size) HWY_ATTR {
    V sum = zero;
    for_each(size, [&](std::size_t j, std::size_t count) HWY_ATTR {
      const V difference = hn::Sub(load(x + begin + j, count), s);
      sum = hn::Add(sum, first(exp_nonpositive(difference), zero, count));
      below.add(first(difference, zero, count));
    });
    return sum;
  });
  return {shift, std::log(total), below.total()};
}

void log_softmax_row_backward(real* dx, real beta, const real* dy, const real* y, std::size_t n) {
  const V total = set(sum_blocks(n, [&](std::size_t begin, std::size_t size) HWY_ATTR {
    V sum = hn::Zero(D());
    for_each(size, [&](std::size_t j, std::size_t count) HWY_ATTR { sum = hn::Add(sum, load(dy + begin + j, count)); });
    return sum;
  }));
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    accumulate(hn::NegMulAdd(exp_nonpositive(load(y + j, count)), total, load(dy + j, count)), beta, dx + j, count);
  });
}

void log_sum_exp_backward(real* dx, real beta, const real* x, const LogSumExp& sum, real uniform, real scale,
                          std::size_t n) {
  const V m = set(sum.max), l = set(sum.log_sum), f = set(scale), u = set(uniform);
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    const V p = exp_nonpositive(hn::Sub(hn::Sub(load(x + j, count), m), l));
    accumulate(hn::Mul(f, hn::Sub(p, u)), beta, dx + j, count);
  });
}

real extreme(const real* x, real sign, std::size_t n) {
  const V s = set(sign), lowest = set(-std::numeric_limits<real>::infinity());
  V top = lowest;
  auto nans = hn::IsNaN(lowest);
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    const V v = first(hn::Mul(s, load(x + j, count)), lowest, count);
    top = hn::Max(top, v);
    nans = hn::Or(nans, hn::IsNaN(v));
  });
  return hn::AllFalse(D(), nans) ? sign * max_lanes(top) : std::numeric_limits<real>::quiet_NaN();
}

// Dropout factors for whole rows of a matrix.
class RowFactors {
 public:
  RowFactors(const Dropping& dropping, std::size_t cols, real* row)
      : active_(dropping.p > 0), random_(dropping), cols_(cols), row_(row) {}

  bool active() const { return active_; }
  HWY_INLINE const real* of(std::size_t row) {
    constexpr std::size_t kGroup = DropoutFactors::kGroup;
    const std::size_t begin = row * cols_, end = begin + cols_;
    if (begin / kGroup == (end - 1) / kGroup) return draw(begin / kGroup) + begin % kGroup;
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
    for_each(in.cols, [&](std::size_t j, std::size_t n) HWY_ATTR {
      store(hn::MulAdd(load(y + j, n), load(factors + j, n), load(x + j, n)), row + j, n);
    });
  } else {
    for_each(in.cols, [&](std::size_t j, std::size_t n)
                          HWY_ATTR { store(hn::Add(load(x + j, n), load(y + j, n)), row + j, n); });
  }
  return row;
}

void find_moments(RowMoments* moments, const real* const* rows, std::size_t count, bool is_centred, double eps,
                  std::size_t n) {
  double variance[kNormRows];
  for (std::size_t r = 0; r < count; ++r) {
    moments[r] = {};
    if (!is_centred) continue;
    DoubleSum sum;
    for_each(n, [&](std::size_t j, std::size_t m) HWY_ATTR { sum.add(load(rows[r] + j, m)); });
    const double mean = sum.total() / static_cast<double>(n);
    moments[r].center = static_cast<real>(mean);
    moments[r].shift = static_cast<real>(mean - static_cast<double>(moments[r].center));
  }
  for (std::size_t r = 0; r < count; ++r) {
    DoubleSum squares;
    const V c = set(moments[r].center), s = set(moments[r].shift), zero = hn::Zero(D());
    for_each(n, [&](std::size_t j, std::size_t m)
                    HWY_ATTR { squares.add_square(first(hn::Sub(hn::Sub(load(rows[r] + j, m), c), s), zero, m)); });
    variance[r] = squares.total() / static_cast<double>(n);
  }
  for (std::size_t r = 0; r < count; ++r) moments[r].rstd = static_cast<real>(1 / std::sqrt(variance[r] + eps));
}

void normalise(real* out, RowMoments* moments, const NormInputs& in, double eps, real* scratch) {
  RowFactors before(in.before, in.cols, scratch), after(in.after, in.cols, scratch);
  for (std::size_t i = in.first; i < in.last; i += kNormRows) {
    const std::size_t count = std::min(kNormRows, in.last - i);
    const real* rows[kNormRows];
    for (std::size_t r = 0; r < count; ++r) rows[r] = norm_input(in, before, i + r, out + (i + r) * in.cols);
    find_moments(moments + i, rows, count, in.is_centred, eps, in.cols);
    for (std::size_t r = 0; r < count; ++r) {
      const RowMoments& m = moments[i + r];
      const V c = set(m.center), s = set(m.shift), rstd = set(m.rstd);
      const real* const factors = after.active() ? after.of(i + r) : nullptr;
      real* const to = out + (i + r) * in.cols;
      for_each(in.cols, [&](std::size_t j, std::size_t n) HWY_ATTR {
        const V normal = hn::Mul(hn::Sub(hn::Sub(load(rows[r] + j, n), c), s), rstd);
        const V bias = in.bias ? load(in.bias + j, n) : hn::Zero(D());
        const V y = hn::MulAdd(normal, load(in.gain + j, n), bias);
        store(factors ? hn::Mul(y, load(factors + j, n)) : y, to + j, n);
      });
    }
  }
}

// With n = x_hat and g = dout gain: dx = rstd (g - mean(g) - n mean(g n)), without mean(g) for RMS norm.
void normalise_backward(const NormGradients& d, const real* dout, const NormInputs& in, const RowMoments* moments,
                        real* scratch) {
  const real inverse = 1 / static_cast<real>(in.cols);
  RowFactors before(in.before, in.cols, scratch), after(in.after, in.cols, scratch);
  real *const sums = scratch + in.cols, *const dropped = sums + kNormRows * in.cols;
  for (std::size_t i = in.first; i < in.last; i += kNormRows) {
    const std::size_t count = std::min(kNormRows, in.last - i);
    const real *x[kNormRows], *dy[kNormRows];
    real mean_g[kNormRows], mean_gn[kNormRows];
    for (std::size_t r = 0; r < count; ++r) {
      x[r] = norm_input(in, before, i + r, sums + r * in.cols);
      dy[r] = dout + (i + r) * in.cols;
      if (!after.active()) continue;
      real* const kept = dropped + r * in.cols;
      multiply_row(kept, dy[r], after.of(i + r), in.cols);
      dy[r] = kept;
    }
    for (std::size_t r = 0; r < count; ++r) {
      const RowMoments& m = moments[i + r];
      const V c = set(m.center), s = set(m.shift), rstd = set(m.rstd);
      double total_g = 0, total_gn = 0;
      for (std::size_t begin = 0; begin < in.cols; begin += block_of_terms()) {
        V sum_g = hn::Zero(D()), sum_gn = hn::Zero(D());
        for_each(std::min(block_of_terms(), in.cols - begin), [&](std::size_t at, std::size_t n) HWY_ATTR {
          const std::size_t j = begin + at;
          const V normal = hn::Mul(hn::Sub(hn::Sub(load(x[r] + j, n), c), s), rstd);
          const V v = load(dy[r] + j, n), g = hn::Mul(v, load(in.gain + j, n));
          sum_g = hn::Add(sum_g, g);
          sum_gn = hn::MulAdd(g, normal, sum_gn);
          if (d.dgain) accumulate(hn::Mul(v, normal), 1, d.dgain + j, n);
          if (d.dbias) accumulate(v, 1, d.dbias + j, n);
        });
        total_g += double{sum_lanes(sum_g)};
        total_gn += double{sum_lanes(sum_gn)};
      }
      mean_g[r] = in.is_centred ? static_cast<real>(total_g) * inverse : real{0};
      mean_gn[r] = static_cast<real>(total_gn) * inverse;
    }
    if (!d.dx && !d.dy) continue;
    for (std::size_t r = 0; r < count; ++r) {
      const RowMoments& m = moments[i + r];
      const V c = set(m.center), s = set(m.shift), rstd = set(m.rstd), g0 = set(mean_g[r]), gn = set(mean_gn[r]);
      const real* const factors = before.active() && d.dy ? before.of(i + r) : nullptr;
      const std::size_t row = (i + r) * in.cols;
      for_each(in.cols, [&](std::size_t j, std::size_t n) HWY_ATTR {
        const V normal = hn::Mul(hn::Sub(hn::Sub(load(x[r] + j, n), c), s), rstd);
        const V g = hn::Mul(load(dy[r] + j, n), load(in.gain + j, n));
        const V term = hn::Mul(rstd, hn::NegMulAdd(normal, gn, hn::Sub(g, g0)));
        if (d.dx) accumulate(term, d.beta_x, d.dx + row + j, n);
        if (d.dy) accumulate(factors ? hn::Mul(term, load(factors + j, n)) : term, d.beta_y, d.dy + row + j, n);
      });
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

void column_norm(real* y, const ColumnNorm& in) {
  const auto [x, gain, bias, mean, scale, rows, cols] = in;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j)
      y[i * cols + j] = static_cast<real>(double{gain[j]} * ((double{x[i * cols + j]} - mean[j]) * scale[j])) + bias[j];
}

void column_norm_sums(double* sums, double* along, const real* dy, const ColumnNorm& in) {
  const auto [x, gain, bias, mean, scale, rows, cols] = in;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      sums[j] += double{dy[i * cols + j]};
      along[j] += double{dy[i * cols + j]} * ((double{x[i * cols + j]} - mean[j]) * scale[j]);
    }
}

void column_norm_backward(real* dx, const real* dy, const double* sums, const double* along, const ColumnNorm& in) {
  const auto [x, gain, bias, mean, scale, rows, cols] = in;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) {
      const double x_hat = (double{x[i * cols + j]} - mean[j]) * scale[j], slope = double{dy[i * cols + j]};
      dx[i * cols + j] += static_cast<real>(double{gain[j]} * scale[j] * (slope - sums[j] - x_hat * along[j]));
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
SEPPO_KERNEL(extreme);
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
