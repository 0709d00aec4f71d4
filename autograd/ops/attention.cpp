// Scaled dot-product attention over ragged batches.
#include "../core/arena.h"
#include "../core/memory.h"
#include "../core/observer.h"
#include "../core/parallel.h"
#include "../core/tape.h"
#include "attention_heads.h"
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

std::size_t groups(const AttentionPlan& plan) {
  const std::size_t size = kernels::attention_group_size();
  return (plan.pairs() + size - 1) / size;
}

// A full group of the longest sequences, for the sizes of memory.
kernels::AttentionGroup largest_group(const AttentionPlan& plan, const kernels::AttentionHead& head) {
  constexpr std::size_t kMostKept = std::size_t{256} << 10;  // bytes; more would not stay in the cache until backward
  kernels::AttentionGroup group{&head, kernels::attention_group_size(), plan.most_queries(), plan.most_keys(), false};
  group.keeps_inputs = groups(plan) * kernels::short_attention_inputs(group) * sizeof(real) <= kMostKept;
  return group;
}

void allocate_saved(AttentionPlan& plan, const Tensor& y) {
  if (!plan.is_short()) {
    plan.log_sums = tape().allocate<real>(2 * plan.heads * y.rows());
    return;
  }
  const kernels::AttentionHead first = AttentionHeads(plan, y, AttentionPass::forward)(0);
  const std::size_t of_a_group = kernels::short_attention_saved(largest_group(plan, first));
  plan.saved_by_groups = tape().allocate<real>(groups(plan) * of_a_group);
}

// The gradient of the bias, of which sequences, heads or both may share each matrix. Where many heads do, the sums of
// some go to where more digits are.
class BiasGradient {
 public:
  BiasGradient(const AttentionPlan& plan, AttentionPass pass) : bias_(plan.options.bias) {
    if (pass == AttentionPass::forward || !bias_.defined() || !bias_.requires_grad()) return;
    of_sequences_ = size_before(4);
    of_heads_ = size_before(3);
    size_ = bias_.numel() / std::max<std::size_t>(1, matrices());
    const std::size_t heads = plan.pairs() / std::max<std::size_t>(1, matrices());
    real* const gradient = grad_if_required(bias_);
    sums_.emplace(gradient, bias_.numel(), heads);
    if (heads <= kernels::kMostTerms) {
      to_ = gradient;
    } else {
      some_.emplace(tape().arena(), bias_.numel());
      to_ = some_->data();
      std::fill_n(to_, bias_.numel(), real{0});
      counts_.emplace(tape().arena(), matrices());
      std::fill_n(counts_->data(), matrices(), std::size_t{0});
    }
  }

  real* data() const { return to_; }
  bool is_shared_by_sequences() const { return to_ && of_sequences_ == 1; }
  bool is_shared_by_heads() const { return to_ && of_heads_ == 1; }

  // To be called after each head of a sequence, and when all have been added. Threads may add to different matrices.
  void is_added(std::size_t sequence, std::size_t head) {
    if (!some_) return;
    const std::size_t matrix = (of_sequences_ == 1 ? 0 : sequence) * of_heads_ + (of_heads_ == 1 ? 0 : head);
    if (++counts_->data()[matrix] % kernels::kMostTerms == 0) add_some(matrix);
  }
  void finish() {
    for (std::size_t matrix = 0; some_ && matrix < matrices(); ++matrix) add_some(matrix);
    if (sums_) sums_->finish();
  }

 private:
  std::size_t matrices() const { return of_sequences_ * of_heads_; }
  std::size_t size_before(int axes) const {  // of the first of so many last axes; 1 if there are fewer
    return bias_.rank() < axes ? 1 : static_cast<std::size_t>(bias_.size(-axes));
  }
  void add_some(std::size_t matrix) {
    real* const some = to_ + matrix * size_;
    sums_->add(matrix * size_, some, size_);
    std::fill_n(some, size_, real{0});
  }

