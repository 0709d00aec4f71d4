// Scaled dot-product attention over ragged batches.
#include "../blas/gemm.h"
#include "../core/observer.h"
#include "../core/parallel.h"
#include "../kernels/kernels.h"
#include "../ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace seppo::inline SEPPO_ABI {
namespace {

// Everything the kernels need of one call; lives in the arena for backward.
struct Plan {
  Columns q, k, v;
  std::size_t heads, width;  // of one head
  Offsets q_offsets, k_offsets;
  Mask mask;
  double dropout;
  RandomContext random;
  real* saved = nullptr;  // for backward: short_attention_saved() for each group, or the log-sums of [head, query row]

  std::size_t sequences() const { return q_offsets.size() - 1; }
  std::size_t pairs() const { return sequences() * heads; }  // (sequence, head), the unit of work
  std::size_t queries(std::size_t s) const { return static_cast<std::size_t>(q_offsets[s + 1] - q_offsets[s]); }
  std::size_t keys(std::size_t s) const { return static_cast<std::size_t>(k_offsets[s + 1] - k_offsets[s]); }
  std::size_t most_queries() const;
  std::size_t most_keys() const;
  bool is_short() const;
  double multiplications() const;
};

// The gradients that backward adds to; null where none is wanted.
struct Gradients {
  const real* dout = nullptr;
  real *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

std::size_t Plan::most_queries() const {
  std::size_t most = 0;
  for (std::size_t s = 0; s < sequences(); ++s) most = std::max(most, queries(s));
  return most;
}

std::size_t Plan::most_keys() const {
  std::size_t most = 0;
  for (std::size_t s = 0; s < sequences(); ++s) most = std::max(most, keys(s));
  return most;
}

// Short attention needs its rows in the first-level cache once for each lane, and lanes to fill.
bool Plan::is_short() const {
  constexpr std::size_t kMostElements = 300;  // of a head's Q or K
  return mask.pairs.empty() && dropout == 0 && std::max(most_queries(), most_keys()) * width <= kMostElements &&
         2 * pairs() >= kernels::attention_group_size();
}

double Plan::multiplications() const {
  double total = 0;
  for (std::size_t s = 0; s < sequences(); ++s) total += static_cast<double>(queries(s) * keys(s));
  return 2 * total * static_cast<double>(heads * width);
}

// Makes the kernels' heads: pair p is head p % heads of sequence p / heads.
class Heads {
 public:
  Heads(const Plan& plan, const Tensor& y, const Gradients& gradients) : plan_(plan) {
    const auto at = [](const Columns& c, auto* data) { return data ? data + c.first : nullptr; };
    first_ = {.q = at(plan.q, plan.q.matrix.data()),
              .k = at(plan.k, plan.k.matrix.data()),
              .v = at(plan.v, plan.v.matrix.data()),
              .out = y.data(),
              .dout = gradients.dout,
              .dq = at(plan.q, gradients.dq),
              .dk = at(plan.k, gradients.dk),
              .dv = at(plan.v, gradients.dv),
              .ldq = plan.q.matrix.cols(),
              .ldk = plan.k.matrix.cols(),
              .ldv = plan.v.matrix.cols(),
              .ldo = y.cols(),
              .queries = 0,
              .keys = 0,
              .width = plan.width,
              .valid_keys = 0,
              .causal = plan.mask.is_causal,
              .allowed = nullptr,
              .scale = static_cast<real>(1 / std::sqrt(static_cast<double>(plan.width)))};
  }

  kernels::AttentionHead operator()(std::size_t pair) const {
    kernels::AttentionHead h;
    put(h, pair);
    return h;
  }

