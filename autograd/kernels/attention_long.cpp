// Attention over long sequences, one head at a time: a block of queries meets the keys one tile of scores at a time, by
// matrix products; the softmax is updated with each tile.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/attention_long.cpp"
#include <hwy/foreach_target.h>

#include "../blas/multiply.h"
#include "../core/simd-inl.h"
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

// Scores are computed in square tiles: large ones, for the products. Two of them stay in an L2 of 1 MiB.
constexpr std::size_t kSide = 2 * DropoutFactors::kGroup;

// With fewer queries, as in decoding, packing V would cost more than the products.
constexpr std::size_t kFewQueries = 8;

struct Tile {
  std::size_t query, queries, key, keys;

  static constexpr std::size_t kGap = 16;  // between rows: strides of powers of two map to few cache sets
  std::size_t stride() const { return keys + kGap; }
  MatrixOut out(real* scores) const { return {scores, queries, keys, stride()}; }
  MatrixView view(const real* scores) const { return {scores, queries, keys, stride()}; }
};

std::size_t tile_elements(const AttentionHead& h) {
  return std::min(kSide, h.queries) * (std::min(kSide, h.keys) + Tile::kGap);
}

// The number of keys, from the tile's first, that query i of the head may attend to without an explicit mask.
std::size_t attended(const AttentionHead& h, const Tile& t, std::size_t i) {
  const std::size_t limit = h.attended(i);
  return std::min(t.keys, limit > t.key ? limit - t.key : 0);
}

// Calls f(tile) for the tiles of a block of queries, those of a query in the order of their keys. Tiles cut by the
// causal diagonal are processed in strips of 32 queries with only the keys that they may attend to.
template <class F>
void for_each_tile(const AttentionHead& h, std::size_t query, std::size_t queries, const F& f) {
  constexpr std::size_t kStrip = 32;
  for (std::size_t key = 0; key < h.valid_keys; key += kSide) {
    const Tile t{query, queries, key, std::min(kSide, h.valid_keys - key)};
    if (attended(h, t, query) == t.keys) {
      f(t);
      continue;
    }
    for (std::size_t i = 0; i < queries; i += kStrip) {
      Tile strip = t;
      strip.query += i;
      strip.queries = std::min(kStrip, queries - i);
      strip.keys = attended(h, t, strip.query + strip.queries - 1);
      if (strip.keys > 0) f(strip);
    }
  }
}

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
  for_each(values.cols, [&](std::size_t c, std::size_t n) HWY_ATTR {
    const V before = accumulate == Accumulate::yes ? load(out + c, n) : hn::Zero(D());
    V sum[kSums] = {before, hn::Zero(D()), hn::Zero(D()), hn::Zero(D())};
    std::size_t j = 0;
    for (; j + kSums <= values.rows; j += kSums)
      for (std::size_t u = 0; u < kSums; ++u)
        sum[u] = hn::MulAdd(set(weights[j + u]), load(values.at(j + u, c), n), sum[u]);
    for (; j < values.rows; ++j) sum[0] = hn::MulAdd(set(weights[j]), load(values.at(j, c), n), sum[0]);
    store(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])), out + c, n);
  });
}

// With a cap c: products p become c / scale tanh(scale p / c); slopes, unless null, their derivatives.
void cap_scores(real* row, real* slopes, const AttentionHead& h, std::size_t n) {
  if (h.softcap == 0) return;
  const V to = set(h.scale / h.softcap), from = set(h.softcap / h.scale);
  for_each(n, [&](std::size_t j, std::size_t m) HWY_ATTR {
    const V x = load(row + j, m), y = hn::Tanh(D(), hn::Mul(x, to)), capped = hn::Mul(y, from);
    store(hn::IfThenElse(hn::IsNaN(x), x, capped), row + j, m);
    if (slopes) store(hn::NegMulAdd(y, y, set(1)), slopes + j, m);
  });
}

// Adds the bias of query i to the first `count` products of a tile's row, before they are scaled.
void add_bias(real* row, const AttentionHead& h, const Tile& t, std::size_t i, std::size_t count) {
  if (!h.has_bias()) return;
  for (std::size_t j = 0; j < count; ++j) row[j] += h.bias_of(i, t.key + j) / h.scale;
}

// Prefetches a row that will soon be read or added to, as memory is idle while exponentials are computed.
HWY_INLINE void fetch_row(const real* data, std::size_t ld, std::size_t i, std::size_t rows, std::size_t width) {
  if (!data || i >= rows) return;
  for (std::size_t c = 0; c < width; c += 64 / sizeof(real)) hwy::Prefetch(data + i * ld + c);
}

HWY_INLINE void fetch_inputs(const AttentionHead& h, std::size_t i) {
  fetch_row(h.q, h.ldq, i, h.queries, h.width);
  fetch_row(h.k, h.ldk, i, h.valid_keys, h.width);
  fetch_row(h.v, h.ldv, i, h.valid_keys, h.v_width);
  fetch_row(h.dout, h.ldo, i, h.queries, h.v_width);
}

