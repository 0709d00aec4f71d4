// What ops share: pieces for idle threads, gradients, checks, and how they take the next dropout.
#pragma once

#include "../core/check.h"
#include "../core/gradient.h"
#include "../core/parallel.h"
#include "../core/tape.h"
#include "../kernels/kernels.h"
#include "../ops.h"

namespace seppo {
inline namespace SEPPO_ABI {

// Elements that pay for another thread, if one is idle: some 10 us of an activation.
constexpr std::size_t kPiece = std::size_t{1} << 14;

// y = f(x); dx = beta dx + dy f'(x)
inline void apply(const kernels::Unary& f, real* y, const real* x, std::size_t n) {
  parallel_range(0, n, kPiece, [&](std::size_t i, std::size_t end) { f.forward(y + i, x + i, end - i); });
}
inline void apply_slope(const kernels::Unary& f, real* dx, real beta, const real* dy, const real* x, const real* y,
                        std::size_t n) {
  parallel_range(0, n, kPiece,
                 [&](std::size_t i, std::size_t end) { f.backward(dx + i, beta, dy + i, x + i, y + i, end - i); });
}

// y = beta y + dropout(x)
inline void apply(const kernels::Dropping& dropping, real* y, real beta, const real* x, std::size_t n) {
  parallel_range(0, n, kPiece, [&](std::size_t i, std::size_t end) { kernels::dropout(y, beta, x, dropping, i, end); });
}

// dx += factor dy, if x requires a gradient.
inline void add_grad(const Tensor& x, const real* dy, real factor = 1) {
  if (const auto [dx, beta] = target_if_required(x); dx) kernels::axpy(dx, beta, dy, factor, x.numel());
}

// If inputs are parts of one tensor, their gradients of n elements may share some, to which only one thread may add.
inline bool may_overlap(const GradTarget& a, const GradTarget& b, std::size_t n) {
  if (!a.grad || !b.grad || a.grad == b.grad) return false;
  return a.grad < b.grad + n && b.grad < a.grad + n;
}

// Throws where an index is not in 0..n-1. `rule` ends the message: what the indices count.
template <class... Rule>
void check_indices(const char* op, const char* noun, std::span<const int> indices, std::size_t n, const Rule&... rule) {
  for (std::size_t i = 0; i < indices.size(); ++i)
    check<IndexError>(indices[i] >= 0 && static_cast<std::size_t>(indices[i]) < n, op, ": ", noun, " ", indices[i],
                      " at position ", i, " is not in 0..", static_cast<std::int64_t>(n) - 1, rule...);
}

// Throws where the mask does not fit the sequences, of which sizes(s) gives the numbers of queries and keys.
template <class Sizes>
void check_mask(const char* op, const Mask& mask, std::size_t sequences, const Sizes& sizes) {
  check(mask.lengths.empty() || mask.lengths.size() == sequences, op, ": mask has ", mask.lengths.size(),
        " valid lengths for ", sequences, " sequences");
  std::size_t pairs = 0, all_queries = 0;
  const std::span<const int> of_queries = mask.query_lengths;
  for (std::size_t s = 0; s < sequences; ++s) {
    const auto [queries, keys] = sizes(s);
    pairs += queries * keys;
    for (std::size_t i = all_queries; i < std::min(all_queries + queries, of_queries.size()); ++i)
      check<IndexError>(of_queries[i] >= 0 && static_cast<std::size_t>(of_queries[i]) <= keys, op, ": valid length ",
                        of_queries[i], " of query ", i, " is not in 0..", keys);
    all_queries += queries;
    const int length = mask.lengths.empty() ? 0 : mask.lengths[s];
    check<IndexError>(length >= 0 && static_cast<std::size_t>(length) <= keys, op, ": valid length ", length,
                      " of sequence ", s, " is not in 0..", keys);
  }
  check(of_queries.empty() || of_queries.size() == all_queries, op, ": mask has ", of_queries.size(),
        " valid lengths for ", all_queries, " queries");
  check(mask.pairs.empty() || mask.pairs.size() == pairs, op, ": mask has ", mask.pairs.size(),
        " pairs; the sequences have ", pairs, " (query, key) pairs");
}

// The keys that query i of sequence s, in this row of all queries, sees if there are no pairs: those before the result.
inline std::size_t seen_keys(const Mask& mask, std::size_t s, std::size_t i, std::size_t row, std::size_t queries,
                             std::size_t keys) {
  std::size_t end = keys;
  if (!mask.lengths.empty()) end = static_cast<std::size_t>(mask.lengths[s]);
  if (!mask.query_lengths.empty()) end = std::min(end, static_cast<std::size_t>(mask.query_lengths[row]));
  if (mask.is_causal) end = std::min(end, kernels::causal_keys(i, queries, keys));
  return end;
}

inline void check_softcap(const char* op, double softcap) {
  check<ArgumentError>(softcap >= 0 && softcap <= 1e30, op, ": softcap ", softcap, " is negative or not finite");
}

// 0 stands for the usual factor.
inline void check_scale(const char* op, double scale) {
  check<ArgumentError>(scale >= 0 && scale <= 1e30, op, ": scale ", scale, " is negative or not finite");
}

// Takes the next site of tape().random; p = 0, and no site, in eval mode.
inline kernels::Dropping next_dropping(const char* op, double p) {
  check<ArgumentError>(p >= 0 && p <= 1, op, ": p = ", p, " is not in [0, 1]");
  Tape& t = tape();
  if (p == 0 || t.mode == Mode::eval) return {};
  check<StateError>(t.random.site < RandomContext::kSites, op, ": the dropouts of one step have used up its ",
                    RandomContext::kSites, " masks: call tape().clear() for each step");
  const kernels::Dropping dropping{p, t.random};
  ++t.random.site;
  return dropping;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
