#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "seppo/autograd/kernels/attention.cpp"
#include <hwy/foreach_target.h>

#include <seppo/autograd/blas.h>
#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/kernels/simd-inl.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE {
namespace {

// A factor read element by element, at any strides, so that its transpose is free.
struct Strided {
  const real* data;
  std::size_t row, col;
};

template <std::size_t kRows>
HWY_INLINE void small_gemm_rows(std::size_t n, std::size_t k, Strided a, const real* b, std::size_t ldb, real beta,
                                real* c, std::size_t ldc) {
  for_each(n, [&](std::size_t j, std::size_t count) HWY_ATTR {
    V sum[kRows];
    for (std::size_t r = 0; r < kRows; ++r) sum[r] = hn::Zero(D());
    for (std::size_t p = 0; p < k; ++p) {
      const V bv = load(b + p * ldb + j, count);
      for (std::size_t r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(set(a.data[r * a.row + p * a.col]), bv, sum[r]);
    }
    for (std::size_t r = 0; r < kRows; ++r) accumulate(sum[r], beta, c + r * ldc + j, count);
  });
}

// C[m,n] = beta C + A[m,k] B[k,n], vectorised along n: for products too small for BLAS.
void small_gemm(std::size_t m, std::size_t n, std::size_t k, Strided a, const real* b, std::size_t ldb, real beta,
                real* c, std::size_t ldc) {
  for (; m >= 4; m -= 4, a.data += 4 * a.row, c += 4 * ldc) small_gemm_rows<4>(n, k, a, b, ldb, beta, c, ldc);
  for (; m > 0; --m, a.data += a.row, c += ldc) small_gemm_rows<1>(n, k, a, b, ldb, beta, c, ldc);
}

// Below this many multiplications per product, a call to BLAS costs more than it saves.
constexpr std::size_t kSmall = 32 * 32 * 64;
bool is_small(const AttentionHead& h) { return h.queries * h.keys * h.width <= kSmall; }

void transpose(real* y, const real* x, std::size_t ldx, std::size_t rows, std::size_t cols) {
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < cols; ++j) y[j * rows + i] = x[i * ldx + j];
}

// out[queries, keys] = rows rows_of^T, where rows_of is k or v
void times_transposed(real* out, const real* rows, std::size_t ld, const real* of, std::size_t ldof,
                      const AttentionHead& h, real* scratch) {
  if (!is_small(h)) return gemm(Trans::no, Trans::yes, h.queries, h.keys, h.width, rows, ld, of, ldof, 0, out, h.keys);
  transpose(scratch, of, ldof, h.keys, h.width);
  small_gemm(h.queries, h.keys, h.width, {rows, ld, 1}, scratch, h.keys, 0, out, h.keys);
}

// out[queries, width] = beta out + weights b
void times(real* out, std::size_t ldo, real beta, const real* weights, const real* b, std::size_t ldb,
           const AttentionHead& h) {
  if (!is_small(h))
    return gemm(Trans::no, Trans::no, h.queries, h.width, h.keys, weights, h.keys, b, ldb, beta, out, ldo);
  small_gemm(h.queries, h.width, h.keys, {weights, h.keys, 1}, b, ldb, beta, out, ldo);
}

// out[keys, width] += weights^T b
void add_transposed_times(real* out, std::size_t ldo, const real* weights, const real* b, std::size_t ldb,
                          const AttentionHead& h) {
  if (!is_small(h))
    return gemm(Trans::yes, Trans::no, h.keys, h.width, h.queries, weights, h.keys, b, ldb, 1, out, ldo);
  small_gemm(h.keys, h.width, h.queries, {weights, 1, h.keys}, b, ldb, 1, out, ldo);
}

// Keys that query i may attend when there is no explicit mask: the first ones.
std::size_t attended_keys(const AttentionHead& h, std::size_t i) {
  if (!h.causal) return h.valid_keys;
  const std::size_t up_to = i + 1 + h.keys;
  return std::min(h.valid_keys, up_to > h.queries ? up_to - h.queries : 0);
}

// Softmax over the allowed among the first `count` keys; scores are multiplied by the scale here.
void weights_row(real* row, const std::uint8_t* allowed, std::size_t count, std::size_t keys, real scale) {
  const V lowest = set(hwy::LowestValue<real>()), s = set(scale), zero = hn::Zero(D());
  if (allowed)
    for (std::size_t j = 0; j < count; ++j)
      if (!allowed[j]) row[j] = scale < 0 ? -hwy::LowestValue<real>() : hwy::LowestValue<real>();
  V top = lowest;
  for_each(count, [&](std::size_t j, std::size_t n)
                      HWY_ATTR { top = hn::Max(top, first(hn::Mul(load(row + j, n), s), lowest, n)); });
  const V max = set(max_lanes(top));
  V total = zero;
  for_each(count, [&](std::size_t j, std::size_t n) HWY_ATTR {
    const V e = first(exp_nonpositive(hn::Sub(hn::Mul(load(row + j, n), s), max)), zero, n);
    store(e, row + j, n);
    total = hn::Add(total, e);
  });
  real sum = sum_lanes(total);
  if (allowed) {
    // Masked keys count exactly zero, also when every key is masked.
    sum = 0;
    for (std::size_t j = 0; j < count; ++j) {
      if (!allowed[j]) row[j] = 0;
      sum += row[j];
    }
  }
  const V inverse = set(sum == 0 ? real{0} : 1 / sum);
  for_each(count,
           [&](std::size_t j, std::size_t n) HWY_ATTR { store(hn::Mul(load(row + j, n), inverse), row + j, n); });
  for (std::size_t j = count; j < keys; ++j) row[j] = 0;
}

void Attention(real* out, std::size_t ldo, real* weights, const AttentionHead& h, real* scratch) {
  times_transposed(weights, h.q, h.ldq, h.k, h.ldk, h, scratch);
  for (std::size_t i = 0; i < h.queries; ++i)
    weights_row(weights + i * h.keys, h.allowed ? h.allowed + i * h.keys : nullptr, attended_keys(h, i), h.keys,
                h.scale);
  times(out, ldo, 0, weights, h.v, h.ldv, h);
}

// With P the weights: dV = P^T dO; dP = dO V^T; dS = scale P (dP - rowsum(P dP)); dQ = dS K; dK = dS^T Q.
void AttentionBackward(real* dq, real* dk, real* dv, const real* dout, std::size_t ldo, const real* weights,
                       const AttentionHead& h, real* scratch) {
  if (dv) add_transposed_times(dv, h.ldv, weights, dout, ldo, h);
  if (!dq && !dk) return;
  real* ds = scratch;
  times_transposed(ds, dout, ldo, h.v, h.ldv, h, scratch + h.queries * h.keys);
  const V s = set(h.scale);
  for (std::size_t i = 0; i < h.queries; ++i) {
    const real* p = weights + i * h.keys;
    real* d = ds + i * h.keys;
    V dot = hn::Zero(D());
    for_each(h.keys,
             [&](std::size_t j, std::size_t n) HWY_ATTR { dot = hn::MulAdd(load(p + j, n), load(d + j, n), dot); });
    const V total = set(sum_lanes(dot));
    for_each(h.keys, [&](std::size_t j, std::size_t n) HWY_ATTR {
      store(hn::Mul(hn::Mul(load(p + j, n), s), hn::Sub(load(d + j, n), total)), d + j, n);
    });
  }
  if (dq) times(dq, h.ldq, 1, ds, h.k, h.ldk, h);
  if (dk) add_transposed_times(dk, h.ldk, ds, h.q, h.ldq, h);
}

}  // namespace
}  // namespace seppo::inline SEPPO_ABI::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace seppo::inline SEPPO_ABI::kernels {

HWY_EXPORT(Attention);
HWY_EXPORT(AttentionBackward);

std::size_t attention_scratch(std::size_t queries, std::size_t keys, std::size_t width) {
  return queries * keys + keys * width;
}

void attention(real* out, std::size_t ldo, real* weights, const AttentionHead& head, real* scratch) {
  HWY_DYNAMIC_DISPATCH(Attention)(out, ldo, weights, head, scratch);
}

void attention_backward(real* dq, real* dk, real* dv, const real* dout, std::size_t ldo, const real* weights,
                        const AttentionHead& head, real* scratch) {
  HWY_DYNAMIC_DISPATCH(AttentionBackward)(dq, dk, dv, dout, ldo, weights, head, scratch);
}

}  // namespace seppo::inline SEPPO_ABI::kernels
#endif