  // The same, in place: copying what was just written would wait for it.
  void put(kernels::AttentionHead& h, std::size_t pair) const {
    const std::size_t s = pair / plan_.heads, column = pair % plan_.heads * plan_.width;
    const auto query = static_cast<std::size_t>(plan_.q_offsets[s]), key = static_cast<std::size_t>(plan_.k_offsets[s]);
    h = first_;
    const auto move = [](auto& data, std::size_t elements) {
      if (data) data += elements;
    };
    move(h.q, query * h.ldq + column);
    move(h.k, key * h.ldk + column);
    move(h.v, key * h.ldv + column);
    move(h.out, query * h.ldo + column);
    move(h.dout, query * h.ldo + column);
    move(h.dq, query * h.ldq + column);
    move(h.dk, key * h.ldk + column);
    move(h.dv, key * h.ldv + column);
    h.queries = plan_.queries(s);
    h.keys = plan_.keys(s);
    h.valid_keys = plan_.mask.lengths.empty() ? h.keys : static_cast<std::size_t>(plan_.mask.lengths[s]);
    if (!plan_.mask.pairs.empty()) {
      h.allowed = plan_.mask.pairs.data();
      for (std::size_t i = 0; i < s; ++i) h.allowed += plan_.queries(i) * plan_.keys(i);
    }
  }

