// Attention over short sequences: the heads of a group lie side by side in the lanes of the vectors, so that products
// and softmax are written as for single numbers, and computed for all heads at once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/attention_short.cpp"
#include <hwy/foreach_target.h>

#include "../blas/multiply.h"
#include "../core/simd-inl.h"
#include "kernels.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels::HWY_NAMESPACE {
namespace {

// A matrix whose elements are vectors: lane l belongs to head l. Strides count vectors.
struct LaneMatrix {
  real* data;
  std::size_t row, col;

  HWY_INLINE real* at(std::size_t i, std::size_t j) const { return data + (i * row + j * col) * lanes(); }
  HWY_INLINE V load(std::size_t i, std::size_t j) const { return hn::Load(D(), at(i, j)); }
  HWY_INLINE void store(V v, std::size_t i, std::size_t j) const { hn::Store(v, D(), at(i, j)); }
  LaneMatrix transposed() const { return {data, col, row}; }
};

template <std::size_t kRows, std::size_t kCols>
HWY_INLINE void multiply_block(LaneMatrix c, LaneMatrix a, LaneMatrix b, std::size_t i, std::size_t j, std::size_t k) {
  V sum[kRows][kCols];
  for (auto& row : sum)
    for (V& s : row) s = hn::Zero(D());
  for (std::size_t p = 0; p < k; ++p) {
    V right[kCols];
    for (std::size_t y = 0; y < kCols; ++y) right[y] = b.load(p, j + y);
    for (std::size_t x = 0; x < kRows; ++x) {
      const V left = a.load(i + x, p);
      for (std::size_t y = 0; y < kCols; ++y) sum[x][y] = hn::MulAdd(left, right[y], sum[x][y]);
    }
  }
  for (std::size_t x = 0; x < kRows; ++x)
    for (std::size_t y = 0; y < kCols; ++y) c.store(sum[x][y], i + x, j + y);
}

template <std::size_t kRows>
HWY_INLINE void multiply_rows(LaneMatrix c, LaneMatrix a, LaneMatrix b, std::size_t i, std::size_t n, std::size_t k) {
  std::size_t j = 0;
  for (; j + 4 <= n; j += 4) multiply_block<kRows, 4>(c, a, b, i, j, k);
  const std::size_t rest = n - j;
  if (rest == 3) multiply_block<kRows, 3>(c, a, b, i, j, k);
  if (rest == 2) multiply_block<kRows, 2>(c, a, b, i, j, k);
  if (rest == 1) multiply_block<kRows, 1>(c, a, b, i, j, k);
}

// C[m,n] = A[m,k] B[k,n] in every lane
void multiply(LaneMatrix c, LaneMatrix a, LaneMatrix b, std::size_t m, std::size_t n, std::size_t k) {
  std::size_t i = 0;
  for (; i + 2 <= m; i += 2) multiply_rows<2>(c, a, b, i, n, k);
  if (i < m) multiply_rows<1>(c, a, b, i, n, k);
}

// ---- rows of heads <-> lanes ----

// A matrix of a head.
template <class T>
struct Rows {
  T* data;
  std::size_t rows, ld;
};

Rows<const real> rows_of_q(const AttentionHead& h) { return {h.q.data, h.queries, h.q.stride}; }
Rows<const real> rows_of_k(const AttentionHead& h) { return {h.k.data, h.valid_keys, h.k.stride}; }
Rows<const real> rows_of_v(const AttentionHead& h) { return {h.v.data, h.valid_keys, h.v.stride}; }
Rows<const real> rows_of_dout(const AttentionHead& h) { return {h.out.gradient, h.queries, h.out.stride}; }
Rows<real> rows_of_out(const AttentionHead& h) { return {h.out.data, h.queries, h.out.stride}; }
Rows<real> rows_of_dq(const AttentionHead& h) { return {h.q.gradient, h.queries, h.q.stride}; }
Rows<real> rows_of_dk(const AttentionHead& h) { return {h.k.gradient, h.valid_keys, h.k.stride}; }
Rows<real> rows_of_dv(const AttentionHead& h) { return {h.v.gradient, h.valid_keys, h.v.stride}; }

// Where the matrices of all heads have their row i; null beyond their rows.
template <class T>
using RowOfHeads = T* [kMostAttentionLanes];

template <class T, class F>
HWY_INLINE void find_row(RowOfHeads<T>& row, const AttentionGroup& g, std::size_t i, const F& matrix_of) {
  for (std::size_t l = 0; l < g.size; ++l) {
    const Rows<T> matrix = matrix_of(g.heads[l]);
    row[l] = matrix.data && i < matrix.rows ? matrix.data + i * matrix.ld : nullptr;
  }
}

// Four columns at a time, in 128-bit blocks of vectors. Both return the number of columns done.
#if HWY_TARGET == HWY_SCALAR || defined(SEPPO_FLOAT64)
std::size_t gather_quads(real*, const RowOfHeads<const real>&, std::size_t) { return 0; }
std::size_t scatter_quads(Accumulate, const RowOfHeads<real>&, const real*, std::size_t) { return 0; }
#else
HWY_INLINE std::size_t gather_quads(real* to, const RowOfHeads<const real>& row, std::size_t width) {
  const D d;
  std::size_t c = 0;
  for (; c + 4 <= width; c += 4) {
    V v[4];  // v[x] has four columns of heads x, x + 4, x + 8, ...; transposed, one column of all heads
    for (std::size_t x = 0; x < 4; ++x) {
      v[x] = hn::Zero(d);
      for (std::size_t l = 0; l < lanes(); l += 4) {
        const auto block = hn::AndNot(hn::FirstN(d, l), hn::FirstN(d, l + 4));
        if (row[l + x]) v[x] = hn::IfThenElse(block, hn::LoadDup128(d, row[l + x] + c), v[x]);
      }
    }
    transpose_quads(d, v);
    for (std::size_t x = 0; x < 4; ++x) hn::Store(v[x], d, to + (c + x) * lanes());
  }
  return c;
}

HWY_INLINE std::size_t scatter_quads(Accumulate accumulate, const RowOfHeads<real>& row, const real* from,
                                     std::size_t width) {
  const D d;
  const hn::Full128<real> quad;
  std::size_t c = 0;
  for (; c + 4 <= width; c += 4) {
    V v[4];
    alignas(64) real quads[4 * kMostAttentionLanes];
    for (std::size_t x = 0; x < 4; ++x) v[x] = hn::Load(d, from + (c + x) * lanes());
    transpose_quads(d, v);
    for (std::size_t x = 0; x < 4; ++x) hn::Store(v[x], d, quads + x * lanes());
    for (std::size_t l = 0; l < lanes(); ++l) {
      if (!row[l]) continue;
      real* const to = row[l] + c;
      const auto value = hn::Load(quad, quads + l % 4 * lanes() + l / 4 * 4);
      hn::StoreU(accumulate == Accumulate::yes ? value + hn::LoadU(quad, to) : value, quad, to);
    }
  }
  return c;
}
#endif

// The rows of each head, side by side: [most rows, width] vectors; zeros where a head has fewer.
template <class F>
HWY_INLINE void gather(LaneMatrix to, const AttentionGroup& g, std::size_t most, std::size_t width,
                       const F& matrix_of) {
  RowOfHeads<const real> row = {};
  for (std::size_t i = 0; i < most; ++i) {
    find_row(row, g, i, matrix_of);
    for (std::size_t c = gather_quads(to.at(i, 0), row, width); c < width; ++c)
      for (std::size_t l = 0; l < lanes(); ++l) to.at(i, c)[l] = row[l] ? row[l][c] : real{0};
  }
}

// The reverse: the lanes are written to the rows of each head, or added.
template <class F>
HWY_INLINE void scatter(Accumulate accumulate, LaneMatrix from, const AttentionGroup& g, std::size_t most,
                        std::size_t width, const F& matrix_of) {
  RowOfHeads<real> row = {};
  for (std::size_t i = 0; i < most; ++i) {
    find_row(row, g, i, matrix_of);
    for (std::size_t c = scatter_quads(accumulate, row, from.at(i, 0), width); c < width; ++c)
      for (std::size_t l = 0; l < lanes(); ++l) {
        if (!row[l]) continue;
        const real before = accumulate == Accumulate::yes ? row[l][c] : real{0};
        row[l][c] = from.at(i, c)[l] + before;
      }
  }
}

// ---- attention ----

// Row i of p becomes softmax(scale p_j) over j < limit, in each lane; the rest become 0.
HWY_INLINE void softmax_lanes(LaneMatrix p, std::size_t i, std::size_t keys, V limit, V scale) {
  const V lowest = set(hwy::LowestValue<real>());
  const V zero = hn::Zero(D());
  const auto is_allowed = [&](std::size_t j) HWY_ATTR { return set(static_cast<real>(j)) < limit; };
  V top = lowest;
  for (std::size_t j = 0; j < keys; ++j) {
    const V score = hn::IfThenElse(is_allowed(j), p.load(i, j) * scale, lowest);
    p.store(score, i, j);
    top = hn::Max(top, score);
  }
  V total = zero;
  for (std::size_t j = 0; j < keys; ++j) {
    const V e = hn::IfThenElseZero(is_allowed(j), exp_nonpositive(p.load(i, j) - top));
    p.store(e, i, j);
    total += e;
  }
  const V inverse = hn::IfThenElse(total == zero, zero, set(1) / total);
  for (std::size_t j = 0; j < keys; ++j) p.store(p.load(i, j) * inverse, i, j);
}

// The number of keys, from the first, that query i of each head may attend to.
V limits(const AttentionGroup& g, std::size_t i) {
  alignas(64) real limit[kMostAttentionLanes] = {};
  for (std::size_t l = 0; l < g.size; ++l) limit[l] = static_cast<real>(g.heads[l].attended(i));
  return hn::Load(D(), limit);
}

// Lane matrices [rows, cols] cut from the scratch memory, one after another.
struct Scratch {
  real* next;
  LaneMatrix matrix(std::size_t rows, std::size_t cols) {
    real* const data = next;
    next += rows * cols * lanes();
    return {data, cols, 1};
  }
};

std::size_t attention_group_size() { return lanes(); }

// Q, K and V in lanes.
struct Inputs {
  LaneMatrix q, k, v;
  Inputs(const AttentionGroup& g, Scratch& memory)
      : q(memory.matrix(g.queries, g.heads[0].width)),
        k(memory.matrix(g.keys, g.heads[0].width)),
        v(memory.matrix(g.keys, g.heads[0].v_width)) {}

