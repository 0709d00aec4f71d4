// Attention over long sequences, one head at a time: a block of queries meets the keys one tile of scores at a time, by
// matrix products; the softmax is updated with each tile.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/attention_long.cpp"
#include <hwy/foreach_target.h>

#include "../blas/multiply.h"
#include "../core/simd-inl.h"
#include "attention_tiles-inl.h"
#include "dropout-inl.h"
#include "kernels.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::HWY_NAMESPACE {
namespace {

// With fewer queries, as in decoding, packing V would cost more than the products.
constexpr std::size_t kFewQueries = 8;

const std::uint8_t* allowed_row(const AttentionHead& h, const Tile& t, std::size_t i) {
  return h.allowed ? h.allowed + i * h.keys + t.key : nullptr;
}

// A matrix of the head with its rows packed: strides of powers of two map to few cache sets.
HWY_INLINE MatrixView pack(real*& memory, const MatrixView& x) {
  if (x.row_stride == x.cols) return x;
  real* const to = memory;
  kernels::copy_rows(to, x.cols, x.data, x.row_stride, x.rows, x.cols);
  memory += x.rows * x.cols;
  return {to, x.rows, x.cols};
}

// out = weights values, or added to it, for a single query, as in decoding: multiply() would pack the values.
void multiply_one_row(real* out, const real* weights, const MatrixView& values, Accumulate accumulate) {
  constexpr std::size_t kSums = 4;  // independent of each other
  for_each(values.cols, [&](Part at) HWY_ATTR {
    const V zero = hn::Zero(D());
    const V before = accumulate == Accumulate::yes ? load(out, at) : zero;
    const auto value = [&](std::size_t j) HWY_ATTR { return load(values.at(j, 0), at); };
    V sum[kSums] = {before, zero, zero, zero};
    std::size_t j = 0;
    for (; j + kSums <= values.rows; j += kSums)
      for (std::size_t u = 0; u < kSums; ++u) sum[u] = hn::MulAdd(set(weights[j + u]), value(j + u), sum[u]);
    for (; j < values.rows; ++j) sum[0] = hn::MulAdd(set(weights[j]), value(j), sum[0]);
    store((sum[0] + sum[1]) + (sum[2] + sum[3]), out, at);
  });
}

// With a cap c: products p become c / scale tanh(scale p / c); slopes, unless null, their derivatives.
void cap_scores(real* row, real* slopes, const AttentionHead& h, std::size_t n) {
  if (h.softcap == 0) return;
  const V to_tanh = set(h.scale / h.softcap);
  const V from_tanh = set(h.softcap / h.scale);
  for_each(n, [&](Part at) HWY_ATTR {
    const V x = load(row, at);
    const V y = hn::Tanh(D(), x * to_tanh);
    const V capped = y * from_tanh;
    store(hn::IfThenElse(hn::IsNaN(x), x, capped), row, at);
    if (slopes) store(hn::NegMulAdd(y, y, set(1)), slopes, at);
  });
}

// A bias before the products are scaled: finite if the bias is.
real unscaled(real bias, real scale) {
  const real result = bias / scale;
  if (std::isfinite(result) || !std::isfinite(bias)) return result;
  return std::copysign(std::numeric_limits<real>::max(), bias);
}

// Adds the bias of query i to the first `count` products of a tile's row, before they are scaled.
void add_bias(real* row, const AttentionHead& h, const Tile& t, std::size_t i, std::size_t count) {
  if (!h.has_bias()) return;
  for (std::size_t j = 0; j < count; ++j) row[j] += unscaled(h.bias_of(i, t.key + j), h.scale);
}

// Prefetches a row that will soon be read or added to, as memory is idle while exponentials are computed.
HWY_INLINE void fetch_row(const real* data, std::size_t ld, std::size_t i, std::size_t rows, std::size_t width) {
  if (!data || i >= rows) return;
  for (std::size_t c = 0; c < width; c += 64 / sizeof(real)) hwy::Prefetch(data + i * ld + c);
}

HWY_INLINE void fetch_inputs(const AttentionHead& h, std::size_t i) {
  fetch_row(h.q.data, h.q.stride, i, h.queries, h.width);
  fetch_row(h.k.data, h.k.stride, i, h.valid_keys, h.width);
  fetch_row(h.v.data, h.v.stride, i, h.valid_keys, h.v_width);
  fetch_row(h.out.gradient, h.out.stride, i, h.queries, h.v_width);
}

HWY_INLINE void fetch_gradients(const AttentionHead& h, const Tile& t, std::size_t r) {
  fetch_row(h.q.gradient, h.q.stride, t.query + r, h.queries, h.width);
  fetch_row(h.k.gradient, h.k.stride, t.key + r, h.valid_keys, h.width);
  fetch_row(h.v.gradient, h.v.stride, t.key + r, h.valid_keys, h.v_width);
}

void clear_unseen(real* row, Seen seen, std::size_t n) {
  std::fill(row, row + seen.begin, real{0});
  std::fill(row + seen.end, row + n, real{0});
}

// row = exp(scale (row - top)) for allowed elements among those seen, else 0; returns the sum.
real exp_allowed(real* row, const std::uint8_t* allowed, Seen seen, std::size_t n, real scale, real top) {
  const real total = exp_row(row + seen.begin, row + seen.begin, scale, top, seen.end - seen.begin);
  clear_unseen(row, seen, n);
  if (!allowed) return total;
  real sum = 0;
  for (std::size_t j = seen.begin; j < seen.end; ++j) {
    row[j] = allowed[j] ? row[j] : real{0};
    sum += row[j];
  }
  return sum;
}

// The largest allowed element among those seen; others are overwritten with the lowest number.
real max_allowed(real* row, const std::uint8_t* allowed, Seen seen) {
  if (allowed)
    for (std::size_t j = seen.begin; j < seen.end; ++j)
      if (!allowed[j]) row[j] = hwy::LowestValue<real>();
  return row_max(row + seen.begin, seen.end - seen.begin);
}

void scale_row(real* row, real factor, std::size_t n) {
  for_each(n, [&](Part at) HWY_ATTR { store(load(row, at) * set(factor), row, at); });
}

// Dropout factors for row i of a tile.
class RowDropout {
 public:
  RowDropout(const AttentionDropout& dropout, const AttentionHead& h)
      : active_(dropout.weights.p > 0),
        random_(dropout.weights),
        first_(dropout.head * static_cast<std::uint32_t>(h.queries)),
        groups_(static_cast<std::uint32_t>((h.keys + kGroup - 1) / kGroup)) {}