  Tensor bias_;
  std::size_t of_sequences_ = 1, of_heads_ = 1, size_ = 0;  // of each matrix
  std::optional<TermSums> sums_;
  std::optional<RecycledArray<>> some_;
  std::optional<RecycledArray<std::size_t>> counts_;  // of heads added to each matrix
  real* to_ = nullptr;
};

// Backward adds to gradients, to which no two threads may add at once.
bool can_run_in_parallel(const AttentionPlan& plan, AttentionPass pass) {
  constexpr double kWorthThreads = 1e6;  // multiplications
  if (plan.multiplications() <= kWorthThreads) return false;
  if (pass == AttentionPass::forward) return true;
  return are_disjoint(plan.q, plan.k) && are_disjoint(plan.q, plan.v) && are_disjoint(plan.k, plan.v);
}

// By groups of heads.
void run_short(const AttentionPlan& plan, const AttentionHeads& heads, AttentionPass pass) {
  const auto kernel = pass == AttentionPass::forward ? kernels::short_attention : kernels::short_attention_backward;
  const kernels::AttentionHead first = heads(0);
  const kernels::AttentionGroup largest = largest_group(plan, first);
  const std::size_t saved_size = kernels::short_attention_saved(largest);
  for_each_unit(can_run_in_parallel(plan, pass), groups(plan), kernels::short_attention_scratch(largest),
                [&](std::size_t g, real* scratch) {
                  kernels::AttentionHead members[kernels::kMostAttentionLanes];
                  kernels::AttentionGroup group = largest;
                  group.heads = members;
                  group.size = std::min(largest.size, plan.pairs() - g * largest.size);
                  for (std::size_t l = 0; l < group.size; ++l) heads.make(members[l], g * largest.size + l);
                  kernel(group, plan.saved_by_groups + g * saved_size, scratch);
                });
}

// Head by head.
void run_long(const AttentionPlan& plan, const Tensor& y, const AttentionHeads& heads, AttentionPass pass,
              BiasGradient& dbias) {
  if (plan.sequences() == 0) return;
  const auto kernel = pass == AttentionPass::forward ? kernels::long_attention : kernels::long_attention_backward;
  std::size_t scratch_size = 0;
  for (std::size_t s = 0; s < plan.sequences(); ++s)
    scratch_size = std::max(scratch_size, kernels::long_attention_scratch(heads(s * plan.heads)));
  const auto run_pair = [&](std::size_t pair, real* scratch) {
    const std::size_t s = pair / plan.heads, head = pair % plan.heads;
    const std::size_t next = std::min(pair + 1, plan.pairs() - 1);
    kernels::AttentionDropout dropout{plan.dropout, static_cast<std::uint32_t>(head)};
    dropout.weights.key.sample += static_cast<std::uint32_t>(s);
    real* const log_sums = plan.log_sums + 2 * (head * y.rows() + static_cast<std::size_t>(plan.q_offsets[s]));
    kernel(heads(pair), heads(next), dropout, log_sums, scratch);
    dbias.is_added(s, head);
  };
  // Those that add to the same gradients run one after another: heads that share a head of K and V, and sequences or
  // heads that share a matrix of the bias.
  const std::size_t group = pass == AttentionPass::backward ? plan.group : 1;
  const std::size_t heads_in_turn = dbias.is_shared_by_heads() ? plan.heads : group;
  const std::size_t sequences_in_turn = dbias.is_shared_by_sequences() ? plan.sequences() : 1;
  const std::size_t units_across = plan.heads / heads_in_turn,
                    units = plan.sequences() / sequences_in_turn * units_across;
  for_each_unit(can_run_in_parallel(plan, pass), units, scratch_size, [&](std::size_t unit, real* scratch) {
    const std::size_t first = unit / units_across * sequences_in_turn, head = unit % units_across * heads_in_turn;
    for (std::size_t s = first; s < first + sequences_in_turn; ++s)
      for (std::size_t h = head; h < head + heads_in_turn; ++h) run_pair(s * plan.heads + h, scratch);
  });
}

void run(const AttentionPlan& plan, const Tensor& y, AttentionPass pass) {
  BiasGradient dbias(plan, pass);
  const AttentionHeads heads(plan, y, pass, dbias.data());
  if (plan.is_short())
    run_short(plan, heads, pass);
  else
    run_long(plan, y, heads, pass, dbias);
  dbias.finish();
}

