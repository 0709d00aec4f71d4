// Vector helpers and passes over rows, shared by the kernels; included once per instruction set by Highway's
// foreach_target.h, hence the unusual guard.
#if defined(SEPPO_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SEPPO_SIMD_INL_H
#undef SEPPO_SIMD_INL_H
#else
#define SEPPO_SIMD_INL_H
#endif

#include "real.h"

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>
#include <algorithm>
#include <cstddef>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<real>;
using V = hn::Vec<D>;

HWY_INLINE std::size_t lanes() { return hn::Lanes(D()); }

HWY_INLINE V set(real value) { return hn::Set(D(), value); }

// A vector of an array, or what is left at its end: `count` elements from `begin` on.
struct Part {
  std::size_t begin, count;
};

// The first `count` lanes from memory, zeros above; count == lanes() in full steps folds to a plain load.
HWY_INLINE V load(const real* p, std::size_t count) {
  const D d;
  return count >= hn::Lanes(d) ? hn::LoadU(d, p) : hn::MaskedLoad(hn::FirstN(d, count), d, p);
}
HWY_INLINE V load(const real* p, Part part) { return load(p + part.begin, part.count); }

// Where stores have no masks, BlendedStore would write back what is behind the part, which may be another thread's.
HWY_INLINE void store_first(V v, real* p, std::size_t count) {
  const D d;
#if HWY_ARCH_X86
  hn::BlendedStore(v, hn::FirstN(d, count), d, p);
#else
  HWY_ALIGN real all[hn::MaxLanes(d)];
  hn::Store(v, d, all);
  for (std::size_t i = 0; i < count; ++i) p[i] = all[i];
#endif
}

HWY_INLINE void store(V v, real* p, std::size_t count) {
  const D d;
  if (count >= hn::Lanes(d))
    hn::StoreU(v, d, p);
  else
    store_first(v, p, count);
}
HWY_INLINE void store(V v, real* p, Part part) { store(v, p + part.begin, part.count); }

// p = beta p + v, for beta 0 or 1
HWY_INLINE void accumulate(V v, real beta, real* p, Part part) { store(beta == 0 ? v : v + load(p, part), p, part); }

// v in the lanes of the part, `other` above
HWY_INLINE V first(V v, V other, Part part) {
  const D d;
  return part.count >= hn::Lanes(d) ? v : hn::IfThenElse(hn::FirstN(d, part.count), v, other);
}

// Calls f(part) for the vectors of the elements [begin, end); only the last may have fewer than lanes().
template <class F>
HWY_INLINE void for_each(std::size_t begin, std::size_t end, const F& f) {
  const std::size_t step = lanes();
  std::size_t i = begin;
  for (; i + step <= end; i += step) f(Part{i, step});
  if (i < end) f(Part{i, end - i});
}
template <class F>
HWY_INLINE void for_each(std::size_t n, const F& f) {
  for_each(0, n, f);
}

HWY_INLINE real sum_lanes(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }
HWY_INLINE real max_lanes(V v) { return hn::GetLane(hn::MaxOfLanes(D(), v)); }

// Highway's exp (1 ulp), but infinite where it overflows, and NaN for NaN.
HWY_INLINE V exp(V x) {
  constexpr double kLogOfLargest = sizeof(real) == 4 ? 88.72283 : 709.782712893384;
  const V limit = set(static_cast<real>(kLogOfLargest));
  const V infinity = set(std::numeric_limits<real>::infinity());
  const V y = hn::IfThenElse(x > limit, infinity, hn::Exp(D(), hn::Min(x, limit)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// exp for softmax, where x <= 0 but for rounding: two thirds of the instructions. 1 ulp, and 0 below the normal
// numbers.
HWY_INLINE V exp_nonpositive(V x) {
#if defined(SEPPO_FLOAT64)
  return exp(x);
#else
  // x = k log 2 + r: adding 1.5 2^23 rounds k, and 127 more leaves the exponent of 2^k in the low bits.
  const V whole = set(12582912 + 127);
  const V sum = hn::MulAdd(x, set(1.442695041f), whole);
  const V k = sum - whole;
  const V high = set(0.693145752f);  // of log 2; k high is exact
  const V low = set(1.42860677e-6f);
  const V r = hn::NegMulAdd(k, low, hn::NegMulAdd(k, high, x));
  // 1 + r + r^2 p(r) with p fitted for the least relative error, 3e-9, on |r| <= log(2) / 2
  V p = set(0.00138145988f);
  for (const float coefficient : {0.00836871658f, 0.041668389f, 0.166665211f, 0.49999994f})
    p = hn::MulAdd(p, r, set(coefficient));
  p = hn::MulAdd(p, r * r, r) + set(1);
  const V power = hn::BitCast(D(), hn::ShiftLeft<23>(hn::BitCast(hn::RebindToSigned<D>(), sum)));
  return hn::IfThenZeroElse(x < set(-87.3365402f), p * power);  // NaN stays, for p is NaN
#endif
}

#if HWY_TARGET != HWY_SCALAR && !defined(SEPPO_FLOAT64)
// Transposes the 4 x 4 matrices in the 128-bit blocks of four vectors.
template <class Tag>
HWY_INLINE void transpose_quads(Tag d, hn::Vec<Tag> (&v)[4]) {
  const hn::RepartitionToWide<hn::RebindToUnsigned<Tag> > wide;
  const auto pair = [&](hn::Vec<Tag> x) HWY_ATTR { return hn::BitCast(wide, x); };
  const auto low01 = pair(hn::InterleaveLower(d, v[0], v[1]));
  const auto high01 = pair(hn::InterleaveUpper(d, v[0], v[1]));
  const auto low23 = pair(hn::InterleaveLower(d, v[2], v[3]));
  const auto high23 = pair(hn::InterleaveUpper(d, v[2], v[3]));
  v[0] = hn::BitCast(d, hn::InterleaveLower(wide, low01, low23));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23));
  v[2] = hn::BitCast(d, hn::InterleaveLower(wide, high01, high23));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23));
}
#endif

