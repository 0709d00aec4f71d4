// Scaled dot-product attention over ragged batches.
#include <seppo/autograd/kernels/kernels.h>
#include <seppo/autograd/ops.h>

#include <algorithm>
#include <cmath>

namespace seppo::inline SEPPO_ABI {
namespace {

// Everything the kernels need of one call; lives in the arena for backward.
struct Plan {
  Columns q, k, v;
  std::size_t heads, width;  // of one head
  Offsets q_offsets, k_offsets;
  Mask mask;
  real* weights;  // [queries, keys] for each head of each sequence, one after another
  real* scratch;

  std::size_t sequences() const { return q_offsets.size() - 1; }
  std::size_t queries(std::size_t s) const { return static_cast<std::size_t>(q_offsets[s + 1] - q_offsets[s]); }
  std::size_t keys(std::size_t s) const { return static_cast<std::size_t>(k_offsets[s + 1] - k_offsets[s]); }

  // Calls f(head, its weights, element offsets of its q rows and of its k rows, column offset).
  template <class F>
  void for_each_head(const F& f) const;
};

std::size_t first_element(const Columns& c, int row) {
  return static_cast<std::size_t>(row) * c.matrix.cols() + static_cast<std::size_t>(c.first);
}

template <class F>
void Plan::for_each_head(const F& f) const {
  std::size_t pairs = 0;
  const std::uint8_t* allowed = mask.pairs.empty() ? nullptr : mask.pairs.data();
  for (std::size_t s = 0; s < sequences(); ++s) {
    const std::size_t nq = queries(s), nk = keys(s);
    for (std::size_t h = 0; h < heads; ++h, pairs += nq * nk) {
      const kernels::AttentionHead head{
          .q = q.matrix.data() + first_element(q, q_offsets[s]) + h * width,
          .k = k.matrix.data() + first_element(k, k_offsets[s]) + h * width,
          .v = v.matrix.data() + first_element(v, k_offsets[s]) + h * width,
          .ldq = q.matrix.cols(),
          .ldk = k.matrix.cols(),
          .ldv = v.matrix.cols(),
          .queries = nq,
          .keys = nk,
          .width = width,
          .valid_keys = mask.lengths.empty() ? nk : static_cast<std::size_t>(mask.lengths[s]),
          .causal = mask.is_causal,
          .allowed = allowed,
          .scale = static_cast<real>(1 / std::sqrt(static_cast<double>(width)))};
      f(head, weights + pairs, s, h);
    }
    if (allowed) allowed += nq * nk;
  }
}

void check_offsets(const char* role, Offsets offsets, const Tensor& matrix) {
  check(!offsets.empty() && offsets.front() == 0 && offsets.back() == static_cast<int>(matrix.rows()) &&
            std::is_sorted(offsets.begin(), offsets.end()),
        "attention: ", role, " offsets must rise from 0 to the ", matrix.rows(), " rows of ", matrix);
}

void check_mask(const Plan& plan) {
  check(plan.mask.lengths.empty() || plan.mask.lengths.size() == plan.sequences(), "attention: mask has ",
        plan.mask.lengths.size(), " valid lengths for ", plan.sequences(), " sequences");
  std::size_t pairs = 0;
  for (std::size_t s = 0; s < plan.sequences(); ++s) {
    pairs += plan.queries(s) * plan.keys(s);
    if (!plan.mask.lengths.empty())
      check<IndexError>(plan.mask.lengths[s] >= 0 && static_cast<std::size_t>(plan.mask.lengths[s]) <= plan.keys(s),
                        "attention: valid length ", plan.mask.lengths[s], " of sequence ", s, " is not in 0..",
                        plan.keys(s));
  }
  check(plan.mask.pairs.empty() || plan.mask.pairs.size() == pairs, "attention: mask has ", plan.mask.pairs.size(),
        " pairs; the sequences have ", pairs, " (query, key) pairs");
}

// The weights as a rectangular tensor, for people to look at.
Tensor weights_tensor(const Plan& plan) {
  std::size_t nq = 0, nk = 0;
  for (std::size_t s = 0; s < plan.sequences(); ++s) {
    nq = std::max(nq, plan.queries(s));
    nk = std::max(nk, plan.keys(s));
  }
  Tensor y = zeros(
      {static_cast<int>(plan.sequences()), static_cast<int>(plan.heads), static_cast<int>(nq), static_cast<int>(nk)});
  plan.for_each_head([&](const kernels::AttentionHead& head, const real* weights, std::size_t s, std::size_t h) {
    kernels::copy_rows(y.data() + (s * plan.heads + h) * nq * nk, nk, weights, head.keys, head.queries, head.keys);
  });
  return y;
}

}  // namespace

Tensor attention(const Columns& q, const Columns& k, const Columns& v, int n_heads, Offsets q_offsets,
                 Offsets k_offsets, const Mask& mask, Tensor* weights) {
  for (const Columns& c : {q, k, v}) {
    check(c.matrix.rank() == 2 && c.first >= 0 && c.count > 0 && c.first + c.count <= c.matrix.dim(1),
          "attention: columns ", c.first, "..", c.first + c.count, " are not within a matrix ", c.matrix);
    check(c.count == q.count, "attention: Q, K and V widths differ: ", q.count, ", ", k.count, ", ", v.count);
  }
  check(k.matrix.rows() == v.matrix.rows(), "attention: K ", k.matrix, " and V ", v.matrix, " differ in rows");
  check<ArgumentError>(n_heads > 0 && q.count % n_heads == 0, "attention: width ", q.count, " is not a multiple of ",
                       n_heads, " heads");
  check_offsets("query", q_offsets, q.matrix);
  check_offsets("key", k_offsets, k.matrix);
  check(q_offsets.size() == k_offsets.size(), "attention: ", q_offsets.size() - 1, " query sequences, ",
        k_offsets.size() - 1, " key sequences");

  Tape& t = tape();
  Plan* const plan = new (t.allocate<Plan>(1)) Plan{q,
                                                    k,
                                                    v,
                                                    static_cast<std::size_t>(n_heads),
                                                    static_cast<std::size_t>(q.count / n_heads),
                                                    t.keep(q_offsets),
                                                    t.keep(k_offsets),
                                                    {mask.is_causal, t.keep(mask.lengths), t.keep(mask.pairs)},
                                                    nullptr,
                                                    nullptr};
  check_mask(*plan);
  std::size_t pairs = 0, scratch = 0;
  for (std::size_t s = 0; s < plan->sequences(); ++s) {
    pairs += plan->queries(s) * plan->keys(s) * plan->heads;
    scratch = std::max(scratch, kernels::attention_scratch(plan->queries(s), plan->keys(s), plan->width));
  }
  plan->weights = t.allocate<real>(pairs);
  plan->scratch = t.allocate<real>(scratch);

  Tensor y = t.create({static_cast<int>(q.matrix.rows()), q.count});
  const std::size_t ld = y.cols();
  plan->for_each_head([&](const kernels::AttentionHead& head, real* w, std::size_t s, std::size_t h) {
    real* const out = y.data() + static_cast<std::size_t>(plan->q_offsets[s]) * ld + h * plan->width;
    kernels::attention(out, ld, w, head, plan->scratch);
  });
  if (weights) *weights = weights_tensor(*plan);
  record(y, {q.matrix, k.matrix, v.matrix}, [=] {
    const auto gradient = [](const Columns& c) { return c.matrix.requires_grad() ? c.matrix.grad() : nullptr; };
    real *const dq = gradient(plan->q), *const dk = gradient(plan->k), *const dv = gradient(plan->v);
    const auto at = [](real* d, const Columns& c, const real* data) {
      return d ? d + (data - c.matrix.data()) : nullptr;
    };
    plan->for_each_head([&](const kernels::AttentionHead& head, const real* w, std::size_t s, std::size_t h) {
      const real* const dout = y.grad() + static_cast<std::size_t>(plan->q_offsets[s]) * ld + h * plan->width;
      kernels::attention_backward(at(dq, plan->q, head.q), at(dk, plan->k, head.k), at(dv, plan->v, head.v), dout, ld,
                                  w, head, plan->scratch);
    });
  });
  return y;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, int n_heads, const Mask& mask, Tensor* weights) {
  for (const Tensor& x : {q, k, v})
    check(x.rank() == 3 && x.dim(0) == q.dim(0), "attention: needs Q, K, V [sequences, rows, d]: Q ", q, ", K ", k,
          ", V ", v);
  const auto rows = [](const Tensor& x) { return reshape(x, {x.dim(0) * x.dim(1), x.dim(2)}); };
  const auto offsets = [](const Tensor& x) {
    int* const begin = tape().allocate<int>(static_cast<std::size_t>(x.dim(0)) + 1);
    for (int s = 0; s <= x.dim(0); ++s) begin[s] = s * x.dim(1);
    return Offsets(begin, static_cast<std::size_t>(x.dim(0)) + 1);
  };
  return reshape(attention(rows(q), rows(k), rows(v), n_heads, offsets(q), offsets(k), mask, weights),
                 Shape{q.dim(0), q.dim(1), q.dim(2)});
}

}  // namespace seppo::inline SEPPO_ABI