HWY_INLINE void fetch_gradients(const AttentionHead& h, const Tile& t, std::size_t r) {
  fetch_row(h.dq, h.ldq, t.query + r, h.queries, h.width);
  fetch_row(h.dk, h.ldk, t.key + r, h.valid_keys, h.width);
  fetch_row(h.dv, h.ldv, t.key + r, h.valid_keys, h.v_width);
}

// row = exp(scale (row - top)) for allowed elements among the first `count` of n, else 0; returns the sum.
real exp_allowed(real* row, const std::uint8_t* allowed, std::size_t count, std::size_t n, real scale, real top) {
  const real total = exp_row(row, row, scale, top, count);
  std::fill(row + count, row + n, real{0});
  if (!allowed) return total;
  real sum = 0;
  for (std::size_t j = 0; j < count; ++j) sum += row[j] = allowed[j] ? row[j] : real{0};
  return sum;
}

// The largest allowed element among the first `count`; others are overwritten with the lowest number.
real max_allowed(real* row, const std::uint8_t* allowed, std::size_t count) {
  if (allowed)
    for (std::size_t j = 0; j < count; ++j)
      if (!allowed[j]) row[j] = hwy::LowestValue<real>();
  return row_max(row, count);
}

void scale_row(real* row, real factor, std::size_t n) {
  for_each(n,
           [&](std::size_t j, std::size_t m) HWY_ATTR { store(hn::Mul(load(row + j, m), set(factor)), row + j, m); });
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

// Online softmax (Milakov and Gimelshein 2018): over the keys seen so far, top is the largest score and
// sum the sum of exp(scale (score - top)); out is not yet divided by sum.
void long_attention(const AttentionHead& h, const AttentionHead& next, const AttentionDropout& dropout, real* log_sums,
                    real* scratch) {
  real *const tile = scratch, *memory = scratch + tile_elements(h);
  const bool is_few = h.queries < kFewQueries;
  const MatrixView q(h.q, h.queries, h.width, h.ldq);
  const MatrixView k(h.k, h.valid_keys, h.width, h.ldk);
  const MatrixView given_v(h.v, h.valid_keys, h.v_width, h.ldv);
  const MatrixView v = is_few ? given_v : pack(memory, given_v);
  RowDropout drop(dropout, h);
  for (std::size_t query = 0; query < h.queries; query += kSide) {
    const std::size_t queries = std::min(kSide, h.queries - query);
    real top[kSide], sum[kSide] = {};
    std::fill_n(top, queries, hwy::LowestValue<real>());
    for_each_tile(h, query, queries, [&](const Tile& t) {
      real* const out = h.out + t.query * h.ldo;
      const bool is_first = t.key == 0;  // for these queries
      multiply(t.out(tile), q.block(t.query, 0, t.queries, h.width), transposed(k.block(t.key, 0, t.keys, h.width)));
      for (std::size_t r = 0; r < t.queries; ++r) {
        const std::size_t i = t.query + r, at = i - query;
        real* const row = tile + r * t.stride();
        const std::uint8_t* const allowed = allowed_row(h, t, i);
        const std::size_t count = attended(h, t, i);
        fetch_row(h.out, h.ldo, i, h.queries, h.v_width);
        fetch_inputs(next, i);
        cap_scores(row, nullptr, h, count);
        add_bias(row, h, t, i, count);
        const real before = top[at];
        top[at] = std::max(before, max_allowed(row, allowed, count));
        const real fade = is_first ? real{0} : std::exp(h.scale * (before - top[at]));
        sum[at] = sum[at] * fade + exp_allowed(row, allowed, count, t.keys, h.scale, top[at]);
        if (!is_first && fade != 1) scale_row(out + r * h.ldo, fade, h.v_width);
        if (const real* const factors = drop.draw(t, i)) multiply_row(row, row, factors, t.keys);
      }
      const Accumulate accumulate = is_first ? Accumulate::no : Accumulate::yes;
      const MatrixView values = v.block(t.key, 0, t.keys, h.v_width);
      if (h.queries == 1)
        multiply_one_row(out, tile, values, accumulate);
      else
        multiply({out, t.queries, h.v_width, h.ldo}, t.view(tile), values, accumulate);
    });
    for (std::size_t r = 0; r < queries; ++r) {
      real *const out = h.out + (query + r) * h.ldo, *const log_sum = log_sums + 2 * (query + r);
      if (sum[r] == 0) {  // no key is allowed: the weights are zero in backward as well
        log_sum[0] = 0, log_sum[1] = std::numeric_limits<real>::infinity();
        std::fill_n(out, h.v_width, real{0});
      } else {
        log_sum[0] = top[r], log_sum[1] = std::log(sum[r]);
        scale_row(out, 1 / sum[r], h.v_width);
      }
    }
  }
}

// A row of scores becomes P M, and the same row of dP becomes dS: the first `count` of n elements, and zeros beyond.
void row_backward(real* p, real* dp, const std::uint8_t* allowed, std::size_t count, std::size_t n, real scale,
                  const real* log_sum, real dot, const real* factors) {
  const V f = set(scale), top = set(log_sum[0]), s = set(log_sum[1]), d = set(dot), zero = hn::Zero(D());
  for_each(count, [&](std::size_t j, std::size_t m) HWY_ATTR {
    const V w = exp_nonpositive(hn::MulSub(hn::Sub(load(p + j, m), top), f, s));
    const V factor = factors ? load(factors + j, m) : set(1);
    const V dw = hn::Sub(hn::Mul(load(dp + j, m), factor), d);
    store(hn::Mul(w, factor), p + j, m);
    store(hn::IfThenElse(hn::Eq(w, zero), zero, hn::Mul(hn::Mul(w, f), dw)), dp + j, m);
  });
  for (real* const row : {p, dp}) {
    std::fill(row + count, row + n, real{0});
    if (allowed)
      for (std::size_t j = 0; j < count; ++j)
        if (!allowed[j]) row[j] = 0;
  }
}

// With P the weights, M the dropout factors: dV = (P M)^T dO; dP = (dO V^T) M;
// dS = scale P (dP - rowsum(dO O)); dQ = dS K; dK = dS^T Q.
void long_attention_backward(const AttentionHead& h, const AttentionHead& next, const AttentionDropout& dropout,
                             const real* log_sums, real* scratch) {
  real* const p = scratch;
  real* const ds = p + tile_elements(h);
  real* memory = ds + tile_elements(h);
  const MatrixView k = pack(memory, {h.k, h.valid_keys, h.width, h.ldk});
  const MatrixView v = pack(memory, {h.v, h.valid_keys, h.v_width, h.ldv});
  RowDropout drop(dropout, h);
  for (std::size_t query = 0; query < h.queries; query += kSide) {
    const std::size_t queries = std::min(kSide, h.queries - query);
    real* rows = memory;
    const MatrixView q = pack(rows, {h.q + query * h.ldq, queries, h.width, h.ldq});
    const MatrixView dout = pack(rows, {h.dout + query * h.ldo, queries, h.v_width, h.ldo});
    real dots[kSide];
    for_each_tile(h, query, queries, [&](const Tile& t) {
      const std::size_t first = t.query - query;  // of the block
      const MatrixView tile_q = q.block(first, 0, t.queries, h.width);
      const MatrixView tile_dout = dout.block(first, 0, t.queries, h.v_width);
      const MatrixView tile_k = k.block(t.key, 0, t.keys, h.width);
      const MatrixView tile_v = v.block(t.key, 0, t.keys, h.v_width);
      multiply(t.out(p), tile_q, transposed(tile_k));
      multiply(t.out(ds), tile_dout, transposed(tile_v));
      for (std::size_t r = 0; r < t.queries; ++r) {
        const std::size_t i = t.query + r;
        fetch_gradients(h, t, r);
        fetch_inputs(next, i);
        if (t.key == 0) dots[first + r] = dot_row(tile_dout.at(r, 0), h.out + i * h.ldo, h.v_width);
        const std::size_t count = attended(h, t, i);
        real* const p_row = p + r * t.stride();
        real* const ds_row = ds + r * t.stride();
        real slopes[kSide];
        cap_scores(p_row, slopes, h, count);
        add_bias(p_row, h, t, i, count);
        row_backward(p_row, ds_row, allowed_row(h, t, i), count, t.keys, h.scale, log_sums + 2 * i, dots[first + r],
                     drop.draw(t, i));
        if (h.dbias) {
          real* const dbias = h.dbias + i * h.ldb + t.key;
          for (std::size_t j = 0; j < count; ++j) dbias[j] += ds_row[j] / h.scale;
        }
        if (h.softcap != 0) multiply_row(ds_row, ds_row, slopes, count);
      }
      const MatrixView weights = t.view(p), dscores = t.view(ds);
      if (h.dv)
        multiply({h.dv + t.key * h.ldv, t.keys, h.v_width, h.ldv}, transposed(weights), tile_dout, Accumulate::yes);
      if (h.dq) multiply({h.dq + t.query * h.ldq, t.queries, h.width, h.ldq}, dscores, tile_k, Accumulate::yes);
      if (h.dk) multiply({h.dk + t.key * h.ldk, t.keys, h.width, h.ldk}, transposed(dscores), tile_q, Accumulate::yes);
    });
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
SEPPO_KERNEL(long_attention);
SEPPO_KERNEL(long_attention_backward);

std::size_t long_attention_scratch(const AttentionHead& head) {
  using HWY_NAMESPACE::kSide, HWY_NAMESPACE::tile_elements;  // the same for every instruction set
  return 2 * tile_elements(head) + (head.keys + std::min(kSide, head.queries)) * (head.width + head.v_width);
}
}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
#endif
