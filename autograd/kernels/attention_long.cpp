#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "seppo/autograd/kernels/attention_long.cpp"
#include <hwy/foreach_target.h>

#include <seppo/autograd/blas.h>
#include <seppo/autograd/kernels/dropout-inl.h>
#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/kernels/simd-inl.h>

#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

// A tile of scores, kQueries x kKeys, stays in the first-level cache; a row's keys take one group of
// dropout's random bits.
constexpr std::size_t kQueries = 64, kKeys = DropoutFactors::kGroup;

// With fewer queries, as in decoding, packing K and V would cost more than the products.
constexpr std::size_t kFewQueries = 8;

struct Tile {
  std::size_t query, queries, key, keys;
};

// How many keys of the tile, from its first, query i of the head may attend without an explicit mask.
std::size_t attended(const AttentionHead& h, const Tile& t, std::size_t i) {
  std::size_t limit = h.valid_keys;
  if (h.causal) limit = std::min(limit, i + 1 + h.keys > h.queries ? i + 1 + h.keys - h.queries : 0);
  return std::min(t.keys, limit > t.key ? limit - t.key : 0);
}

// Calls f(tile) for the tiles of a block of queries that have allowed keys.
template <class F>
void for_each_tile(const AttentionHead& h, std::size_t query, const F& f) {
  const std::size_t queries = std::min(kQueries, h.queries - query);
  for (std::size_t key = 0; key < h.valid_keys; key += kKeys) {
    const Tile t{query, queries, key, std::min(kKeys, h.valid_keys - key)};
    if (attended(h, t, query + queries - 1) > 0) f(t);
  }
}

const std::uint8_t* allowed_row(const AttentionHead& h, const Tile& t, std::size_t i) {
  return h.allowed ? h.allowed + i * h.keys + t.key : nullptr;
}

// A matrix of the head with its rows together: strides of powers of two would share few cache lines.
HWY_INLINE const real* pack(real*& memory, const real* data, std::size_t ld, std::size_t rows, std::size_t width) {
  if (ld == width) return data;
  real* const to = memory;
  kernels::copy_rows(to, width, data, ld, rows, width);
  memory += rows * width;
  return to;
}

// The transposes of tiles of K or V: [width, keys of the tile], one after another.
HWY_INLINE real* pack_transposed(real*& memory, const real* data, std::size_t ld, const AttentionHead& h) {
  real* const to = memory;
  for (std::size_t key = 0; key < h.valid_keys; key += kKeys) {
    const std::size_t keys = std::min(kKeys, h.valid_keys - key);
    kernels::transpose(memory, data + key * ld, ld, keys, h.width);
    memory += keys * h.width;
  }
  return to;
}

// out[queries, keys] = rows columns_of_tile
void times_columns(real* out, const real* rows, std::size_t ldr, const real* columns, const AttentionHead& h,
                   const Tile& t) {
  gemm(Trans::no, Trans::no, t.queries, t.keys, h.width, rows, ldr, columns + t.key * h.width, t.keys, 0, out, kKeys);
}

// out[queries, width] = beta out + weights rows_of_tile
void times_rows(real* out, std::size_t ldo, real beta, const real* weights, const real* rows, std::size_t ldr,
                const AttentionHead& h, const Tile& t) {
  gemm(Trans::no, Trans::no, t.queries, h.width, t.keys, weights, kKeys, rows + t.key * ldr, ldr, beta, out, ldo);
}

// row = exp(scale row - shift) for the allowed among the first `count` of n, else 0; returns the sum.
real exp_row(real* row, const std::uint8_t* allowed, std::size_t count, std::size_t n, real scale, real shift) {
  const V f = set(scale), s = set(shift), zero = hn::Zero(D());
  V total = zero;
  for_each(count, [&](std::size_t j, std::size_t m) HWY_ATTR {
    const V e = first(exp_nonpositive(hn::MulSub(load(row + j, m), f, s)), zero, m);
    total = hn::Add(total, e);
    store(e, row + j, m);
  });
  std::fill(row + count, row + n, real{0});
  if (!allowed) return sum_lanes(total);
  real sum = 0;
  for (std::size_t j = 0; j < count; ++j) sum += row[j] = allowed[j] ? row[j] : real{0};
  return sum;
}