void check_offsets(const char* role, Offsets offsets, const Tensor& matrix) {
  check(!offsets.empty() && offsets.front() == 0 && offsets.back() == static_cast<int>(matrix.rows()) &&
            std::is_sorted(offsets.begin(), offsets.end()),
        "attention: ", role, " offsets must rise from 0 to the ", matrix.rows(), " rows of ", matrix);
}

// The leading axes must be 1 or the numbers of sequences and heads; rows must suffice for the most queries, columns for
// the most keys that are attended to: a cache's keys lie among rows that are still free.
void check_bias(const AttentionPlan& plan) {
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
void show_weights(const AttentionPlan& plan, const Tensor& y) {
  const auto wants = [](const ObserverLink* link) { return link->observer.wants_attention_weights(); };
  const ObserverLink* first = tape().observers();
  while (first && !wants(first)) first = first->next;
  if (!first) return;
  const std::size_t nq = plan.most_queries(), nk = plan.most_keys();
  const Shape shape{static_cast<int>(plan.sequences()), static_cast<int>(plan.heads), static_cast<int>(nq),
                    static_cast<int>(nk)};
  std::vector<real> weights(static_cast<std::size_t>(shape.numel())), identity(nk * nk), log_sums(2 * nq);
  for (std::size_t j = 0; j < nk; ++j) identity[j * nk + j] = 1;
  const AttentionHeads head(plan, y, AttentionPass::forward);
  for (std::size_t pair = 0; pair < plan.pairs(); ++pair) {
    kernels::AttentionHead h = head(pair);  // weights times the identity
    h.v = {identity.data(), nullptr, nk};
    h.out = {weights.data() + pair * nq * nk, nullptr, nk};
    h.v_width = nk;
    const RecycledArray scratch(tape().arena(), kernels::long_attention_scratch(h));
    kernels::long_attention(h, h, {}, log_sums.data(), scratch.data());
  }
  for (const ObserverLink* link = first; link; link = link->next)
    if (wants(link)) link->observer.attention_weights(shape, weights);
}

// A byte for each pair, on the tape: those of the mask. If queries have valid lengths, these and the window are in it.
std::span<const std::uint8_t> kept_pairs(const AttentionPlan& plan, const Mask& mask) {
  if (mask.query_lengths.empty()) return tape().keep(mask.pairs);
  std::size_t count = 0;
  for (std::size_t s = 0; s < plan.sequences(); ++s) count += plan.queries(s) * plan.keys(s);
  std::uint8_t* const pairs = tape().allocate<std::uint8_t>(count);
  std::size_t query = 0, pair = 0;
  for (std::size_t s = 0; s < plan.sequences(); ++s)
    for (std::size_t i = 0; i < plan.queries(s); ++i, ++query) {
      const std::size_t end = seen_keys(mask, s, i, query, plan.queries(s), plan.keys(s));
      const std::size_t begin = kernels::window_begin(end, static_cast<std::size_t>(plan.options.window));
      for (std::size_t j = 0; j < plan.keys(s); ++j, ++pair)
        pairs[pair] = j >= begin && j < end && (mask.pairs.empty() || mask.pairs[pair] != 0);
    }
  return {pairs, count};
}

Tensor attend(const Columns& q, const Columns& k, const Columns& v, int n_heads, Offsets q_offsets, Offsets k_offsets,
              HeadLayout layout, const AttentionOptions& options) {
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
  check_scale("attention", options.scale);
  check<ArgumentError>(options.window >= 0, "attention: window ", options.window, " is negative");
  check_offsets("query", q_offsets, q.matrix);
  check_offsets("key", k_offsets, k.matrix);
  check(q_offsets.size() == k_offsets.size(), "attention: ", q_offsets.size() - 1, " query sequences, ",
        k_offsets.size() - 1, " key sequences");

  Tape& t = tape();
  const Mask& mask = options.mask;
  const kernels::Dropping dropout = next_dropping("attention", options.dropout);
  AttentionPlan* const plan =
      new (t.allocate<AttentionPlan>(1)) AttentionPlan{.q = q,
                                                       .k = k,
                                                       .v = v,
                                                       .layout = layout,
                                                       .heads = static_cast<std::size_t>(n_heads),
                                                       .group = static_cast<std::size_t>(n_heads / kv_heads),
                                                       .width = static_cast<std::size_t>(width),
                                                       .v_width = static_cast<std::size_t>(v.count / kv_heads),
                                                       .q_offsets = t.keep(q_offsets),
                                                       .k_offsets = t.keep(k_offsets),
                                                       .options = options,
                                                       .dropout = dropout};
  if (static_cast<std::size_t>(options.window) >= plan->most_keys()) plan->options.window = 0;
  plan->options.slopes = t.keep(options.slopes);
  plan->options.positions = t.keep(options.positions);
  check_mask("attention", mask, plan->sequences(), [=](std::size_t s) {
    return std::pair{plan->queries(s), plan->keys(s)};
  });
  plan->options.mask = {.is_causal = mask.is_causal, .lengths = t.keep(mask.lengths), .pairs = kept_pairs(*plan, mask)};
  if (!mask.query_lengths.empty()) plan->options.window = 0;
  check_bias(*plan);
  Tensor y = t.create({static_cast<int>(q.matrix.rows()), static_cast<int>(plan->heads * plan->v_width)});
  allocate_saved(*plan, y);
  run(*plan, y, AttentionPass::forward);
  show_weights(*plan, y);
  record("attention", y, {q.matrix, k.matrix, v.matrix, options.bias}, [=] { run(*plan, y, AttentionPass::backward); });
  return y;
}

// Of so many sequences with so many rows each.
Offsets even_offsets(int sequences, int rows) {
  const auto n = static_cast<std::size_t>(sequences) + 1;
  int* const begin = tape().allocate<int>(n);
  for (int s = 0; s <= sequences; ++s) begin[s] = s * rows;
  return {begin, n};
}

}  // namespace

