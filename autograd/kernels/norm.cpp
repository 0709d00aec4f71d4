#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "seppo/autograd/kernels/norm.cpp"
#include <hwy/foreach_target.h>

#include <seppo/autograd/kernels/dropout-inl.h>
#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/kernels/simd-inl.h>

#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

// The factors of dropout for whole rows of a matrix.
class RowFactors {
 public:
  RowFactors(const Dropping& dropping, std::size_t cols, real* row)
      : active_(dropping.p > 0), random_(dropping.p, dropping.key), cols_(cols), row_(row) {}

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

RowMoments row_moments(const real* x, double epsilon, std::size_t n) {
  DoubleSum sum;
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR { sum.add(load(x + j, count)); });
  const double mean = sum.total() / static_cast<double>(n);
  const real center = static_cast<real>(mean);
  const real shift = static_cast<real>(mean - static_cast<double>(center));
  const V c = set(center), s = set(shift), zero = hn::Zero(D());
  DoubleSum squares;
  for_each(n, [&](std::size_t j, std::size_t count)
                  HWY_ATTR { squares.add_square(first(hn::Sub(hn::Sub(load(x + j, count), c), s), zero, count)); });
  const double variance = squares.total() / static_cast<double>(n);
  return {center, shift, static_cast<real>(1 / std::sqrt(variance + epsilon))};
}

// What is normalised: x, or x + dropout(y), written to `row` if it must be computed.
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

void LayerNorm(real* out, RowMoments* moments, const NormInputs& in, double epsilon, real* scratch) {
  RowFactors before(in.before, in.cols, scratch), after(in.after, in.cols, scratch);
  real* const sum = scratch + in.cols;
  for (std::size_t i = 0; i < in.rows; ++i, out += in.cols) {
    const real* const x = norm_input(in, before, i, sum);
    moments[i] = row_moments(x, epsilon, in.cols);
    const V c = set(moments[i].center), s = set(moments[i].shift), r = set(moments[i].rstd);
    const real* const factors = after.active() ? after.of(i) : nullptr;
    for_each(in.cols, [&](std::size_t j, std::size_t n) HWY_ATTR {
      const V normal = hn::Mul(hn::Sub(hn::Sub(load(x + j, n), c), s), r);
      const V y = hn::MulAdd(normal, load(in.gain + j, n), load(in.bias + j, n));
      store(factors ? hn::Mul(y, load(factors + j, n)) : y, out + j, n);
    });
  }
}

// With n = x_hat and g = dout gain: dx = rstd (g - mean(g) - n mean(g n)).
void LayerNormBackward(const NormGradients& d, const real* dout, const NormInputs& in, const RowMoments* moments,
                       real* scratch) {
  const V zero = hn::Zero(D()), inverse = set(1 / static_cast<real>(in.cols));
  RowFactors before(in.before, in.cols, scratch), after(in.after, in.cols, scratch);
  real *const sum = scratch + in.cols, *const dropped = scratch + 2 * in.cols;
  for (std::size_t i = 0; i < in.rows; ++i) {
    const real* dy = dout + i * in.cols;
    if (after.active()) {
      const real* const factors = after.of(i);
      for_each(in.cols, [&](std::size_t j, std::size_t n)
                            HWY_ATTR { store(hn::Mul(load(dy + j, n), load(factors + j, n)), dropped + j, n); });
      dy = dropped;
    }
    const real* const x = norm_input(in, before, i, sum);
    const V c = set(moments[i].center), s = set(moments[i].shift), r = set(moments[i].rstd);
    V sum_g = zero, sum_gn = zero;
    for_each(in.cols, [&](std::size_t j, std::size_t n) HWY_ATTR {
      const V normal = hn::Mul(hn::Sub(hn::Sub(load(x + j, n), c), s), r);
      const V v = load(dy + j, n), g = hn::Mul(v, load(in.gain + j, n));
      sum_g = hn::Add(sum_g, g);
      sum_gn = hn::MulAdd(g, normal, sum_gn);
      if (d.dgain) accumulate(hn::Mul(v, normal), 1, d.dgain + j, n);
      if (d.dbias) accumulate(v, 1, d.dbias + j, n);
    });
    if (!d.dx && !d.dy) continue;
    const real* const factors = before.active() && d.dy ? before.of(i) : nullptr;
    const V mean_g = hn::Mul(set(sum_lanes(sum_g)), inverse), mean_gn = hn::Mul(set(sum_lanes(sum_gn)), inverse);
    for_each(in.cols, [&](std::size_t j, std::size_t n) HWY_ATTR {
      const V normal = hn::Mul(hn::Sub(hn::Sub(load(x + j, n), c), s), r);
      const V g = hn::Mul(load(dy + j, n), load(in.gain + j, n));
      const V term = hn::Mul(r, hn::NegMulAdd(normal, mean_gn, hn::Sub(g, mean_g)));
      if (d.dx) accumulate(term, d.beta_x, d.dx + i * in.cols + j, n);
      if (d.dy) accumulate(factors ? hn::Mul(term, load(factors + j, n)) : term, d.beta_y, d.dy + i * in.cols + j, n);
    });
  }
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {

HWY_EXPORT(LayerNorm);
HWY_EXPORT(LayerNormBackward);

void layer_norm(real* out, RowMoments* moments, const NormInputs& in, double epsilon, real* scratch) {
  HWY_DYNAMIC_DISPATCH(LayerNorm)(out, moments, in, epsilon, scratch);
}

void layer_norm_backward(const NormGradients& gradients, const real* dout, const NormInputs& in,
                         const RowMoments* moments, real* scratch) {
  HWY_DYNAMIC_DISPATCH(LayerNormBackward)(gradients, dout, in, moments, scratch);
}

}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