// The largest of the allowed among the first `count`; others are overwritten with the lowest number.
real row_max(real* row, const std::uint8_t* allowed, std::size_t count) {
  const V lowest = set(hwy::LowestValue<real>());
  if (allowed)
    for (std::size_t j = 0; j < count; ++j)
      if (!allowed[j]) row[j] = hwy::LowestValue<real>();
  V top = lowest;
  for_each(count,
           [&](std::size_t j, std::size_t n) HWY_ATTR { top = hn::Max(top, first(load(row + j, n), lowest, n)); });
  return max_lanes(top);
}

void scale_row(real* row, real factor, std::size_t n) {
  for_each(n,
           [&](std::size_t j, std::size_t m) HWY_ATTR { store(hn::Mul(load(row + j, m), set(factor)), row + j, m); });
}

// The factors of dropout for row i of a tile.
class RowDropout {
 public:
  RowDropout(const AttentionDropout& dropout, const AttentionHead& h)
      : active_(dropout.weights.p > 0),
        random_(dropout.weights.p, dropout.weights.key),
        first_(dropout.head * static_cast<std::uint32_t>(h.queries)),
        groups_(static_cast<std::uint32_t>((h.keys + kKeys - 1) / kKeys)) {}

  bool active() const { return active_; }
  HWY_INLINE void draw(const Tile& t, std::size_t i) {
    random_(factors_, (first_ + static_cast<std::uint32_t>(i)) * groups_ + static_cast<std::uint32_t>(t.key / kKeys));
  }
  HWY_INLINE void apply(real* row, std::size_t n) const {
    for_each(n, [&](std::size_t j, std::size_t m)
                    HWY_ATTR { store(hn::Mul(load(row + j, m), load(factors_ + j, m)), row + j, m); });
  }

 private:
  bool active_;
  DropoutFactors random_;
  std::uint32_t first_, groups_;
  real factors_[DropoutFactors::kGroup];
};

// Online softmax (Milakov and Gimelshein 2018): of the keys seen so far, top is the largest score and
// sum that of exp(score - top); out is sum times what it will be.
void LongAttention(const AttentionHead& h, const AttentionDropout& dropout, real* log_sums, real* scratch) {
  real *const tile = scratch, *memory = scratch + 2 * kQueries * kKeys;
  const bool is_few = h.queries < kFewQueries;
  const real* const k = is_few ? h.k : pack_transposed(memory, h.k, h.ldk, h);
  const real* const v = is_few ? h.v : pack(memory, h.v, h.ldv, h.valid_keys, h.width);
  const std::size_t ldv = is_few ? h.ldv : h.width;
  RowDropout drop(dropout, h);
  for (std::size_t query = 0; query < h.queries; query += kQueries) {
    real top[kQueries], sum[kQueries] = {};
    std::fill_n(top, kQueries, hwy::LowestValue<real>());
    real* const out = h.out + query * h.ldo;
    real beta = 0;
    for_each_tile(h, query, [&](const Tile& t) {
      const real* const q = h.q + query * h.ldq;
      if (is_few)
        kernels::dot_rows(t.queries, t.keys, h.width, q, h.ldq, k + t.key * h.ldk, h.ldk, {}, tile, kKeys);
      else
        times_columns(tile, q, h.ldq, k, h, t);
      for (std::size_t r = 0; r < t.queries; ++r) {
        real* const row = tile + r * kKeys;
        const std::uint8_t* const allowed = allowed_row(h, t, query + r);
        const std::size_t count = attended(h, t, query + r);
        const real before = top[r];
        top[r] = std::max(before, h.scale * row_max(row, allowed, count));
        const real fade = beta == 0 ? real{0} : std::exp(before - top[r]);
        sum[r] = sum[r] * fade + exp_row(row, allowed, count, t.keys, h.scale, top[r]);
        if (beta != 0 && fade != 1) scale_row(out + r * h.ldo, fade, h.width);
        if (!drop.active()) continue;
        drop.draw(t, query + r);
        drop.apply(row, t.keys);
      }
      times_rows(out, h.ldo, beta, tile, v, ldv, h, t);
      beta = 1;
    });
    for (std::size_t r = 0; r < std::min(kQueries, h.queries - query); ++r) {
      log_sums[query + r] = top[r] + std::log(sum[r]);
      if (beta == 0 || sum[r] == 0)
        std::fill_n(out + r * h.ldo, h.width, real{0});
      else
        scale_row(out + r * h.ldo, 1 / sum[r], h.width);
    }
  }
}