// Sums of reals in double precision.
struct DoubleSum {
  using W = hn::ScalableTag<double>;
  hn::Vec<W> low, high;

  HWY_INLINE DoubleSum() : low(hn::Zero(W())), high(hn::Zero(W())) {}

  // Updates the sums by f(sum, the value promoted).
  template <class F>
  HWY_INLINE void update(V v, const F& f) {
#if defined(SEPPO_FLOAT64)
    low = f(low, v);
#elif HWY_TARGET == HWY_SCALAR
    low = f(low, hn::PromoteTo(W(), v));
#else
    low = f(low, hn::PromoteTo(W(), hn::LowerHalf(v)));
    high = f(high, hn::PromoteTo(W(), hn::UpperHalf(hn::Half<D>(), v)));
#endif
  }
  HWY_INLINE void add(V v) {
    update(v, [](auto sum, auto x) HWY_ATTR { return sum + x; });
  }
  HWY_INLINE void add_square(V v) {
    update(v, [](auto sum, auto x) HWY_ATTR { return hn::MulAdd(x, x, sum); });
  }
  HWY_INLINE double total() const { return hn::GetLane(hn::SumOfLanes(W(), low + high)); }
};

// The blocks of rows whose sums are added in double precision, so that long rows keep their digits.
HWY_INLINE std::size_t block_of_terms() { return 64 * lanes(); }

// The sum over n elements, lane by lane: add(sum, part) returns the sum with a part added to it.
template <class F>
HWY_INLINE real sum_parts(std::size_t n, const F& add) {
  const auto sum_of = [&](std::size_t begin, std::size_t end) HWY_ATTR {
    V sum = hn::Zero(D());
    for_each(begin, end, [&](Part at) HWY_ATTR { sum = add(sum, at); });
    return sum_lanes(sum);
  };
  const std::size_t block = block_of_terms();
  if (n <= block) return sum_of(0, n);
  double total = 0;
  for (std::size_t i = 0; i < n; i += block) total += double{sum_of(i, std::min(i + block, n))};
  return static_cast<real>(total);
}

// ---- passes over one row, shared by softmax, norms and attention

inline real row_max(const real* x, std::size_t n) {
  const V lowest = set(hwy::LowestValue<real>());
  V top = lowest;
  for_each(n, [&](Part at) HWY_ATTR { top = hn::Max(top, first(load(x, at), lowest, at)); });
  return max_lanes(top);
}

// y = exp(scale (x - top)), which is at most 1; returns the sum.
inline real exp_row(real* y, const real* x, real scale, real top, std::size_t n) {
  const V factor = set(scale);
  const V origin = set(top);
  return sum_parts(n, [&](V sum, Part at) HWY_ATTR {
    const V power = exp_nonpositive((load(x, at) - origin) * factor);
    const V e = first(power, hn::Zero(D()), at);
    store(e, y, at);
    return sum + e;
  });
}

inline real dot_row(const real* x, const real* y, std::size_t n) {
  return sum_parts(n, [&](V dot, Part at) HWY_ATTR { return hn::MulAdd(load(x, at), load(y, at), dot); });
}

// out = x y
inline void multiply_row(real* out, const real* x, const real* y, std::size_t n) {
  for_each(n, [&](Part at) HWY_ATTR { store(load(x, at) * load(y, at), out, at); });
}

}  // namespace
}  // namespace kernels::HWY_NAMESPACE
}  // namespace SEPPO_ABI
}  // namespace seppo
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
