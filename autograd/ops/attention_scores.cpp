// The scores of attention over rectangular batches, as a tensor: composed of ops, which give the gradient.
#include "op.h"

#include <cmath>
#include <cstdlib>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// -slopes[head] |position of the query - position of the key|, [sequences or 1, heads, queries, keys]
Tensor alibi(const AttentionOptions& o, int sequences, int queries, int keys) {
  const bool is_given = !o.positions.empty();
  const int heads = static_cast<int>(o.slopes.size());
  Tensor bias = zeros({is_given ? sequences : 1, heads, queries, keys});
  real* to = bias.data();
  for (int s = 0; s < bias.size(0); ++s)
    for (const real slope : o.slopes)
      for (int i = 0; i < queries; ++i) {
        const int position = is_given ? o.positions[static_cast<std::size_t>(s) * static_cast<std::size_t>(queries) +
                                                    static_cast<std::size_t>(i)]
                                      : i + keys - queries;
        for (int j = 0; j < keys; ++j) *to++ = -slope * static_cast<real>(std::abs(position - j));
      }
  return bias;
}

void check_bias(const Tensor& bias, int sequences, int heads, int queries, int keys) {
  const int rank = bias.rank();
  check(rank >= 2 && rank <= 4 && (rank < 4 || bias.size(0) == 1 || bias.size(0) == sequences) &&
            (rank < 3 || bias.size(-3) == 1 || bias.size(-3) == heads) && bias.size(-2) >= queries &&
            bias.size(-1) >= keys,
        "attention_scores: bias ", bias, " is not [", sequences, " or 1, ", heads, " or 1, queries, keys] for ",
        queries, " queries and ", keys, " keys");
}

}  // namespace

Tensor attention_scores(const Tensor& q, const Tensor& k, int n_heads, const AttentionOptions& o) {
  const char* const op = "attention_scores";
  check(q.rank() == 3 && k.rank() == 3 && k.size(0) == q.size(0), op, ": needs Q and K [sequences, rows, d]: Q ", q,
        ", K ", k);
  check<ArgumentError>(n_heads > 0 && q.size(2) > 0 && q.size(2) % n_heads == 0, op, ": width ", q.size(2),
                       " is not a multiple of ", n_heads, " heads");
  const int sequences = q.size(0), queries = q.size(1), keys = k.size(1), width = q.size(2) / n_heads;
  const int kv_heads = k.size(2) / width;
  check(kv_heads > 0 && k.size(2) % width == 0 && n_heads % kv_heads == 0, op, ": K of width ", k.size(2),
        " does not have heads of Q's width ", width, " in a number that divides its ", n_heads);
  check<ArgumentError>(!o.mask.is_causal && o.mask.has_no_lists() && o.dropout == 0 && o.window == 0, op,
                       ": masks, windows and dropout act on the weights: pass the mask to softmax(scores, mask)");
  check_softcap(op, o.softcap);
  check_scale(op, o.scale);
  check(o.slopes.empty() || std::ssize(o.slopes) == n_heads, op, ": ", o.slopes.size(), " slopes for ", n_heads,
        " heads");
  check(o.positions.empty() ||
            o.positions.size() == static_cast<std::size_t>(sequences) * static_cast<std::size_t>(queries),
        op, ": ", o.positions.size(), " positions for the rows of Q ", q);

  const Tensor of_queries = reshape(q, Shape{sequences, queries, kv_heads, n_heads / kv_heads, width});
  const Tensor of_keys = reshape(k, Shape{sequences, keys, kv_heads, width});
  Tensor scores = reshape(einsum("sqhgw,skhw->shgqk", of_queries, of_keys), Shape{sequences, n_heads, queries, keys});
  const double factor = o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(width));
  scores = scale(scores, static_cast<real>(factor));
  if (o.softcap > 0) scores = tanh(scores / o.softcap) * o.softcap;
  if (const Tensor& bias = o.bias; bias.defined()) {
    check_bias(bias, sequences, n_heads, queries, keys);
    scores += slice(slice(bias, -2, 0, queries), -1, 0, keys);
  }
  if (!o.slopes.empty()) scores += alibi(o, sequences, queries, keys);
  return scores;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
