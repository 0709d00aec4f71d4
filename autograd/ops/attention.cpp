// Scaled dot-product attention over ragged batches.
#include "../core/arena.h"
#include "../core/memory.h"
#include "../core/observer.h"
#include "../core/parallel.h"
#include "../core/tape.h"
#include "op.h"
#include "term_sums.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Everything the kernels need for one call; lives in the arena for backward.
struct Plan {
  Columns q, k, v;
  std::size_t heads, group;    // of queries; how many of them share a head of K and V
  std::size_t width, v_width;  // of one head
  Offsets q_offsets, k_offsets;
  AttentionOptions options;
  kernels::Dropping dropout;
  real* saved = nullptr;  // for backward: short_attention_saved() for each group, or log_sums of [head, query row]

  std::size_t sequences() const { return q_offsets.size() - 1; }
  std::size_t pairs() const { return sequences() * heads; }  // (sequence, head), the unit of work
  std::size_t queries(std::size_t s) const { return static_cast<std::size_t>(q_offsets[s + 1] - q_offsets[s]); }
  std::size_t keys(std::size_t s) const { return static_cast<std::size_t>(k_offsets[s + 1] - k_offsets[s]); }
  // Those that its queries may attend to: the mask's valid length, or all.
  std::size_t valid_keys(std::size_t s) const {
    return options.mask.lengths.empty() ? keys(s) : static_cast<std::size_t>(options.mask.lengths[s]);
  }
  std::size_t most_queries() const { return longest(q_offsets); }
  std::size_t most_keys() const { return longest(k_offsets); }
  std::size_t most_valid_keys() const {
    std::size_t most = 0;
    for (std::size_t s = 0; s < sequences(); ++s) most = std::max(most, valid_keys(s));
    return most;
  }

  // Short attention needs L1 to hold its rows for every lane, and enough heads to fill the lanes; heads that share a
  // head of K and V must be in one group.
  bool is_short() const {
    constexpr std::size_t kMostElements = 300;  // in a head's Q, K or V
    const std::size_t lanes = kernels::attention_group_size();
    return options.mask.pairs.empty() && !options.bias.defined() && options.slopes.empty() && options.softcap == 0 &&
           dropout.p == 0 && std::max(most_queries(), most_keys()) * std::max(width, v_width) <= kMostElements &&
           2 * pairs() >= lanes && lanes % group == 0;
  }
  double multiplications() const {
    double total = 0;
    for (std::size_t s = 0; s < sequences(); ++s) total += static_cast<double>(queries(s) * keys(s));
    return total * static_cast<double>(heads * (width + v_width));
  }

 private:
  static std::size_t longest(Offsets offsets) {
    int most = 0;
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) most = std::max(most, offsets[s + 1] - offsets[s]);
    return static_cast<std::size_t>(most);
  }
};

// Makes the kernels' heads: pair p is head p % heads of sequence p / heads.
class Heads {
 public:
  // dbias: where the gradient of the bias goes, in backward; null if there is none.
  Heads(const Plan& plan, const Tensor& y, bool is_backward, real* dbias = nullptr) : plan_(plan) {
    const auto at = [](const Columns& c, auto* data) { return data ? data + c.first : nullptr; };
    const auto gradient = [&](const Columns& c) { return at(c, is_backward ? grad_if_required(c.matrix) : nullptr); };
    kernels::AttentionHead& h = first_;
    h.q = at(plan.q, plan.q.matrix.data()), h.dq = gradient(plan.q), h.ldq = plan.q.matrix.cols();
    h.k = at(plan.k, plan.k.matrix.data()), h.dk = gradient(plan.k), h.ldk = plan.k.matrix.cols();
    h.v = at(plan.v, plan.v.matrix.data()), h.dv = gradient(plan.v), h.ldv = plan.v.matrix.cols();
    h.out = y.data(), h.dout = is_backward ? grad_of(y) : nullptr, h.ldo = y.cols();
    h.width = plan.width, h.v_width = plan.v_width;
    h.scale = static_cast<real>(1 / std::sqrt(static_cast<double>(plan.width)));
    h.softcap = static_cast<real>(plan.options.softcap);
    h.causal = plan.options.mask.is_causal;
    const Tensor& bias = plan.options.bias;
    if (!bias.defined()) return;
    h.bias = bias.data(), h.dbias = dbias, h.ldb = bias.cols();
  }

  kernels::AttentionHead operator()(std::size_t pair) const {
    kernels::AttentionHead h;
    put(h, pair);
    return h;
  }