Tensor attention(const Columns& q, const Columns& k, const Columns& v, int n_heads, Offsets q_offsets,
                 Offsets k_offsets, const AttentionOptions& options) {
  return attend(q, k, v, n_heads, q_offsets, k_offsets, HeadLayout::side_by_side, options);
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, int n_heads, const AttentionOptions& options) {
  for (const Tensor& x : {q, k, v})
    check(x.rank() == 3 && x.size(0) == q.size(0), "attention: needs Q, K, V [sequences, rows, d]: Q ", q, ", K ", k,
          ", V ", v);
  const auto rows = [](const Tensor& x) { return reshape(x, {x.size(0) * x.size(1), x.size(2)}); };
  const auto offsets = [](const Tensor& x) { return even_offsets(x.size(0), x.size(1)); };
  const Tensor y = attention(rows(q), rows(k), rows(v), n_heads, offsets(q), offsets(k), options);
  return reshape(y, Shape{q.size(0), q.size(1), y.size(1)});
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  for (const Tensor& x : {q, k, v})
    check(x.rank() == 4 && x.size(0) == q.size(0) && x.size(1) > 0,
          "attention: needs Q, K, V [sequences, heads, rows, ", "width]: Q ", q, ", K ", k, ", V ", v);
  check(q.size(3) == k.size(3), "attention: heads of Q ", q, " and K ", k, " differ in width");
  check(k.size(1) == v.size(1) && k.size(2) == v.size(2), "attention: K ", k, " and V ", v, " differ in heads or rows");
  const auto rows = [](const Tensor& x) { return reshape(x, {x.size(0) * x.size(2), x.size(1) * x.size(3)}); };
  const auto offsets = [](const Tensor& x) { return even_offsets(x.size(0), x.size(2)); };
  const Tensor y =
      attend(rows(q), rows(k), rows(v), q.size(1), offsets(q), offsets(k), HeadLayout::one_after_another, options);
  return reshape(y, Shape{q.size(0), q.size(1), q.size(2), v.size(3)});
}

}  // namespace SEPPO_ABI
}  // namespace seppo
