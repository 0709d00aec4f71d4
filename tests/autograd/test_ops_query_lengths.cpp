// attention() with a valid length for each query: alone, and together with every other mask.
// needs: precision: double single; simd: avx2 plain
#include "support/grouped_attention.h"

#include <algorithm>
#include <string>
#include <vector>

using namespace test;

namespace {

// Of nine queries, whatever sequence they are of; two see nothing, one all keys of its sequence.
const std::vector<int> kOfQueries{2, 1, 0, 4, 1, 3, 2, 0, 3};

template <class Allowed>
void check_mask(const std::string& name, const seppo::Mask& mask, const Allowed& allowed) {
  for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {2, 2}, {4, 2}}) {
    const Batch b{kQueries, kKeys, heads, kv_heads, 3, 2};
    const auto is_valid = [&](int s, int i, int j) {
      return j < kOfQueries[static_cast<std::size_t>(b.q_rows[static_cast<std::size_t>(s)] + i)] && allowed(b, s, i, j);
    };
    check_op(
        name, b.shapes(), [&](Inputs x) { return call(x, b, {.mask = mask}); },
        [&](const auto& x) { return naive(x, b, kNothing, is_valid); });
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(alone) {
  check_mask("lengths of queries", seppo::Mask::valid_query_lengths(kOfQueries),
             [](const Batch&, int, int, int) { return true; });
}

BOOST_AUTO_TEST_CASE(with_a_causal_mask) {
  check_mask("causal lengths of queries", {.is_causal = true, .query_lengths = kOfQueries},
             [](const Batch& b, int s, int i, int j) { return j <= i + b.keys(s) - b.queries(s); });
}

BOOST_AUTO_TEST_CASE(with_lengths_of_sequences) {
  check_mask("both kinds of lengths", {.lengths = kLengths, .query_lengths = kOfQueries},
             [](const Batch&, int s, int, int j) { return j < kLengths[static_cast<std::size_t>(s)]; });
}

BOOST_AUTO_TEST_CASE(with_pairs) {
  std::vector<std::uint8_t> pairs(3 * 2 + 5 + 5 * 3);
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = i % 3 != 1;
  const std::vector<int> first{0, 6, 6, 11};  // of each sequence
  check_mask("lengths of queries, and pairs", {.query_lengths = kOfQueries, .pairs = pairs},
             [&](const Batch& b, int s, int i, int j) {
               return pairs[static_cast<std::size_t>(first[static_cast<std::size_t>(s)] + i * b.keys(s) + j)] != 0;
             });
}

// A window is of the last keys that all lengths leave.
BOOST_AUTO_TEST_CASE(with_windows) {
  for (const bool is_causal : {false, true})
    for (const auto& [heads, kv_heads] : {std::pair{1, 1}, {4, 2}}) {
      const Batch b{kQueries, kKeys, heads, kv_heads, 3, 2};
      const seppo::Mask mask{.is_causal = is_causal, .lengths = kLengths, .query_lengths = kOfQueries};
      const auto is_seen = [&](int s, int i, int j) {
        int end = std::min(kOfQueries[static_cast<std::size_t>(b.q_rows[static_cast<std::size_t>(s)] + i)],
                           kLengths[static_cast<std::size_t>(s)]);
        if (is_causal) end = std::min(end, std::max(0, i + 1 + b.keys(s) - b.queries(s)));
        return j < end && j >= end - 2;
      };
      check_op(
          "a window of lengths of queries", b.shapes(),
          [&](Inputs x) { return call(x, b, {.mask = mask, .window = 2}); },
          [&](const auto& x) { return naive(x, b, kNothing, is_seen); });
    }
}