 private:
  const Plan& plan_;
  kernels::AttentionHead first_;
};

// Calls f(unit, memory of the thread) for n units of work; in parallel if there is enough to do and no two
// heads write to the same place.
template <class F>
void for_each_unit(const Plan& plan, bool is_disjoint, std::size_t n, std::size_t scratch_elements, const F& f) {
  constexpr double kWorthThreads = 1e6;  // multiplications
  const bool is_parallel = is_disjoint && plan.multiplications() > kWorthThreads;
  const bool is_nested = inside_task();
  const std::size_t each = (scratch_elements + 15) / 16 * 16;
  const RecycledArray scratch(tape().arena(), each * (is_parallel ? static_cast<std::size_t>(usable_threads()) : 1));
  if (is_parallel)
    run_tasks(n, [&](std::size_t unit) {
      f(unit, scratch.data() + (is_nested ? 0 : static_cast<std::size_t>(thread_index())) * each);
    });
  else
    for (std::size_t unit = 0; unit < n; ++unit) f(unit, scratch.data());
}

// The heads of q, k and v in memory of their own: then heads are independent in backward too.
bool are_disjoint(const Columns& a, const Columns& b) {
  const Tensor &x = a.matrix, &y = b.matrix;
  if (x.data() + x.numel() <= y.data() || y.data() + y.numel() <= x.data()) return true;
  return x.data() == y.data() && x.cols() == y.cols() && (a.first + a.count <= b.first || b.first + b.count <= a.first);
}

std::size_t groups(const Plan& plan) {
  const std::size_t size = kernels::attention_group_size();
  return (plan.pairs() + size - 1) / size;
}

// A full group of the longest sequences, for the sizes of memory.
kernels::AttentionGroup largest_group(const Plan& plan, const kernels::AttentionHead& head) {
  constexpr std::size_t kMostKept = std::size_t{256} << 10;  // bytes; more would not stay in the cache until backward
  kernels::AttentionGroup group{&head, kernels::attention_group_size(), plan.most_queries(), plan.most_keys(), false};
  group.keeps_inputs = groups(plan) * kernels::short_attention_inputs(group) * sizeof(real) <= kMostKept;
  return group;
}

// Runs a pass of short attention: f(group, what it saves, scratch memory).
template <class F>
void for_each_group(const Plan& plan, const Tensor& y, const Gradients& gradients, bool is_disjoint, const F& f) {
  const Heads head(plan, y, gradients);
  const kernels::AttentionHead first = head(0);
  const kernels::AttentionGroup largest = largest_group(plan, first);
  for_each_unit(plan, is_disjoint, groups(plan), kernels::short_attention_scratch(largest),
                [&](std::size_t g, real* scratch) {
                  kernels::AttentionHead heads[kernels::kMostAttentionLanes];
                  kernels::AttentionGroup group = largest;
                  group.heads = heads;
                  group.size = std::min(largest.size, plan.pairs() - g * largest.size);
                  for (std::size_t l = 0; l < group.size; ++l) head.put(heads[l], g * largest.size + l);
                  f(group, plan.saved + g * kernels::short_attention_saved(largest), scratch);
                });
}

// Runs a pass of long attention: f(head, its dropout, its log-sums, scratch memory).
template <class F>
void for_each_head(const Plan& plan, const Tensor& y, const Gradients& gradients, bool is_disjoint, const F& f) {
  const Heads head(plan, y, gradients);
  std::size_t size = 0;
  for (std::size_t s = 0; s < plan.sequences(); ++s)
    size = std::max(size, kernels::long_attention_scratch(head(s * plan.heads)));
  for_each_unit(plan, is_disjoint, plan.pairs(), size, [&](std::size_t pair, real* scratch) {
    const std::size_t s = pair / plan.heads, h = pair % plan.heads;
    const RandomContext& random = plan.random;
    const std::uint32_t sample = random.sample + static_cast<std::uint32_t>(s),
                        head_index = static_cast<std::uint32_t>(h);
    const kernels::AttentionDropout dropout{{plan.dropout, {random.seed, random.step, sample, random.site}},
                                            head_index};
    f(head(pair), head(std::min(pair + 1, plan.pairs() - 1)), dropout,
      plan.saved + h * plan.q.matrix.rows() + static_cast<std::size_t>(plan.q_offsets[s]), scratch);
  });
}

std::size_t saved_elements(const Plan& plan, const Tensor& y) {
  if (!plan.is_short()) return plan.heads * y.rows();
  const kernels::AttentionHead first = Heads(plan, y, {})(0);
  return groups(plan) * kernels::short_attention_saved(largest_group(plan, first));
}

void forward(const Plan& plan, const Tensor& y) {
  if (plan.is_short())
    for_each_group(plan, y, {}, true, kernels::short_attention);
  else
    for_each_head(plan, y, {}, true, kernels::long_attention);
}

void backward(const Plan& plan, const Tensor& y) {
  const auto gradient = [](const Columns& c) { return c.matrix.requires_grad() ? grad_of(c.matrix) : nullptr; };
  const Gradients gradients{grad_of(y), gradient(plan.q), gradient(plan.k), gradient(plan.v)};
  const bool is_disjoint = are_disjoint(plan.q, plan.k) && are_disjoint(plan.q, plan.v) && are_disjoint(plan.k, plan.v);
  if (plan.is_short())
    for_each_group(plan, y, gradients, is_disjoint, kernels::short_attention_backward);
  else
    for_each_head(plan, y, gradients, is_disjoint, kernels::long_attention_backward);
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

// Tells the observers that want them the weights, as a rectangle.
void show_weights(const Plan& plan, const Tensor& y) {
  const auto wants = [](const ObserverLink* link) { return link->observer.wants_attention_weights(); };
  const ObserverLink* first = tape().observers();
  while (first && !wants(first)) first = first->next;
  if (!first) return;
  const std::size_t nq = plan.most_queries(), nk = plan.most_keys();
  const Shape shape{static_cast<int>(plan.sequences()), static_cast<int>(plan.heads), static_cast<int>(nq),
                    static_cast<int>(nk)};
  std::vector<real> weights(static_cast<std::size_t>(shape.numel()));
  const Heads head(plan, y, {});
  for (std::size_t pair = 0; pair < plan.pairs(); ++pair) {
    const kernels::AttentionHead h = head(pair);
    real* const rows = weights.data() + pair * nq * nk;
    gemm(Trans::no, Trans::yes, h.queries, h.valid_keys, h.width, h.q, h.ldq, h.k, h.ldk, 0, rows, nk);
    for (std::size_t i = 0; i < h.queries; ++i) {
      real* const row = rows + i * nk;
      const std::size_t up_to = i + 1 + h.keys;
      const std::size_t count =
          h.causal ? std::min(h.valid_keys, up_to > h.queries ? up_to - h.queries : 0) : h.valid_keys;
      kernels::scale(row, row, h.scale, count);
      if (h.allowed)
        for (std::size_t j = 0; j < count; ++j)
          if (!h.allowed[i * h.keys + j]) row[j] = -std::numeric_limits<real>::infinity();
      kernels::softmax_row(row, row, count, nk);
    }
  }
  for (const ObserverLink* link = first; link; link = link->next)
    if (wants(link)) link->observer.attention_weights(shape, weights);
}

}  // namespace

Tensor attention(const Columns& q, const Columns& k, const Columns& v, int n_heads, Offsets q_offsets,
                 Offsets k_offsets, const AttentionOptions& options) {
  for (const Columns& c : {q, k, v}) {
    check(c.matrix.rank() == 2 && c.first >= 0 && c.count > 0 && c.first + c.count <= c.matrix.size(1),
          "attention: columns ", c.first, "..", c.first + c.count, " are not within a matrix ", c.matrix);
    check(c.count == q.count, "attention: Q, K and V widths differ: ", q.count, ", ", k.count, ", ", v.count);
  }
  check(k.matrix.rows() == v.matrix.rows(), "attention: K ", k.matrix, " and V ", v.matrix, " differ in rows");
  check<ArgumentError>(n_heads > 0 && q.count % n_heads == 0, "attention: width ", q.count, " is not a multiple of ",
                       n_heads, " heads");
  check<ArgumentError>(options.dropout >= 0 && options.dropout <= 1, "attention: dropout ", options.dropout,
                       " is not in [0, 1]");
  check_offsets("query", q_offsets, q.matrix);
  check_offsets("key", k_offsets, k.matrix);
  check(q_offsets.size() == k_offsets.size(), "attention: ", q_offsets.size() - 1, " query sequences, ",
        k_offsets.size() - 1, " key sequences");

  Tape& t = tape();
  const Mask& mask = options.mask;
  Plan* const plan = new (t.allocate<Plan>(1)) Plan{.q = q,
                                                    .k = k,
                                                    .v = v,
                                                    .heads = static_cast<std::size_t>(n_heads),
                                                    .width = static_cast<std::size_t>(q.count / n_heads),
                                                    .q_offsets = t.keep(q_offsets),
                                                    .k_offsets = t.keep(k_offsets),
                                                    .mask = {mask.is_causal, t.keep(mask.lengths), t.keep(mask.pairs)},
                                                    .dropout = t.mode == Mode::train ? options.dropout : 0,
                                                    .random = t.random};
  check_mask(*plan);
  if (plan->dropout > 0) ++t.random.site;
  Tensor y = t.create({static_cast<int>(q.matrix.rows()), q.count});
  if (plan->pairs() == 0) return y;
  plan->saved = t.allocate<real>(saved_elements(*plan, y));
  forward(*plan, y);
  show_weights(*plan, y);
  record("attention", y, {q.matrix, k.matrix, v.matrix}, [=] { backward(*plan, y); });
  return y;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, int n_heads, const AttentionOptions& options) {
  for (const Tensor& x : {q, k, v})
    check(x.rank() == 3 && x.size(0) == q.size(0), "attention: needs Q, K, V [sequences, rows, d]: Q ", q, ", K ", k,
          ", V ", v);
  const auto rows = [](const Tensor& x) { return reshape(x, {x.size(0) * x.size(1), x.size(2)}); };
  const auto offsets = [](const Tensor& x) {
    int* const begin = tape().allocate<int>(static_cast<std::size_t>(x.size(0)) + 1);
    for (int s = 0; s <= x.size(0); ++s) begin[s] = s * x.size(1);
    return Offsets(begin, static_cast<std::size_t>(x.size(0)) + 1);
  };
  return reshape(attention(rows(q), rows(k), rows(v), n_heads, offsets(q), offsets(k), options),
                 Shape{q.size(0), q.size(1), q.size(2)});
}

}  // namespace seppo::inline SEPPO_ABI
