// The key-value cache with what a call may add to causal attention, a bias or valid lengths, against the uncached
// module, in double precision.
// needs: precision: double
#include <seppo/models/transformer.h>
#include <seppo/nn/modules/kv_cache.h>

#include "support/errors.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

using namespace seppo;
using test::contains;
using test::message;

namespace {

constexpr double kTolerance = 1e-12;
constexpr int kHeads = 2, kWidth = 8, kCapacity = 16;

Tensor random_rows(int rows, std::uint64_t seed) {
  RandomStream random(seed, Purpose::test);
  std::vector<real> values(static_cast<std::size_t>(rows) * kWidth);
  for (real& v : values) v = static_cast<real>(random.normal());
  return tensor({rows, kWidth}, values);
}

// T5's relative position bias: a value for each head and distance, beyond 5 positions one for all.
real bias_of(int head, int query, int key) {
  return static_cast<real>(std::sin(1.0 + 7 * head + std::min(query - key, 5)));
}

// [sequences, heads, queries, keys] for queries that are `first[s]` positions into sequence s; 0 above the diagonal.
Tensor relative_bias(const std::vector<int>& first, int queries, int keys) {
  std::vector<real> values;
  for (const int begin : first)
    for (int h = 0; h < kHeads; ++h)
      for (int i = 0; i < queries; ++i)
        for (int j = 0; j < keys; ++j) values.push_back(j <= begin + i ? bias_of(h, begin + i, j) : real{0});
  return tensor({static_cast<int>(first.size()), kHeads, queries, keys}, values);
}

// Two sequences of a batch, cut into steps of so many rows each.
using Counts = std::array<int, 2>;

std::vector<int> offsets_of(const Counts& counts) { return {0, counts[0], counts[0] + counts[1]}; }

// Rows begin[s] .. begin[s] + counts[s] - 1 of each sequence.
Tensor part_of(const Tensor& x, const std::vector<int>& rows, const std::vector<int>& begin, const Counts& counts) {
  std::vector<Tensor> parts;
  for (std::size_t s = 0; s < 2; ++s) parts.push_back(slice(x, 0, rows[s] + begin[s], rows[s] + begin[s] + counts[s]));
  return concat(parts);
}

void check_part(const Tensor& part, const Tensor& whole, const std::vector<int>& rows, const std::vector<int>& begin,
                const Counts& counts, const std::string& what) {
  const Tensor expected = part_of(whole, rows, begin, counts);
  BOOST_REQUIRE_EQUAL(part.numel(), expected.numel());
  double difference = 0;
  for (std::size_t i = 0; i < part.numel(); ++i)
    difference = std::max(difference, std::abs(part.values()[i] - expected.values()[i]));
  BOOST_CHECK_MESSAGE(difference < kTolerance, what << ": " << difference);
}

const std::vector<std::vector<Counts>> kSteps{
    {{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},  // one token a step
    {{3, 3}, {1, 1}, {1, 1}, {3, 3}},                                  // several
    {{5, 2}, {1, 1}, {1, 4}, {1, 1}}};                                 // sequences of different lengths

}  // namespace

// A decoder as T5's: its bias covers the positions so far, of which the cache's block is longer.
BOOST_AUTO_TEST_CASE(a_relative_bias_of_the_positions_so_far) {
  Parameters parameters(3);
  const LayerConfig config{.d_model = kWidth, .n_heads = kHeads, .d_ff = 12, .norm = Norm::pre};
  const Decoder decoder(parameters.root(), 2, config);
  const Inference guard;
  const std::vector<int> memory_rows{0, 3, 5}, rows{0, 8, 16};
  const Tensor x = random_rows(16, 1), memory = random_rows(5, 2);
  const Tensor whole = decoder(x, rows, memory, memory_rows, {.bias = relative_bias({0, 0}, 8, 8)});
  const Tensor plain = decoder(x, rows, memory, memory_rows);
  BOOST_CHECK_GT(std::abs(plain.values().back() - whole.values().back()), 1e-3);  // the bias matters
  for (const auto& steps : kSteps) {
    KeyValueCache cache(2, 2, kCapacity, kWidth);
    for (const Counts& counts : steps) {
      const std::vector<int> part_rows = offsets_of(counts);
      const std::span<const int> extended = cache.extend(part_rows);
      const std::vector<int> begin(extended.begin(), extended.end());
      const int so_far = std::max(cache.length(0), cache.length(1));
      const int most = std::max(counts[0], counts[1]);
      const Tensor part = decoder(part_of(x, rows, begin, counts), part_rows, memory, memory_rows,
                                  {.cache = &cache, .bias = relative_bias(begin, most, so_far)});
      check_part(part, whole, rows, begin, counts, "after " + std::to_string(so_far));
    }
  }
}

// Attention takes 256 keys at a time. The later ones are larger, so that what earlier ones gave must fade; then the
// second sequence is continued twice.
BOOST_AUTO_TEST_CASE(more_keys_than_attention_takes_at_a_time) {
  constexpr int kRows = 259;
  const std::vector<int> rows{0, kRows, 2 * kRows};
  for (const int window : {0, 5, 257})
    for (const int kv_heads : {1, 2}) {
      Parameters parameters(1);
      const MultiHeadAttention attention(parameters.root(), kWidth, kHeads, {.n_kv_heads = kv_heads, .window = window});
      tape().clear();
      const UseMode eval(Mode::eval);
      const Tensor x = random_rows(2 * kRows, 7);
      for (std::size_t i = 0; i < x.numel(); ++i)
        if (i / kWidth % kRows >= 256) x.data()[i] *= 20;
      const Tensor whole = attention(x, rows, {.mask = Mask::causal()});
      KeyValueCache cache(1, 2, kRows, kWidth / kHeads * kv_heads);
      std::vector<int> begin{0, 0};
      const auto step = [&](const std::vector<int>& source, const Counts& counts) {
        const std::vector<int> offsets = offsets_of(counts);
        cache.extend(offsets);
        const Tensor part =
            attention(part_of(x, source, begin, counts), offsets, {.mask = Mask::causal(), .cache = &cache});
        check_part(part, whole, source, begin, counts, "after " + std::to_string(begin[0]) + " rows");
        begin[0] += counts[0];
        begin[1] += counts[1];
      };
      for (const Counts& counts : {Counts{254, 250}, {1, 1}, {1, 1}, {1, 5}, {1, 1}}) step(rows, counts);
      cache.select(std::vector<int>{1, 1});
      begin[0] = begin[1];
      step({kRows, kRows}, {1, 1});
    }
  tape().clear();
}

BOOST_AUTO_TEST_CASE(a_bias_of_fewer_positions_is_refused) {
  Parameters parameters(3);
  const MultiHeadAttention attn(parameters.root(), kWidth, kHeads);
  const Inference guard;
  for (const int count : {1, 2}) {
    KeyValueCache cache(1, 1, kCapacity, kWidth);
    const std::vector<int> prompt{0, 4}, next{0, count};
    cache.extend(prompt);
    attn(random_rows(4, 1), prompt, {.mask = Mask::causal(), .cache = &cache});
    cache.extend(next);
    const auto step = [&](int keys) {
      attn(random_rows(count, 2), next,
           {.mask = Mask::causal(), .cache = &cache, .bias = relative_bias({4}, count, keys)});
    };
    BOOST_CHECK_THROW(step(3 + count), ShapeError);
    BOOST_CHECK_NO_THROW(step(4 + count));
  }
}

// Each sequence has keys that nobody may attend to, at the end of the prompt or among later tokens.
BOOST_AUTO_TEST_CASE(valid_lengths_hold_for_cached_keys) {
  Parameters parameters(4);
  MultiHeadAttention attn(parameters.root(), kWidth, kHeads);
  const Inference guard;
  const std::vector<int> rows{0, 8, 16}, valid{2, 6};
  const Tensor x = random_rows(16, 1);
  for (std::size_t i = 0; i < 2 * std::size(kSteps); ++i) {
    attn.window = i % 2 == 0 ? 0 : 3;
    const Tensor whole = attn(x, rows, {.mask = Mask::causal_valid_lengths(valid)});
    const auto& steps = kSteps[i / 2];
    KeyValueCache cache(1, 2, kCapacity, kWidth);
    for (const Counts& counts : steps) {
      const std::vector<int> part_rows = offsets_of(counts);
      const std::span<const int> extended = cache.extend(part_rows);
      const std::vector<int> begin(extended.begin(), extended.end());
      const std::vector<int> so_far{std::min(valid[0], cache.length(0)), std::min(valid[1], cache.length(1))};
      const Tensor part = attn(part_of(x, rows, begin, counts), part_rows,
                               {.mask = Mask::causal_valid_lengths(so_far), .cache = &cache});
      check_part(part, whole, rows, begin, counts, "after " + std::to_string(cache.length(0)));
    }
  }
}

BOOST_AUTO_TEST_CASE(masks_that_a_cache_cannot_honour_are_refused) {
  Parameters parameters(4);
  const MultiHeadAttention attn(parameters.root(), kWidth, kHeads);
  const Inference guard;
  for (const int count : {1, 4}) {
    const std::vector<int> rows{0, count, 2 * count};
    KeyValueCache cache(1, 2, kCapacity, kWidth);
    cache.extend(rows);
    const auto call = [&](const Mask& mask) { attn(random_rows(2 * count, 1), rows, {.mask = mask, .cache = &cache}); };
    const std::vector<std::uint8_t> pairs(static_cast<std::size_t>(2 * count * count), 1);
    const std::vector<int> one{1}, negative{1, -1}, long_one{1, count + 1}, none{0, 0};
    BOOST_CHECK_THROW(call(Mask::none()), ArgumentError);
    BOOST_CHECK_THROW(call(Mask::valid_lengths(none)), ArgumentError);
    BOOST_CHECK_THROW(call({.is_causal = true, .query_lengths = none}), ArgumentError);
    BOOST_CHECK_THROW(call(Mask::allowed(pairs)), ArgumentError);
    BOOST_CHECK_THROW(call({.is_causal = true, .pairs = pairs}), ArgumentError);
    BOOST_CHECK_THROW(call(Mask::causal_valid_lengths(one)), ShapeError);
    BOOST_CHECK_THROW(call(Mask::causal_valid_lengths(negative)), IndexError);
    BOOST_CHECK_THROW(call(Mask::causal_valid_lengths(long_one)), IndexError);
    BOOST_CHECK_NO_THROW(call(Mask::causal_valid_lengths(none)));
  }
}

// A cache that does not belong to the module, or was not extended for the call, would be written outside of its memory.
BOOST_AUTO_TEST_CASE(a_cache_that_does_not_fit_is_refused) {
  const Inference inference;
  Parameters parameters(5);
  const MultiHeadAttention attention(parameters.root(), kWidth, kHeads);
  const Tensor x = random_rows(2, 1);
  const std::vector<int> rows{0, 1, 2};
  const auto run = [&](KeyValueCache& cache, std::size_t layer) {
    attention(x, rows, {.mask = Mask::causal(), .cache = &cache, .layer = layer});
  };
  KeyValueCache fits(1, 2, kCapacity, kWidth);
  BOOST_CHECK_THROW(run(fits, 0), StateError);  // before extend()
  fits.extend(rows);
  BOOST_CHECK_THROW(run(fits, 1), IndexError);
  run(fits, 0);
  fits.restart(1);
  BOOST_CHECK_THROW(run(fits, 0), StateError);
  const std::vector<int> parents{1, 0};
  fits.select(parents);
  BOOST_CHECK_THROW(run(fits, 0), StateError);
  KeyValueCache longer(1, 2, kCapacity, kWidth);
  longer.extend(std::vector<int>{0, 2, 3});
  BOOST_CHECK_THROW(run(longer, 0), StateError);
  KeyValueCache more(1, 3, kCapacity, kWidth);
  more.extend(std::vector<int>{0, 1, 2, 2});
  BOOST_CHECK_THROW(run(more, 0), ShapeError);
  for (const int kv_width : {kWidth / 2, 2 * kWidth}) {
    KeyValueCache other(1, 2, kCapacity, kv_width);
    other.extend(rows);
    BOOST_CHECK_THROW(run(other, 0), ShapeError);
    BOOST_CHECK_THROW(other.memory(0, [&] { return ones({2, kv_width}); }), ShapeError);
  }
  for (const int absurd : {0, -1}) {
    BOOST_CHECK_THROW(KeyValueCache(1, 2, absurd, kWidth), ArgumentError);
    BOOST_CHECK_THROW(KeyValueCache(1, 2, kCapacity, absurd), ArgumentError);
  }
}

BOOST_AUTO_TEST_CASE(selections_that_do_not_fit_are_named) {
  const Inference guard;
  KeyValueCache cache(1, 2, 4, 8);
  const std::vector<int> parents{0, 1, 1}, first{0, 0, 0}, offsets{0, 1, 2}, late{1, 2, 3}, right{0, 1, 3},
      other{1, 0, 1}, decreasing{0, 4, 3};
  const auto selects = [&](const std::vector<int>& rows, const std::vector<int>& at) {
    return message([&] { cache.select(rows, at); });
  };
  const std::string said = "3 rows selected for 2 sources, but their offsets are 3 and end with ";
  BOOST_CHECK(contains(selects(parents, offsets), said + "2"));
  BOOST_CHECK(contains(selects(parents, late), said + "3"));
  BOOST_CHECK(
      contains(selects(parents, {0, 3}), "3 rows selected for 2 sources, but their offsets are 2 and end with 3"));
  BOOST_CHECK(contains(selects(parents, {}), "their offsets are 0 and end with 0"));
  BOOST_CHECK(contains(selects(first, decreasing), "offsets decrease at source 0"));
  BOOST_CHECK(contains(selects(other, right), "row 0 of source 0 cannot continue row 1, whose source is another"));
  BOOST_CHECK_EQUAL(selects(parents, right), "no error");
  BOOST_CHECK(contains(message([&] { cache.source_offsets(offsets); }), "decode: 2 sequences, but the sources have 3"));
}