// With P the weights, M the factors of dropout: dV = (P M)^T dO; dP = (dO V^T) M;
// dS = scale P (dP - rowsum(dO O)); dQ = dS K; dK = dS^T Q.
void LongAttentionBackward(const AttentionHead& h, const AttentionDropout& dropout, const real* log_sums,
                           real* scratch) {
  real *const p = scratch, *const ds = scratch + kQueries * kKeys, *memory = ds + kQueries * kKeys;
  const real* const k = pack(memory, h.k, h.ldk, h.valid_keys, h.width);
  const real* const k_columns = pack_transposed(memory, h.k, h.ldk, h);
  const real* const v_columns = pack_transposed(memory, h.v, h.ldv, h);
  RowDropout drop(dropout, h);
  for (std::size_t query = 0; query < h.queries; query += kQueries) {
    const std::size_t queries = std::min(kQueries, h.queries - query);
    real* rows = memory;
    const real* const q = pack(rows, h.q + query * h.ldq, h.ldq, queries, h.width);
    const real* const dout = pack(rows, h.dout + query * h.ldo, h.ldo, queries, h.width);
    real dots[kQueries];
    for (std::size_t r = 0; r < queries; ++r) {
      V dot = hn::Zero(D());
      for_each(h.width, [&](std::size_t c, std::size_t n) HWY_ATTR {
        dot = hn::MulAdd(load(dout + r * h.width + c, n), load(h.out + (query + r) * h.ldo + c, n), dot);
      });
      dots[r] = sum_lanes(dot);
    }
    for_each_tile(h, query, [&](const Tile& t) {
      times_columns(p, q, h.width, k_columns, h, t);
      times_columns(ds, dout, h.width, v_columns, h, t);
      for (std::size_t r = 0; r < t.queries; ++r) {
        real *const row = p + r * kKeys, *const d = ds + r * kKeys;
        const std::size_t count = attended(h, t, query + r);
        exp_row(row, allowed_row(h, t, query + r), count, t.keys, h.scale, log_sums[query + r]);
        if (drop.active()) {
          drop.draw(t, query + r);
          drop.apply(d, t.keys);
        }
        const V dot = set(dots[r]), f = set(h.scale), zero = hn::Zero(D());
        for_each(t.keys, [&](std::size_t j, std::size_t n) HWY_ATTR {
          const V w = load(row + j, n);
          store(hn::IfThenElse(hn::Eq(w, zero), zero, hn::Mul(hn::Mul(w, f), hn::Sub(load(d + j, n), dot))), d + j, n);
        });
        if (drop.active()) drop.apply(row, t.keys);
      }
      const std::size_t n = t.queries, width = h.width;
      if (h.dv) gemm(Trans::yes, Trans::no, t.keys, width, n, p, kKeys, dout, width, 1, h.dv + t.key * h.ldv, h.ldv);
      if (h.dq) times_rows(h.dq + query * h.ldq, h.ldq, 1, ds, k, h.width, h, t);
      if (h.dk) gemm(Trans::yes, Trans::no, t.keys, width, n, ds, kKeys, q, width, 1, h.dk + t.key * h.ldk, h.ldk);
    });
  }
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {

HWY_EXPORT(LongAttention);
HWY_EXPORT(LongAttentionBackward);

std::size_t long_attention_scratch(const AttentionHead& head) {
  using HWY_NAMESPACE::kKeys, HWY_NAMESPACE::kQueries;  // the same for every instruction set
  return 2 * kQueries * kKeys + (3 * head.keys + 2 * kQueries) * head.width;
}

void long_attention(const AttentionHead& head, const AttentionDropout& dropout, real* log_sums, real* scratch) {
  HWY_DYNAMIC_DISPATCH(LongAttention)(head, dropout, log_sums, scratch);
}

void long_attention_backward(const AttentionHead& head, const AttentionDropout& dropout, const real* log_sums,
                             real* scratch) {
  HWY_DYNAMIC_DISPATCH(LongAttentionBackward)(head, dropout, log_sums, scratch);
}

}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
