// The examples that a step takes, against a naive implementation of the rules, and their properties.
#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/random.h>
#include <seppo/nn/data/permutation.h>
#include <seppo/nn/data/sampler.h>
#include <seppo/nn/run/training_config.h>

#include "support/errors.h"
#include "support/ranges.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

using namespace seppo;

namespace {

using Batch = std::vector<int>;

std::vector<Batch> draw(Sampler& sampler, int batches) {
  std::vector<Batch> drawn;
  for (int i = 0; i < batches; ++i) {
    const auto batch = sampler.next();
    drawn.emplace_back(batch.begin(), batch.end());
  }
  return drawn;
}

std::vector<int> lengths_of(std::size_t examples) {
  std::vector<int> lengths;
  for (std::size_t i = 0; i < examples; ++i) lengths.push_back(static_cast<int>(i * 37 % 100));
  return lengths;
}

std::vector<int> permutation_from_the_front(int n, RandomStream random) {
  std::vector<int> order;
  for (int i = 0; i < n; ++i) order.push_back(i);
  for (std::uint32_t i = 0; i < order.size(); ++i)
    std::swap(order[i], order[i + random.below(static_cast<std::uint32_t>(n) - i)]);
  return order;
}

// The batches of one epoch, naively: a pool is a multimap from length to examples in the order of drawing.
std::vector<Batch> naive_epoch(int examples, const SamplerConfig& c, const std::vector<int>& lengths, int epoch) {
  const int size = std::min(c.batch_size, examples), batches = examples / size;
  Batch order, shuffled;
  const RandomStream stream(c.seed, Purpose::shuffle, static_cast<std::uint64_t>(epoch));
  const int taken = size * (c.epoch_steps > 0 ? std::min(batches, c.epoch_steps) : batches);
  if (lengths.empty() && taken <= examples / 16)
    shuffled = permutation_from_the_front(examples, stream);
  else
    shuffled = random_permutation(examples, stream);
  for (int i = 0; i < examples; ++i) order.push_back(c.in_order ? i : shuffled[static_cast<std::size_t>(i)]);
  Batch places;
  for (int b = 0; b < batches; ++b) places.push_back(b);
  if (!c.in_order && !lengths.empty()) {
    std::map<int, std::multimap<int, int>> pools;  // multimaps keep the order of insertion
    for (int i = 0; i < batches * size; ++i) {
      const int example = order[static_cast<std::size_t>(i)];
      pools[i / (50 * size)].emplace(lengths[static_cast<std::size_t>(example)], example);
    }
    order.clear();
    for (const auto& [pool, sorted] : pools)
      for (const auto& [length, example] : sorted) order.push_back(example);
    const auto index = 4294967296u + static_cast<std::uint64_t>(epoch);
    places = random_permutation(batches, RandomStream(c.seed, Purpose::shuffle, index));
  }
  std::vector<Batch> result;
  for (const int place : places)
    if (c.epoch_steps == 0 || static_cast<int>(result.size()) < c.epoch_steps)
      result.emplace_back(order.begin() + place * size, order.begin() + (place + 1) * size);
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(batches_are_those_of_the_rules) {
  for (const std::size_t examples : {1u, 5u, 24u, 30u, 411u, 1203u})
    for (const int batch_size : {1, 4, 8})
      for (const int epoch_steps : {0, 3})
        for (const bool has_lengths : {false, true})
          for (const bool in_order : {false, true}) {
            const SamplerConfig config{
                .batch_size = batch_size, .epoch_steps = epoch_steps, .in_order = in_order, .seed = 7};
            const std::vector<int> lengths = has_lengths ? lengths_of(examples) : std::vector<int>();
            Sampler sampler(examples, config, lengths);
            for (int epoch = 1; epoch <= 3; ++epoch) {
              const auto expected = naive_epoch(static_cast<int>(examples), config, lengths, epoch);
              BOOST_REQUIRE_EQUAL(sampler.batches_per_epoch(), expected.size());
              for (const Batch& batch : expected) {
                const auto next = sampler.next();
                BOOST_REQUIRE_EQUAL(sampler.epoch(), epoch);
                BOOST_REQUIRE(std::equal(next.begin(), next.end(), batch.begin(), batch.end()));
              }
            }
          }
}

// The batches change with epoch and seed.
BOOST_AUTO_TEST_CASE(an_epoch_takes_every_example_once) {
  for (const bool has_lengths : {false, true}) {
    const std::vector<int> lengths = has_lengths ? lengths_of(800) : std::vector<int>();
    Sampler sampler(800, {.batch_size = 8}, lengths), other_seed(800, {.batch_size = 8, .seed = 1}, lengths);
    const auto first = draw(sampler, 100), second = draw(sampler, 100);
    for (const auto& epoch : {first, second}) {
      std::set<int> seen;
      for (const Batch& batch : epoch) seen.insert(batch.begin(), batch.end());
      BOOST_CHECK(seen.size() == 800 && *seen.begin() == 0 && *seen.rbegin() == 799);
    }
    BOOST_CHECK(first != second);
    BOOST_CHECK(draw(other_seed, 100) != first);
  }
}

// The examples of a batch have similar lengths, and the order of batches does not depend on lengths.
BOOST_AUTO_TEST_CASE(lengths_make_batches_of_like_examples) {
  const std::vector<int> lengths = lengths_of(800);
  Sampler sampler(800, {.batch_size = 8}, lengths);
  double spread = 0;
  int rises = 0, falls = 0, before = 0;
  for (const Batch& batch : draw(sampler, 200)) {
    std::vector<int> of_batch;
    for (const int example : batch) of_batch.push_back(lengths[static_cast<std::size_t>(example)]);
    const auto [low, high] = std::minmax_element(of_batch.begin(), of_batch.end());
    spread += *high - *low;
    (*low > before ? rises : falls) += 1;
    before = *low;
  }
  BOOST_CHECK_LT(spread / 200, 5);  // about 75 for batches drawn at random
  BOOST_CHECK(rises > 60 && falls > 60);
}

// A batch has as many examples as fit: the next longer one would not.
BOOST_AUTO_TEST_CASE(batches_measured_in_tokens) {
  for (const int most : {1, 60, 250, 5000, 1'000'000}) {
    std::vector<int> lengths = lengths_of(411);
    std::ranges::replace(lengths, 0, 7);
    Sampler sampler(lengths.size(), {.batch_size = 8, .batch_tokens = most}, lengths);
    const auto length = [&](int example) { return lengths[static_cast<std::size_t>(example)]; };
    std::vector<std::vector<Batch>> epochs;
    for (int epoch = 0; epoch < 2; ++epoch) {
      epochs.push_back(draw(sampler, static_cast<int>(sampler.batches_per_epoch())));
      std::set<int> seen;
      std::map<int, std::pair<int, int>> by_shortest;  // of each batch: its tokens, and its longest example
      for (const Batch& batch : epochs.back()) {
        int tokens = 0;
        for (const int example : batch) {
          BOOST_CHECK(seen.insert(example).second);
          tokens += length(example);
        }
        BOOST_CHECK(tokens <= most || batch.size() == 1);
        const int shortest = length(*std::ranges::min_element(batch, {}, length));
        const int longest = length(*std::ranges::max_element(batch, {}, length));
        if (most >= 250) by_shortest[shortest] = {tokens, longest};
      }
      BOOST_CHECK_EQUAL(seen.size(), lengths.size());
      for (auto next = by_shortest.begin(); next != by_shortest.end();) {
        const auto [tokens, longest] = next->second;
        if (++next == by_shortest.end()) break;
        BOOST_CHECK(longest <= next->first && tokens + next->first > most);
      }
    }
    if (most >= 60 && most <= 5000) BOOST_CHECK(epochs[0] != epochs[1]);
    // Both the batches and the examples of equal length come in another order.
    Sampler again(lengths.size(), {.batch_size = 8, .batch_tokens = most}, lengths);
    again.seek(static_cast<std::int64_t>(epochs[0].size()));
    BOOST_CHECK(draw(again, static_cast<int>(epochs[1].size())) == epochs[1]);
    // A shorter epoch has the first of its batches.
    Sampler shorter(lengths.size(), {.batch_size = 8, .batch_tokens = most, .epoch_steps = 2}, lengths);
    for (std::vector<Batch>& epoch : epochs) {
      epoch.resize(std::min<std::size_t>(2, epoch.size()));
      BOOST_CHECK_EQUAL(shorter.batches_per_epoch(), std::ssize(epoch));
      BOOST_CHECK(draw(shorter, static_cast<int>(epoch.size())) == epoch);
    }
  }
  for (const int most : {9, 10, 11}) {  // a batch may be exactly full
    Sampler sampler(6, {.batch_tokens = most}, {5, 5, 5, 5, 5, 5});
    BOOST_CHECK_EQUAL(sampler.next().size(), most < 10 ? 1u : 2u);
    BOOST_CHECK_EQUAL(sampler.batches_per_epoch(), most < 10 ? 6 : 3);
  }
  BOOST_CHECK_THROW(Sampler(3, {.batch_tokens = 5}), ArgumentError);
  BOOST_CHECK_THROW(Sampler(3, {.batch_tokens = 5, .in_order = true}, {1, 2, 3}), ArgumentError);
}

// A step that takes several batches draws them at once, by examples and by tokens.
BOOST_AUTO_TEST_CASE(accumulated_batches_are_drawn_together) {
  const TrainingConfig both{.sampler = {.batch_size = 5, .batch_tokens = 70}, .trainer = {.accumulate = 3, .seed = 9}};
  const SamplerConfig complete = both.complete_sampler();
  BOOST_CHECK_EQUAL(complete.batch_size, 15);
  BOOST_CHECK_EQUAL(complete.batch_tokens, 210);
  BOOST_CHECK_EQUAL(complete.seed, 9);
}

// A step of several batches has the limit of one.
BOOST_AUTO_TEST_CASE(accumulated_batches_have_a_limit) {
  TrainingConfig config{.sampler = {.batch_size = 2000}, .trainer = {.accumulate = 500}};
  BOOST_CHECK_NO_THROW(config.validate());
  config.trainer.accumulate = 501;
  test::check_error<ArgumentError>([&] { config.validate(); },
                                   {"batch_size 2000 times accumulate 501 is more than 1000000"});
  config.sampler = {.batch_size = 1, .batch_tokens = 1'000'000};
  config.trainer.accumulate = 2;
  test::check_error<ArgumentError>([&] { config.validate(); }, {"batch_tokens 1000000 times accumulate 2 is more"});
}

BOOST_AUTO_TEST_CASE(what_does_not_fill_a_batch_waits) {
  for (const bool has_lengths : {false, true}) {
    std::set<int> left_over;
    Sampler sampler(30, {.batch_size = 8}, has_lengths ? lengths_of(30) : std::vector<int>());
    BOOST_REQUIRE_EQUAL(sampler.batches_per_epoch(), 3);
    for (int epoch = 0; epoch < 20; ++epoch) {
      std::set<int> seen;
      for (const Batch& batch : draw(sampler, 3)) seen.insert(batch.begin(), batch.end());
      BOOST_CHECK_EQUAL(seen.size(), 24);
      for (int i = 0; i < 30; ++i)
        if (!seen.contains(i)) left_over.insert(i);
    }
    BOOST_CHECK_GT(left_over.size(), 25);  // not the same examples, such as the longest, each time
  }
  Sampler few(5, {.batch_size = 8});
  BOOST_CHECK_EQUAL(few.next().size(), 5);
}

// A chi-squared test: the mean of the sum of (counted - expected)^2 / expected follows from the variance of a count,
// and its variance is about twice the mean. Six standard deviations are exceeded once in many millions of cases.
BOOST_AUTO_TEST_CASE(shuffles_are_uniform) {
  const auto check = [](const std::map<std::vector<int>, int>& counts, double cells, double all, double mean,
                        const char* what) {
    double sum = (cells - static_cast<double>(counts.size())) * all / cells;  // the cells without a count
    for (const auto& [cell, count] : counts) sum += std::pow(count - all / cells, 2) / (all / cells);
    BOOST_CHECK_MESSAGE(std::abs(sum - mean) < 6 * std::sqrt(2 * mean), what << ": " << sum << ", not " << mean);
  };
  // The 120 orders of five, over many streams.
  std::map<std::vector<int>, int> orders;
  for (std::uint64_t stream = 0; stream < 24'000; ++stream)
    ++orders[random_permutation(5, {9, Purpose::shuffle, stream})];
  check(orders, 120, 24'000, 119, "orders");
  // The place of each example in an epoch of all examples, or of a few of many, by epoch and by seed; with lengths,
  // the examples that wait for the next epoch.
  constexpr int kExamples = 23, kEpochs = 3000;
  const auto counted = [&](int epoch_steps, bool by_seed, const std::vector<int>& lengths) {
    const std::size_t examples = epoch_steps > 0 ? 64 : kExamples;
    std::map<std::vector<int>, int> places;
    Sampler one(examples, {.batch_size = 4, .epoch_steps = epoch_steps}, lengths);
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      Sampler other(examples, {.batch_size = 4, .epoch_steps = epoch_steps, .seed = static_cast<std::uint64_t>(epoch)},
                    lengths);
      std::set<int> waiting;
      for (int i = 0; i < static_cast<int>(examples); ++i) waiting.insert(i);
      int place = 0;
      for (const Batch& batch : draw(by_seed ? other : one, static_cast<int>(one.batches_per_epoch())))
        for (const int example : batch) {
          BOOST_REQUIRE(waiting.erase(example) == 1);  // not drawn before
          if (lengths.empty()) ++places[{example, place++}];
        }
      if (!lengths.empty())
        for (const int example : waiting) ++places[{example}];
    }
    return places;
  };
  const std::vector<int> none, lengths = lengths_of(kExamples);
  for (const bool by_seed : {false, true}) {
    check(counted(0, by_seed, none), kExamples * 20, kEpochs * 20, 20 * 22, "places");
    check(counted(1, by_seed, none), 64 * 4, kEpochs * 4, 63 * 4, "places of few");
    check(counted(0, by_seed, lengths), kExamples, kEpochs * 3, 20, "waiting");
  }
}

BOOST_AUTO_TEST_CASE(seeking_is_drawing) {
  for (const bool has_lengths : {false, true}) {
    const std::vector<int> lengths = has_lengths ? lengths_of(50) : std::vector<int>();
    Sampler drawn(50, {.batch_size = 8}, lengths);
    BOOST_CHECK_EQUAL(drawn.epoch(), 0);
    const auto all = draw(drawn, 40);
    for (const int start : {0, 1, 5, 6, 7, 17, 39}) {
      Sampler fresh(50, {.batch_size = 8}, lengths);
      for (Sampler* sampler : {&drawn, &fresh}) {  // backward and forward
        sampler->seek(start);
        BOOST_CHECK_EQUAL(sampler->epoch(), (start + 5) / 6);
        const auto next = sampler->next();
        BOOST_CHECK(std::equal(next.begin(), next.end(), all[static_cast<std::size_t>(start)].begin()));
      }
    }
  }
}

// Whole epochs of so many: neither time nor memory is in proportion to them. The first examples are all different and
// uniform, seeking costs nothing, and epochs, seeds and batches differ.
BOOST_AUTO_TEST_CASE(an_epoch_of_two_thousand_million_examples) {
  constexpr std::size_t kMany = 2'000'000'000;
  constexpr int kBatches = 200, kParts = 64;
  Sampler sampler(kMany, {.batch_size = 500}), other_seed(kMany, {.batch_size = 500, .seed = 1});
  BOOST_CHECK_EQUAL(sampler.batches_per_epoch(), 4'000'000);
  const auto first = draw(sampler, kBatches);
  std::set<int> seen;
  std::vector<double> counts(kParts);
  for (const Batch& batch : first)
    for (const int example : batch) {
      BOOST_REQUIRE(example >= 0 && static_cast<std::size_t>(example) < kMany && seen.insert(example).second);
      ++counts[static_cast<std::size_t>(example) / (kMany / kParts)];
    }
  double chi_squared = 0;
  for (const double count : counts) chi_squared += std::pow(count - 1562.5, 2) / 1562.5;
  BOOST_CHECK_LT(std::abs(chi_squared - 63), 6 * std::sqrt(2 * 63.0));
  BOOST_CHECK(draw(other_seed, kBatches) != first);
  sampler.seek(4'000'000);
  BOOST_CHECK(draw(sampler, kBatches) != first);
  BOOST_CHECK_EQUAL(sampler.epoch(), 2);
  sampler.seek(150);
  BOOST_CHECK(draw(sampler, 1)[0] == first[150]);
  sampler.seek(3'999'999);
  const Batch last = draw(sampler, 1)[0];
  for (const int example : last) BOOST_CHECK(!seen.contains(example));  // this epoch had them
  Sampler in_order(kMany, {.batch_size = 500, .in_order = true});
  in_order.seek(3'999'999);
  BOOST_CHECK_EQUAL(draw(in_order, 1)[0][499], 1'999'999'999);
}

// Every number has one place, and any place is as likely.
BOOST_AUTO_TEST_CASE(permutations_computed_by_place) {
  for (const std::uint32_t n : {1u, 2u, 3u, 4u, 5u, 16u, 17u, 1000u, 65'536u, 65'537u}) {
    const Permutation permutation(n, 3, Purpose::test, 1);
    std::vector<int> times(n);
    for (std::uint32_t place = 0; place < n; ++place) ++times.at(permutation(place));
    BOOST_CHECK_EQUAL(std::count(times.begin(), times.end(), 1), n);
  }
  constexpr std::uint32_t kNumbers = 23, kOrders = 6000;
  std::vector<double> counts(kNumbers * kNumbers);
  for (std::uint64_t stream = 0; stream < kOrders; ++stream) {
    const Permutation permutation(kNumbers, 5, Purpose::test, stream << 31);
    for (std::uint32_t place = 0; place < kNumbers; ++place) ++counts[place * kNumbers + permutation(place)];
  }
  double sum = 0;
  const double expected = static_cast<double>(kOrders) / kNumbers;
  for (const double count : counts) sum += std::pow(count - expected, 2) / expected;
  BOOST_CHECK_LT(std::abs(sum - 22.0 * 23), 6 * std::sqrt(2 * 22.0 * 23));
}

// Shuffling all of them would take 8 GB.
BOOST_AUTO_TEST_CASE(a_few_of_two_thousand_million_examples) {
  constexpr std::size_t kMost = 2147483647;
  for (const bool in_order : {false, true}) {
    Sampler sampler(kMost, {.batch_size = 500, .epoch_steps = 20, .in_order = in_order});
    std::set<int> seen;
    for (const Batch& batch : draw(sampler, 20)) seen.insert(batch.begin(), batch.end());
    BOOST_CHECK_EQUAL(seen.size(), 10'000);
    BOOST_CHECK_GE(*seen.begin(), 0);
    BOOST_CHECK_EQUAL(*seen.rbegin() > 2'140'000'000, !in_order);
  }
  BOOST_CHECK_THROW(Sampler(kMost + 1, {}), ArgumentError);
}

BOOST_AUTO_TEST_CASE(samplers_that_cannot_be) {
  BOOST_CHECK_THROW(Sampler(0, {}), ArgumentError);
  test::check_ranges(SamplerConfig(), [](const SamplerConfig& config) { Sampler(3, config); });
  BOOST_CHECK_THROW(Sampler(3, {}, {1, 2}), ShapeError);
  BOOST_CHECK_THROW(Sampler(3, {}, {1, 2, 3, 4}), ShapeError);
  Sampler sampler(3, {});
  constexpr std::int64_t kLast = std::int64_t{1} << 62;
  for (const std::int64_t place : {std::int64_t{-1}, kLast + 1, std::numeric_limits<std::int64_t>::max()})
    BOOST_CHECK_THROW(sampler.seek(place), ArgumentError);
  sampler.seek(kLast);
  BOOST_CHECK_EQUAL(sampler.epoch(), kLast);
  BOOST_CHECK_EQUAL(sampler.next().size(), 3);
  BOOST_CHECK_EQUAL(sampler.epoch(), kLast + 1);
}
