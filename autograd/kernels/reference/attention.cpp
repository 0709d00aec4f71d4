// Attention, one query of one head at a time: its scores with all keys, their softmax, and the mean of the values that
// it weighs (Vaswani et al. 2017, section 3.2.1).
#include "reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace seppo {
inline namespace SEPPO_ABI {
namespace kernels {
namespace reference {

inline double dot(const real* a, const real* b, std::size_t n) {
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) total += double{a[i]} * double{b[i]};
  return total;
}

inline double product_of(const AttentionHead& h, std::size_t i, std::size_t j) {
  return double{h.scale} * dot(h.q.data + i * h.q.stride, h.k.data + j * h.k.stride, h.width);
}

// How query i and key j match: the cap applied to their scaled product, plus the bias.
inline real score_of(const AttentionHead& h, std::size_t i, std::size_t j) {
  const double product = product_of(h, i, j);
  const double cap{h.softcap};
  const double capped = cap == 0 ? product : cap * std::tanh(product / cap);
  return static_cast<real>(h.has_bias() ? capped + double{h.bias_of(i, j)} : capped);
}

// The derivative of the cap.
inline double slope_of_cap(const AttentionHead& h, std::size_t i, std::size_t j) {
  if (h.softcap == 0) return 1;
  const double t = std::tanh(product_of(h, i, j) / double{h.softcap});
  return 1 - t * t;
}

inline bool may_attend(const AttentionHead& h, std::size_t i, std::size_t j) {
  return j >= h.first_attended(i) && j < h.attended(i) && (!h.allowed || h.allowed[i * h.keys + j]);
}

// Each head and query drops weights of its own: its elements begin at a multiple of 128.
inline double weight_factor(const AttentionDropout& dropout, const AttentionHead& h, std::size_t i, std::size_t j) {
  if (dropout.weights.p == 0) return 1;
  const std::size_t row = (h.keys + 127) / 128 * 128;
  return dropout_factor(dropout.weights, (dropout.head * h.queries + i) * row + j);
}

std::size_t long_attention_scratch(const AttentionHead& h) { return h.keys; }

void long_attention(const AttentionHead& h, const AttentionHead&, const AttentionDropout& dropout, real* log_sums,
                    real* weights) {
  for (std::size_t i = 0; i < h.queries; ++i) {
    real top = std::numeric_limits<real>::lowest();
    for (std::size_t j = 0; j < h.valid_keys; ++j) {
      if (!may_attend(h, i, j)) continue;
      weights[j] = score_of(h, i, j);
      top = std::max(top, weights[j]);
    }
    double sum = 0;
    for (std::size_t j = 0; j < h.valid_keys; ++j) {
      weights[j] = may_attend(h, i, j) ? std::exp(weights[j] - top) : real{0};
      sum += double{weights[j]};
    }
    const double inverse = sum == 0 ? 0 : 1 / sum;  // 0: no key is allowed, the output is zero
    for (std::size_t j = 0; j < h.valid_keys; ++j)
      weights[j] = static_cast<real>(double{weights[j]} * inverse * weight_factor(dropout, h, i, j));
    for (std::size_t c = 0; c < h.v_width; ++c) {
      double mean = 0;
      for (std::size_t j = 0; j < h.valid_keys; ++j) mean += double{weights[j]} * double{h.v.data[j * h.v.stride + c]};
      h.out.data[i * h.out.stride + c] = static_cast<real>(mean);
    }
    log_sums[2 * i] = top;
    log_sums[2 * i + 1] = sum == 0 ? std::numeric_limits<real>::infinity() : static_cast<real>(std::log(sum));
  }
}

// to += factor from
inline void add_scaled(real* to, const real* from, double factor, std::size_t n) {
  if (!to) return;
  for (std::size_t i = 0; i < n; ++i) accumulate(to[i], 1, factor * double{from[i]});
}

// With p the weights, m the dropout factors: dv_j = sum_i p m do_i; the slope of a score is p (m do v - do o).
void long_attention_backward(const AttentionHead& h, const AttentionHead&, const AttentionDropout& dropout,
                             real* log_sums, real*) {
  for (std::size_t i = 0; i < h.queries; ++i) {
    const real* const dout = h.out.gradient + i * h.out.stride;
    const double mean = dot(dout, h.out.data + i * h.out.stride, h.v_width);
    for (std::size_t j = 0; j < h.valid_keys; ++j) {
      if (!may_attend(h, i, j)) continue;
      const real p = std::exp(score_of(h, i, j) - log_sums[2 * i] - log_sums[2 * i + 1]);
      if (p == 0) continue;
      const HeadInput q = h.q.from(i * h.q.stride), k = h.k.from(j * h.k.stride), v = h.v.from(j * h.v.stride);
      const double factor = weight_factor(dropout, h, i, j);
      const double slope = double{p} * (factor * dot(dout, v.data, h.v_width) - mean);
      const double slope_of_product = double{h.scale} * slope * slope_of_cap(h, i, j);
      add_scaled(v.gradient, dout, double{p} * factor, h.v_width);
      add_scaled(q.gradient, k.data, slope_of_product, h.width);
      add_scaled(k.gradient, q.data, slope_of_product, h.width);
      if (h.bias.gradient) accumulate(h.bias.gradient[i * h.bias.stride + j], 1, slope);
    }
  }
}

// Short sequences are nothing special here: a group is one head, of which the log_sums are saved.
std::size_t attention_group_size() { return 1; }
std::size_t short_attention_inputs(const AttentionGroup&) { return 0; }
std::size_t short_attention_saved(const AttentionGroup& group) { return 2 * group.queries; }
std::size_t short_attention_scratch(const AttentionGroup& group) { return group.keys; }

void short_attention(const AttentionGroup& group, real* saved, real* scratch) {
  long_attention(group.heads[0], group.heads[0], {}, saved, scratch);
}

void short_attention_backward(const AttentionGroup& group, real* saved, real* scratch) {
  long_attention_backward(group.heads[0], group.heads[0], {}, saved, scratch);
}

}  // namespace reference

SEPPO_REFERENCE_KERNEL(attention_group_size);
SEPPO_REFERENCE_KERNEL(short_attention_inputs);
SEPPO_REFERENCE_KERNEL(short_attention_saved);
SEPPO_REFERENCE_KERNEL(short_attention_scratch);
SEPPO_REFERENCE_KERNEL(short_attention);
SEPPO_REFERENCE_KERNEL(short_attention_backward);
SEPPO_REFERENCE_KERNEL(long_attention_scratch);
SEPPO_REFERENCE_KERNEL(long_attention);
SEPPO_REFERENCE_KERNEL(long_attention_backward);

}  // namespace kernels
}  // namespace SEPPO_ABI
}  // namespace seppo