  // The same, in place: copying a struct just written field by field defeats store forwarding.
  void put(kernels::AttentionHead& h, std::size_t pair) const {
    const std::size_t s = pair / plan_.heads, head = pair % plan_.heads, of_keys = head / plan_.group;
    const auto query = static_cast<std::size_t>(plan_.q_offsets[s]), key = static_cast<std::size_t>(plan_.k_offsets[s]);
    const AttentionOptions& o = plan_.options;
    h = first_;
    const auto move = [](std::size_t elements, auto&... data) { ((data ? data += elements : data), ...); };
    move(query * h.ldq + head * h.width, h.q, h.dq);
    move(key * h.ldk + of_keys * h.width, h.k, h.dk);
    move(key * h.ldv + of_keys * h.v_width, h.v, h.dv);
    move(query * h.ldo + head * h.v_width, h.out, h.dout);
    h.queries = plan_.queries(s);
    h.keys = plan_.keys(s);
    h.valid_keys = plan_.valid_keys(s);
    if (!o.mask.pairs.empty()) {
      h.allowed = o.mask.pairs.data();
      for (std::size_t i = 0; i < s; ++i) h.allowed += plan_.queries(i) * plan_.keys(i);
    }
    if (h.bias) move(bias_matrix(s, head) * h.ldb * static_cast<std::size_t>(o.bias.size(-2)), h.bias, h.dbias);
    if (!o.slopes.empty()) h.slope = o.slopes[head];
    if (!o.positions.empty()) h.positions = o.positions.data() + query;
  }

 private:
  // The index of a bias matrix. The leading axes are [sequences, heads], each of them 1 if it is shared.
  std::size_t bias_matrix(std::size_t s, std::size_t head) const {
    const Tensor& bias = plan_.options.bias;
    const auto size = [&](int axis) { return bias.rank() >= -axis ? static_cast<std::size_t>(bias.size(axis)) : 1; };
    return (size(-4) == 1 ? 0 : s * size(-3)) + (size(-3) == 1 ? 0 : head);
  }

  const Plan& plan_;
  kernels::AttentionHead first_{};
};

// Calls f(unit, memory of the thread) for n units of work, in parallel if there is enough to do.
template <class F>
void for_each_unit(bool is_parallel, std::size_t n, std::size_t scratch_elements, const F& f) {
  const auto run_unit = [&](std::size_t unit) {
    static thread_local Memory memory;  // not scratch_memory(), which the products within use
    f(unit, at_least(memory, scratch_elements * sizeof(real)).as<real>());
  };
  if (is_parallel) return run_tasks(n, run_unit);
  for (std::size_t unit = 0; unit < n; ++unit) run_unit(unit);
}

// True if no two heads write to the same place: q, k and v have their own memory, or their own columns.
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

std::size_t saved_elements(const Plan& plan, const Tensor& y) {
  if (!plan.is_short()) return 2 * plan.heads * y.rows();
  const kernels::AttentionHead first = Heads(plan, y, false)(0);
  return groups(plan) * kernels::short_attention_saved(largest_group(plan, first));
}

// The gradient of the bias. Where many heads share it, the sums of some go to where more digits are.
class BiasGradient {
 public:
  BiasGradient(const Plan& plan, bool is_backward) : bias_(plan.options.bias) {
    if (!is_backward || !bias_.defined() || !bias_.requires_grad()) return;
    real* const gradient = grad_if_required(bias_);
    const std::size_t matrices = bias_.rows() / static_cast<std::size_t>(std::max(1, bias_.size(-2)));
    const std::size_t heads = matrices == 0 ? 0 : plan.pairs() / matrices;
    sums_.emplace(gradient, bias_.numel(), heads);
    if (heads <= kernels::kMostTerms) {
      to_ = gradient;
    } else {
      some_.emplace(tape().arena(), bias_.numel());
      to_ = some_->data();
      std::fill_n(to_, bias_.numel(), real{0});
    }
  }

  real* data() const { return to_; }

  // To be called after each head, and when all have been added.
  void head_is_added() {
    if (++heads_ % kernels::kMostTerms == 0) add_some();
  }
  void finish() {
    add_some();
    if (sums_) sums_->finish();
  }

 private:
  void add_some() {
    if (!some_) return;
    sums_->add(0, to_, bias_.numel());
    std::fill_n(to_, bias_.numel(), real{0});
  }

  Tensor bias_;
  std::optional<TermSums> sums_;
  std::optional<RecycledArray<>> some_;
  real* to_ = nullptr;
  std::size_t heads_ = 0;
};

