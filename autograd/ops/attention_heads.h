// What attention.cpp prepares for its kernels: a plan of the call, and the heads of its sequences.
#pragma once

#include "op.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace seppo {
inline namespace SEPPO_ABI {

// Where the heads of a sequence lie: side by side in its rows, or one after another, each with rows of its own.
enum class HeadLayout { side_by_side, one_after_another };

// Everything the kernels need for one call; lives in the arena for backward.
struct AttentionPlan {
  Columns q, k, v;
  HeadLayout layout;
  std::size_t heads, group;    // of queries; how many of them share a head of K and V
  std::size_t width, v_width;  // of one head
  Offsets q_offsets, k_offsets;
  AttentionOptions options;
  kernels::Dropping dropout;
  // For backward: one of these.
  real* saved_by_groups = nullptr;  // short sequences: short_attention_saved() elements for each group of heads
  real* log_sums = nullptr;         // long sequences: [head, query row, 2]

  std::size_t sequences() const { return q_offsets.size() - 1; }
  std::size_t pairs() const { return sequences() * heads; }  // (sequence, head), the unit of work
  std::size_t queries(std::size_t s) const { return static_cast<std::size_t>(q_offsets[s + 1] - q_offsets[s]); }
  std::size_t keys(std::size_t s) const { return static_cast<std::size_t>(k_offsets[s + 1] - k_offsets[s]); }
  // Those that its queries may attend to: the mask's valid length, or all.
  std::size_t valid_keys(std::size_t s) const {
    return options.mask.lengths.empty() ? keys(s) : static_cast<std::size_t>(options.mask.lengths[s]);
  }
  // Those that any one of its queries sees.
  std::size_t seen_keys(std::size_t s) const {
    return options.window > 0 ? std::min(keys(s), static_cast<std::size_t>(options.window)) : keys(s);
  }
  double scale() const { return options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(width)); }
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
           options.window == 0 && dropout.p == 0 &&
           std::max(most_queries(), most_keys()) * std::max(width, v_width) <= kMostElements && 2 * pairs() >= lanes &&
           lanes % group == 0;
  }
  double multiplications() const {
    double total = 0;
    for (std::size_t s = 0; s < sequences(); ++s) total += static_cast<double>(queries(s) * seen_keys(s));
    return total * static_cast<double>(heads * (width + v_width));
  }

 private:
  static std::size_t longest(Offsets offsets) {
    int most = 0;
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) most = std::max(most, offsets[s + 1] - offsets[s]);
    return static_cast<std::size_t>(most);
  }
};

enum class AttentionPass { forward, backward };

// Makes the kernels' heads: pair p is head p % heads of sequence p / heads.
class AttentionHeads {
 public:
  // dbias: where the gradient of the bias goes, in backward; null if there is none.
  AttentionHeads(const AttentionPlan& plan, const Tensor& y, AttentionPass pass, real* dbias = nullptr)
      : plan_(plan),
        q_cols_(plan.q.matrix.cols()),
        k_cols_(plan.k.matrix.cols()),
        v_cols_(plan.v.matrix.cols()),
        out_cols_(y.cols()) {
    const bool is_apart = plan.layout == HeadLayout::one_after_another;
    const auto input = [&](const Columns& c, std::size_t width) {
      real* const gradient = pass == AttentionPass::backward ? grad_if_required(c.matrix) : nullptr;
      const std::size_t stride = is_apart ? width : c.matrix.cols();
      return kernels::HeadInput{c.matrix.data(), gradient, stride}.from(static_cast<std::size_t>(c.first));
    };
    kernels::AttentionHead& h = first_;
    h.q = input(plan.q, plan.width);
    h.k = input(plan.k, plan.width);
    h.v = input(plan.v, plan.v_width);
    h.out = {y.data(), pass == AttentionPass::backward ? grad_of(y) : nullptr, is_apart ? plan.v_width : y.cols()};
    h.width = plan.width;
    h.v_width = plan.v_width;
    h.scale = static_cast<real>(plan.scale());
    h.window = static_cast<std::size_t>(plan.options.window);
    h.softcap = static_cast<real>(plan.options.softcap);
    h.causal = plan.options.mask.is_causal;
    if (const Tensor& bias = plan.options.bias; bias.defined()) h.bias = {bias.data(), dbias, bias.cols()};
  }

  kernels::AttentionHead operator()(std::size_t pair) const {
    kernels::AttentionHead h;
    make(h, pair);
    return h;
  }

  // The same, in place: copying a struct just written field by field defeats store forwarding.
  void make(kernels::AttentionHead& h, std::size_t pair) const {
    const std::size_t s = pair / plan_.heads, head = pair % plan_.heads, of_keys = head / plan_.group;
    const auto query = static_cast<std::size_t>(plan_.q_offsets[s]), key = static_cast<std::size_t>(plan_.k_offsets[s]);
    const AttentionOptions& o = plan_.options;
    const bool is_apart = plan_.layout == HeadLayout::one_after_another;
    h = first_;
    h.queries = plan_.queries(s);
    h.keys = plan_.keys(s);
    const std::size_t head_of_queries = is_apart ? head * h.queries : head;
    const std::size_t head_of_keys = is_apart ? of_keys * h.keys : of_keys;
    h.q = first_.q.from(query * q_cols_ + head_of_queries * h.width);
    h.k = first_.k.from(key * k_cols_ + head_of_keys * h.width);
    h.v = first_.v.from(key * v_cols_ + head_of_keys * h.v_width);
    h.out = first_.out.from(query * out_cols_ + head_of_queries * h.v_width);
    h.valid_keys = plan_.valid_keys(s);
    if (!o.mask.pairs.empty()) h.allowed = allowed_pairs(s);
    if (o.bias.defined()) {
      const std::size_t matrix_size = h.bias.stride * static_cast<std::size_t>(o.bias.size(-2));
      h.bias = first_.bias.from(bias_matrix(s, head) * matrix_size);
    }
    if (!o.slopes.empty()) h.slope = o.slopes[head];
    if (!o.positions.empty()) h.positions = o.positions.data() + query;
  }

 private:
  const std::uint8_t* allowed_pairs(std::size_t sequence) const {
    const std::uint8_t* pairs = plan_.options.mask.pairs.data();
    for (std::size_t s = 0; s < sequence; ++s) pairs += plan_.queries(s) * plan_.keys(s);
    return pairs;
  }

  // The index of a bias matrix. The leading axes are [sequences, heads], each of them 1 if it is shared.
  std::size_t bias_matrix(std::size_t s, std::size_t head) const {
    const Tensor& bias = plan_.options.bias;
    const auto size = [&](int axis) { return bias.rank() >= -axis ? static_cast<std::size_t>(bias.size(axis)) : 1; };
    return (size(-4) == 1 ? 0 : s * size(-3)) + (size(-3) == 1 ? 0 : head);
  }

  const AttentionPlan& plan_;
  std::size_t q_cols_, k_cols_, v_cols_, out_cols_;  // of all heads of a row
  kernels::AttentionHead first_{};
};

}  // namespace SEPPO_ABI
}  // namespace seppo