  void take(const AttentionGroup& g) const {
    gather(q, g, g.queries, g.heads[0].width, rows_of_q);
    gather(k, g, g.keys, g.heads[0].width, rows_of_k);
    gather(v, g, g.keys, g.heads[0].v_width, rows_of_v);
  }
};

void short_attention(const AttentionGroup& g, real* saved, real* scratch) {
  const std::size_t width = g.heads[0].width;
  const std::size_t v_width = g.heads[0].v_width;
  Scratch kept{saved};
  Scratch memory{scratch};
  const LaneMatrix p = kept.matrix(g.queries, g.keys);
  const Inputs in(g, g.keeps_inputs ? kept : memory);
  const LaneMatrix out = memory.matrix(g.queries, v_width);
  in.take(g);
  multiply(p, in.q, in.k.transposed(), g.queries, g.keys, width);
  for (std::size_t i = 0; i < g.queries; ++i) softmax_lanes(p, i, g.keys, limits(g, i), set(g.heads[0].scale));
  multiply(out, p, in.v, g.queries, v_width, g.keys);
  scatter(Accumulate::no, out, g, g.queries, v_width, rows_of_out);
}

// dS = scale P (dP - rowsum(P dP)), in place of dP
HWY_INLINE void softmax_backward_lanes(LaneMatrix ds, LaneMatrix p, std::size_t i, std::size_t keys, V scale) {
  V dot = hn::Zero(D());
  for (std::size_t j = 0; j < keys; ++j) dot = hn::MulAdd(p.load(i, j), ds.load(i, j), dot);
  for (std::size_t j = 0; j < keys; ++j) ds.store(p.load(i, j) * scale * (ds.load(i, j) - dot), i, j);
}

// With P the weights: dV = P^T dO; dP = dO V^T; dS as above; dQ = dS K; dK = dS^T Q.
void short_attention_backward(const AttentionGroup& g, real* saved, real* scratch) {
  const std::size_t nq = g.queries;
  const std::size_t nk = g.keys;
  const std::size_t width = g.heads[0].width;
  const std::size_t v_width = g.heads[0].v_width;
  Scratch kept{saved};
  Scratch memory{scratch};
  const LaneMatrix p = kept.matrix(nq, nk);
  const Inputs in(g, g.keeps_inputs ? kept : memory);
  const LaneMatrix dout = memory.matrix(nq, v_width);
  const LaneMatrix ds = memory.matrix(nq, nk);
  const LaneMatrix result = memory.matrix(std::max(nq, nk), std::max(width, v_width));
  if (!g.keeps_inputs) in.take(g);
  gather(dout, g, nq, v_width, rows_of_dout);
  multiply(result, p.transposed(), dout, nk, v_width, nq);
  scatter(Accumulate::yes, result, g, nk, v_width, rows_of_dv);
  multiply(ds, dout, in.v.transposed(), nq, nk, v_width);
  for (std::size_t i = 0; i < nq; ++i) softmax_backward_lanes(ds, p, i, nk, set(g.heads[0].scale));
  multiply(result, ds, in.k, nq, width, nk);
  scatter(Accumulate::yes, result, g, nq, width, rows_of_dq);
  multiply(result, ds.transposed(), in.q, nk, width, nq);
  scatter(Accumulate::yes, result, g, nk, width, rows_of_dk);
}

std::size_t short_attention_inputs(const AttentionGroup& g) {
  const AttentionHead& h = g.heads[0];
  return ((g.queries + g.keys) * h.width + g.keys * h.v_width) * lanes();
}

std::size_t short_attention_saved(const AttentionGroup& g) {
  const std::size_t weights = g.queries * g.keys * lanes();
  return g.keeps_inputs ? weights + short_attention_inputs(g) : weights;
}

std::size_t short_attention_scratch(const AttentionGroup& g) {
  const std::size_t width = std::max(g.heads[0].width, g.heads[0].v_width);
  const std::size_t others = ((2 * g.queries + g.keys) * width + g.queries * g.keys) * lanes();
  return g.keeps_inputs ? others : others + short_attention_inputs(g);
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
SEPPO_KERNEL(attention_group_size);
SEPPO_KERNEL(short_attention);
SEPPO_KERNEL(short_attention_backward);
SEPPO_KERNEL(short_attention_inputs);
SEPPO_KERNEL(short_attention_saved);
SEPPO_KERNEL(short_attention_scratch);
}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
#endif