// Forward or backward: by groups of heads with short_pass, or head by head with long_pass.
template <class Short, class Long>
void run(const Plan& plan, const Tensor& y, bool is_backward, Short short_pass, Long long_pass) {
  constexpr double kWorthThreads = 1e6;  // multiplications
  const Tensor& bias = plan.options.bias;
  const bool is_parallel =
      plan.multiplications() > kWorthThreads &&
      (!is_backward || (are_disjoint(plan.q, plan.k) && are_disjoint(plan.q, plan.v) && are_disjoint(plan.k, plan.v) &&
                        !(bias.defined() && bias.requires_grad())));
  BiasGradient dbias(plan, is_backward);
  const Heads head(plan, y, is_backward, dbias.data());
  if (plan.is_short()) {
    const kernels::AttentionHead first = head(0);
    const kernels::AttentionGroup largest = largest_group(plan, first);
    for_each_unit(is_parallel, groups(plan), kernels::short_attention_scratch(largest),
                  [&](std::size_t g, real* scratch) {
                    kernels::AttentionHead heads[kernels::kMostAttentionLanes];
                    kernels::AttentionGroup group = largest;
                    group.heads = heads;
                    group.size = std::min(largest.size, plan.pairs() - g * largest.size);
                    for (std::size_t l = 0; l < group.size; ++l) head.put(heads[l], g * largest.size + l);
                    short_pass(group, plan.saved + g * kernels::short_attention_saved(largest), scratch);
                  });
    return;
  }
  std::size_t scratch_size = 0;
  for (std::size_t s = 0; s < plan.sequences(); ++s)
    scratch_size = std::max(scratch_size, kernels::long_attention_scratch(head(s * plan.heads)));
  // Heads that share a head of K and V add to the same gradients, so they run one after another.
  const std::size_t together = is_backward ? plan.group : 1;
  for_each_unit(is_parallel, plan.pairs() / together, scratch_size, [&](std::size_t unit, real* scratch) {
    for (std::size_t pair = unit * together; pair < (unit + 1) * together; ++pair) {
      const std::size_t s = pair / plan.heads, h = pair % plan.heads;
      kernels::AttentionDropout dropout{plan.dropout, static_cast<std::uint32_t>(h)};
      dropout.weights.key.sample += static_cast<std::uint32_t>(s);
      real* const log_sums = plan.saved + 2 * (h * y.rows() + static_cast<std::size_t>(plan.q_offsets[s]));
      long_pass(head(pair), head(std::min(pair + 1, plan.pairs() - 1)), dropout, log_sums, scratch);
      if (dbias.data()) dbias.head_is_added();
    }
  });
  dbias.finish();
}

void check_offsets(const char* role, Offsets offsets, const Tensor& matrix) {
  check(!offsets.empty() && offsets.front() == 0 && offsets.back() == static_cast<int>(matrix.rows()) &&
            std::is_sorted(offsets.begin(), offsets.end()),
        "attention: ", role, " offsets must rise from 0 to the ", matrix.rows(), " rows of ", matrix);
}

// The leading axes must be 1 or the numbers of sequences and heads; rows must suffice for the most queries, columns for
// the most keys that are attended to: a cache's keys lie among rows that are still free.
void check_bias(const Plan& plan) {
  const AttentionOptions& o = plan.options;
  if (o.bias.defined()) {
    const int rank = o.bias.rank(), sequences = static_cast<int>(plan.sequences()),
              heads = static_cast<int>(plan.heads);
    check(rank >= 2 && rank <= 4 && (rank < 4 || o.bias.size(0) == 1 || o.bias.size(0) == sequences) &&
              (rank < 3 || o.bias.size(-3) == 1 || o.bias.size(-3) == heads) &&
              static_cast<std::size_t>(o.bias.size(-2)) >= plan.most_queries() &&
              o.bias.cols() >= plan.most_valid_keys(),
          "attention: bias ", o.bias, " is not [", sequences, " or 1, ", heads, " or 1, queries, keys] for up to ",
          plan.most_queries(), " queries and ", plan.most_valid_keys(), " valid keys");
  }
  check(o.slopes.empty() || o.slopes.size() == plan.heads, "attention: ", o.slopes.size(), " slopes for ", plan.heads,
        " heads");
  check(o.positions.empty() || o.positions.size() == plan.q.matrix.rows(), "attention: ", o.positions.size(),
        " positions for the ", plan.q.matrix.rows(), " rows of Q ", plan.q.matrix);
}