  // Null if nothing is dropped.
  HWY_INLINE const real* draw(const Tile& t, std::size_t i) {
    if (!active_) return nullptr;
    const std::uint32_t group = (first_ + static_cast<std::uint32_t>(i)) * groups_;
    for (std::size_t key = 0; key < t.keys; key += kGroup)
      random_(factors_[key / kGroup], group + static_cast<std::uint32_t>((t.key + key) / kGroup));
    return factors_[0];
  }

 private:
  static constexpr std::size_t kGroup = DropoutFactors::kGroup;

  bool active_;
  DropoutFactors random_;
  std::uint32_t first_, groups_;
  real factors_[kSide / kGroup][kGroup];
};

// The softmax of a query over the keys seen so far: top is the largest score, sum the sum of exp(scale (score - top)).
struct OnlineSoftmax {
  real top = hwy::LowestValue<real>(), sum = 0;
};

// The row of query i in a tile, of products, becomes its weights, not yet divided by the sum. Returns what the output
// of earlier tiles is to be multiplied by, since they were computed with a smaller top.
HWY_INLINE real weigh_row(real* row, const AttentionHead& h, const Tile& t, std::size_t i, OnlineSoftmax& softmax) {
  const std::uint8_t* const allowed = allowed_row(h, t, i);
  const Seen range = seen(h, t, i);
  cap_scores(row, nullptr, h, range.end);
  add_bias(row, h, t, i, range.end);
  const real before = softmax.top;
  softmax.top = std::max(before, max_allowed(row, allowed, range));
  const real fade = t.is_first ? real{0} : std::exp(h.scale * (before - softmax.top));
  softmax.sum *= fade;
  softmax.sum += exp_allowed(row, allowed, range, t.keys, h.scale, softmax.top);
  return fade;
}

void finish_row(real* out, real* log_sum, const OnlineSoftmax& softmax, std::size_t v_width) {
  if (softmax.sum == 0) {  // no key is allowed: the weights are zero in backward as well
    log_sum[0] = 0;
    log_sum[1] = std::numeric_limits<real>::infinity();
    std::fill_n(out, v_width, real{0});
  } else {
    log_sum[0] = softmax.top;
    log_sum[1] = std::log(softmax.sum);
    scale_row(out, 1 / softmax.sum, v_width);
  }
}

// The products of a tile become weights, softmax[r] belonging to its row r; the output of earlier tiles fades.
HWY_INLINE void weigh_tile(real* products, const AttentionHead& h, const AttentionHead& next, const Tile& t,
                           OnlineSoftmax* softmax, RowDropout& drop) {
  for (std::size_t r = 0; r < t.queries; ++r) {
    const std::size_t i = t.query + r;
    real* const row = products + r * t.stride();
    fetch_row(h.out.data, h.out.stride, i, h.queries, h.v_width);
    fetch_inputs(next, i);
    const real fade = weigh_row(row, h, t, i, softmax[r]);
    if (!t.is_first && fade != 1) scale_row(h.out.data + i * h.out.stride, fade, h.v_width);
    const real* const factors = drop.draw(t, i);
    if (factors) multiply_row(row, row, factors, t.keys);
  }
}

// Adds the values, weighed, to the output; the first tile of a query writes them.
void add_values(const AttentionHead& h, const Tile& t, const real* weights, const MatrixView& v) {
  const MatrixOut out(h.out.data + t.query * h.out.stride, t.queries, h.v_width, h.out.stride);
  const Accumulate accumulate = t.is_first ? Accumulate::no : Accumulate::yes;
  if (h.queries == 1)
    multiply_one_row(out.data, weights, t.rows_of_keys(v), accumulate);
  else
    multiply(out, t.view(weights), t.rows_of_keys(v), accumulate);
}

// Online softmax (Milakov and Gimelshein 2018).
void long_attention(const AttentionHead& h, const AttentionHead& next, const AttentionDropout& dropout, real* log_sums,
                    real* scratch) {
  real* const scores = scratch;
  real* memory = scratch + tile_elements(h);
  const MatrixView q(h.q.data, h.queries, h.width, h.q.stride);
  const MatrixView k(h.k.data, h.valid_keys, h.width, h.k.stride);
  const MatrixView given_v(h.v.data, h.valid_keys, h.v_width, h.v.stride);
  const MatrixView v = h.queries < kFewQueries ? given_v : pack(memory, given_v);
  RowDropout drop(dropout, h);
  for (std::size_t query = 0; query < h.queries; query += kSide) {
    const std::size_t queries = std::min(kSide, h.queries - query);
    OnlineSoftmax softmax[kSide];
    for_each_tile(h, query, queries, [&](const Tile& t) {
      multiply(t.out(scores), t.rows_of_queries(q), transposed(t.rows_of_keys(k)));
      weigh_tile(scores, h, next, t, softmax + (t.query - query), drop);
      add_values(h, t, scores, v);
    });
    for (std::size_t r = 0; r < queries; ++r) {
      const std::size_t i = query + r;
      finish_row(h.out.data + i * h.out.stride, log_sums + 2 * i, softmax[r], h.v_width);
    }
  }
}

// What backward needs of a query, beside its row of scores.
struct QuerySlope {
  real top, log_sum;    // as forward saved them
  real dot;             // dO O
  const real* factors;  // of dropout, or null
};

// A row of scores becomes P M, and the same row of dP becomes dS: the first `count` elements.
HWY_INLINE void softmax_backward(real* p, real* dp, std::size_t count, real scale, const QuerySlope& query) {
  const V factor_of_scores = set(scale);
  const V top = set(query.top);
  const V log_sum = set(query.log_sum);
  const V dot = set(query.dot);
  const V zero = hn::Zero(D());
  for_each(count, [&](Part at) HWY_ATTR {
    const V weight = exp_nonpositive(hn::MulSub(load(p, at) - top, factor_of_scores, log_sum));
    const V factor = query.factors ? load(query.factors, at) : set(1);
    const V dw = load(dp, at) * factor - dot;
    const V slope = weight * factor_of_scores * dw;
    store(weight * factor, p, at);
    store(hn::IfThenElse(weight == zero, zero, slope), dp, at);
  });
}

// Zeros where query i may not attend.
void clear_masked(real* row, const std::uint8_t* allowed, Seen seen, std::size_t n) {
  clear_unseen(row, seen, n);
  if (!allowed) return;
  for (std::size_t j = seen.begin; j < seen.end; ++j)
    if (!allowed[j]) row[j] = 0;
}

// The rows of query i in a tile: of products Q K^T, which become weights, and of products dO V^T, which become the
// gradients of the former.
HWY_INLINE void slope_row(real* p_row, real* ds_row, const AttentionHead& h, const Tile& t, std::size_t i,
                          const QuerySlope& query) {
  const Seen range = seen(h, t, i);
  const std::size_t count = range.end;
  const std::uint8_t* const allowed = allowed_row(h, t, i);
  real slopes[kSide];
  cap_scores(p_row, slopes, h, count);
  add_bias(p_row, h, t, i, count);
  softmax_backward(p_row, ds_row, count, h.scale, query);
  clear_masked(p_row, allowed, range, t.keys);
  clear_masked(ds_row, allowed, range, t.keys);
  if (h.bias.gradient) {
    real* const dbias = h.bias.gradient + i * h.bias.stride + t.key;
    for (std::size_t j = 0; j < count; ++j) dbias[j] += ds_row[j] / h.scale;
  }
  if (h.softcap != 0) multiply_row(ds_row, ds_row, slopes, count);
}

// Adds a product to the gradient of an input, from row `first` on.
void add_to_gradient(const HeadInput& x, std::size_t first, const MatrixView& a, const MatrixView& b) {
  if (!x.gradient) return;
  const MatrixOut dx(x.gradient + first * x.stride, a.rows, b.cols, x.stride);
  multiply(dx, a, b, Accumulate::yes);
}

// With P the weights, M the dropout factors: dV = (P M)^T dO; dP = (dO V^T) M;
// dS = scale P (dP - rowsum(dO O)); dQ = dS K; dK = dS^T Q.
void long_attention_backward(const AttentionHead& h, const AttentionHead& next, const AttentionDropout& dropout,
                             real* log_sums, real* scratch) {
  real* const p = scratch;
  real* const ds = p + tile_elements(h);
  real* memory = ds + tile_elements(h);
  const MatrixView k = pack(memory, {h.k.data, h.valid_keys, h.width, h.k.stride});
  const MatrixView v = pack(memory, {h.v.data, h.valid_keys, h.v_width, h.v.stride});
  RowDropout drop(dropout, h);
  for (std::size_t query = 0; query < h.queries; query += kSide) {
    const std::size_t queries = std::min(kSide, h.queries - query);
    real* rows = memory;
    const MatrixView q = pack(rows, {h.q.data + query * h.q.stride, queries, h.width, h.q.stride});
    const MatrixView dout = pack(rows, {h.out.gradient + query * h.out.stride, queries, h.v_width, h.out.stride});
    real dots[kSide];
    for_each_tile(h, query, queries, [&](const Tile& t) {
      const std::size_t first = t.query - query;  // of the block
      const MatrixView tile_q = q.block(first, 0, t.queries, h.width);
      const MatrixView tile_dout = dout.block(first, 0, t.queries, h.v_width);
      const MatrixView tile_k = t.rows_of_keys(k);
      multiply(t.out(p), tile_q, transposed(tile_k));
      multiply(t.out(ds), tile_dout, transposed(t.rows_of_keys(v)));
      for (std::size_t r = 0; r < t.queries; ++r) {
        const std::size_t i = t.query + r;
        real& dot = dots[first + r];
        const real* const log_sum = log_sums + 2 * i;
        fetch_gradients(h, t, r);
        fetch_inputs(next, i);
        if (t.is_first) dot = dot_row(tile_dout.at(r, 0), h.out.data + i * h.out.stride, h.v_width);
        const QuerySlope slope{.top = log_sum[0], .log_sum = log_sum[1], .dot = dot, .factors = drop.draw(t, i)};
        slope_row(p + r * t.stride(), ds + r * t.stride(), h, t, i, slope);
      }
      add_to_gradient(h.v, t.key, transposed(t.view(p)), tile_dout);
      add_to_gradient(h.q, t.query, t.view(ds), tile_k);
      add_to_gradient(h.k, t.key, transposed(t.view(ds)), tile_q);
    });
  }
}

std::size_t long_attention_scratch(const AttentionHead& h) {
  const std::size_t packed_rows = h.keys + std::min(kSide, h.queries);
  return 2 * tile_elements(h) + packed_rows * (h.width + h.v_width);
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
SEPPO_KERNEL(long_attention);
SEPPO_KERNEL(long_attention_backward);
SEPPO_KERNEL(long_attention_scratch);
}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
#endif