// Passes the weights, as a rectangle, to the observers that want them.
void show_weights(const Plan& plan, const Tensor& y) {
  const auto wants = [](const ObserverLink* link) { return link->observer.wants_attention_weights(); };
  const ObserverLink* first = tape().observers();
  while (first && !wants(first)) first = first->next;
  if (!first) return;
  const std::size_t nq = plan.most_queries(), nk = plan.most_keys();
  const Shape shape{static_cast<int>(plan.sequences()), static_cast<int>(plan.heads), static_cast<int>(nq),
                    static_cast<int>(nk)};
  std::vector<real> weights(static_cast<std::size_t>(shape.numel())), identity(nk * nk), log_sums(2 * nq);
  for (std::size_t j = 0; j < nk; ++j) identity[j * nk + j] = 1;
  const Heads head(plan, y, false);
  for (std::size_t pair = 0; pair < plan.pairs(); ++pair) {
    kernels::AttentionHead h = head(pair);  // weights times the identity
    h.v = identity.data(), h.out = weights.data() + pair * nq * nk, h.ldv = h.ldo = h.v_width = nk;
    const RecycledArray scratch(tape().arena(), kernels::long_attention_scratch(h));
    kernels::long_attention(h, h, {}, log_sums.data(), scratch.data());
  }
  for (const ObserverLink* link = first; link; link = link->next)
    if (wants(link)) link->observer.attention_weights(shape, weights);
}

}  // namespace

Tensor attention(const Columns& q, const Columns& k, const Columns& v, int n_heads, Offsets q_offsets,
                 Offsets k_offsets, const AttentionOptions& options) {
  for (const Columns& c : {q, k, v})
    check(c.matrix.rank() == 2 && c.first >= 0 && c.count > 0 && c.count <= c.matrix.size(1) - c.first,
          "attention: columns ", c.first, "..", std::int64_t{c.first} + c.count, " are not within a matrix ", c.matrix);
  check(k.matrix.rows() == v.matrix.rows(), "attention: K ", k.matrix, " and V ", v.matrix, " differ in rows");
  check<ArgumentError>(n_heads > 0 && q.count % n_heads == 0, "attention: width ", q.count, " is not a multiple of ",
                       n_heads, " heads");
  const int width = q.count / n_heads, kv_heads = k.count / width;
  check(k.count % width == 0 && n_heads % kv_heads == 0, "attention: K of width ", k.count,
        " does not have heads of Q's width ", width, " in a number that divides its ", n_heads);
  check(v.count % kv_heads == 0, "attention: V of width ", v.count, " does not have as many heads as K, ", kv_heads);
  check_softcap("attention", options.softcap);
  check_offsets("query", q_offsets, q.matrix);
  check_offsets("key", k_offsets, k.matrix);
  check(q_offsets.size() == k_offsets.size(), "attention: ", q_offsets.size() - 1, " query sequences, ",
        k_offsets.size() - 1, " key sequences");

  Tape& t = tape();
  const Mask& mask = options.mask;
  const kernels::Dropping dropout = next_dropping("attention", options.dropout);
  Plan* const plan = new (t.allocate<Plan>(1)) Plan{.q = q,
                                                    .k = k,
                                                    .v = v,
                                                    .heads = static_cast<std::size_t>(n_heads),
                                                    .group = static_cast<std::size_t>(n_heads / kv_heads),
                                                    .width = static_cast<std::size_t>(width),
                                                    .v_width = static_cast<std::size_t>(v.count / kv_heads),
                                                    .q_offsets = t.keep(q_offsets),
                                                    .k_offsets = t.keep(k_offsets),
                                                    .options = options,
                                                    .dropout = dropout};
  plan->options.mask = {mask.is_causal, t.keep(mask.lengths), t.keep(mask.pairs)};
  plan->options.slopes = t.keep(options.slopes);
  plan->options.positions = t.keep(options.positions);
  check_mask("attention", mask, plan->sequences(), [=](std::size_t s) {
    return std::pair{plan->queries(s), plan->keys(s)};
  });
  check_bias(*plan);
  Tensor y = t.create({static_cast<int>(q.matrix.rows()), static_cast<int>(plan->heads * plan->v_width)});
  plan->saved = t.allocate<real>(saved_elements(*plan, y));
  run(*plan, y, false, kernels::short_attention, kernels::long_attention);
  show_weights(*plan, y);
  record("attention", y, {q.matrix, k.matrix, v.matrix, options.bias},
         [=] { run(*plan, y, true, kernels::short_attention_backward, kernels::long_attention_backward); });
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
  const Tensor y = attention(rows(q), rows(k), rows(v), n_heads, offsets(q), offsets(k), options);
  return reshape(y, Shape{q.size(0), q.size(1), y.size(1)});
}

}  // namespace SEPPO_ABI
}  // namespace seppo
