// Training in shards: trained bytes do not depend on the number of threads, and what fails leaves nothing behind.
#include "support/memcheck.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/optim/clip.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace seppo;

namespace {

struct Data {
  Ragged src, tgt, next;
  Data() {
    RandomStream random(9, Purpose::test);
    const auto sequence = [&](int length) {
      std::vector<int> s;
      for (int i = 0; i < length; ++i) s.push_back(static_cast<int>(random.below(20)));
      return s;
    };
    for (int i = 0; i < 30; ++i) {
      const int length = 1 + static_cast<int>(random.below(9));
      src.add(sequence(1 + static_cast<int>(random.below(9))));
      tgt.add(sequence(length));
      next.add(sequence(length));
    }
  }
};

// Trains for a few steps with dropout on ragged data, by hand or with a Trainer; returns the parameters.
std::vector<float> train(int threads, int steps, std::size_t samples, bool has_trainer = false) {
  set_num_threads(threads);
  const Data data;
  Parameters parameters(4);
  const Transformer model(parameters.root(), {.src_vocabulary = 20,
                                              .tgt_vocabulary = 20,
                                              .layer = {.d_model = 16, .n_heads = 2, .d_ff = 24, .dropout = 0.1},
                                              .enc_layers = 2,
                                              .dec_layers = 2,
                                              .max_length = 16});
  const auto loss = [&](std::span<const int> rows) {
    const Ragged next = data.next.pick(rows);
    const Tensor logits = model.logits(data.src.pick(rows), data.tgt.pick(rows));
    return ShardLoss{.loss = cross_entropy(logits, next.tokens, {.reduction = Reduction::sum}),
                     .count = static_cast<double>(next.tokens.size())};
  };
  std::vector<int> rows(samples);
  std::iota(rows.begin(), rows.end(), 0);
  const AdamConfig config{.weight_decay = 0.01};
  Trainer trainer(parameters, {.adam = config, .seed = 7});
  Adam adam(parameters, config);
  DataParallel data_parallel(parameters);
  for (int step = 1; step <= steps; ++step) {
    if (has_trainer) {
      trainer.step(rows, loss);
      continue;
    }
    const StepLoss sums = data_parallel.backward(
        samples, 7, static_cast<std::uint32_t>(step),
        [&](std::size_t first, std::size_t last) { return loss(std::span(rows).subspan(first, last - first)); });
    adam.step(1e-3, clip_factor(gradient_norm(parameters) / sums.count, 1) / sums.count);
  }
  set_num_threads(1);
  return {parameters.values().begin(), parameters.values().end()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(training_gives_the_same_bytes_for_any_number_of_threads) {
  for (const std::size_t samples : {std::size_t{30}, std::size_t{3}}) {
    const auto one = train(1, 30, samples);
    for (const int threads : {2, 3, 4}) {
      const auto many = train(threads, 30, samples);
      BOOST_CHECK_MESSAGE(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)) == 0,
                          threads << " threads, " << samples << " samples");
    }
  }
}

BOOST_AUTO_TEST_CASE(a_trainer_takes_the_same_steps) {
  BOOST_CHECK(train(2, 10, 30, /*has_trainer=*/true) == train(2, 10, 30));
}

// With every number of shards, and those that the library chooses, which are 16 and more from 512 samples on.
BOOST_AUTO_TEST_CASE(shards_take_each_sample_once) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {3}, init_ones());
  const auto number_of = [](std::size_t sample) { return static_cast<real>(sample % 50 + 1); };  // sums are exact
  for (std::size_t shards = 0; shards <= 64; ++shards)
    for (const std::size_t rounds : {1u, 3u})
      for (const std::size_t samples : {0u, 1u, 7u, 19u, 64u, 65u, 511u, 512u, 600u}) {
        DataParallel data_parallel(parameters, shards, rounds);
        parameters.zero_gradients();
        const StepLoss sums = data_parallel.backward(samples, 0, 1, [&](std::size_t first, std::size_t last) {
          BOOST_CHECK_LT(first, last);
          BOOST_CHECK_LE(last, samples);
          BOOST_CHECK_EQUAL(tape().random.sample, first);
          real total = 0;
          for (std::size_t s = first; s < last; ++s) total += number_of(s);
          return ShardLoss{.loss = sum(w) * total, .count = static_cast<double>(last - first)};
        });
        real expected = 0;
        for (std::size_t s = 0; s < samples; ++s) expected += number_of(s);
        BOOST_CHECK_EQUAL(sums.count, samples);
        BOOST_CHECK_EQUAL(parameters.gradients()[2], expected);
      }
}

// R rounds of S shards equal R S shards to the last bit: gradients are added in the same tree, however many shards run
// at a time. Sums of tanh round differently in every order.
BOOST_AUTO_TEST_CASE(rounds_of_shards_give_the_bytes_of_as_many_shards) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {7, 3}, init_normal(1));
  const auto gradient = [&](std::size_t shards, std::size_t rounds, std::size_t samples) {
    parameters.zero_gradients();
    DataParallel parallel(parameters, shards, rounds);
    std::vector<real> gradients;
    double loss = 0;
    for (int step = 1; step <= 2; ++step) {  // the second reuses the blocks of the first
      parameters.zero_gradients();
      const StepLoss sums = parallel.backward(samples, 5, static_cast<std::uint32_t>(step), [&](auto first, auto last) {
        std::vector<real> rows;
        for (std::size_t s = first; s < last; ++s)
          for (int i = 0; i < 3; ++i) rows.push_back(static_cast<real>(std::sin(static_cast<double>(7 * s) + i)));
        const Tensor x = tensor({static_cast<int>(last - first), 3}, rows);
        return ShardLoss{.loss = sum(dropout(seppo::tanh(linear(x, w)), 0.25)),
                         .count = static_cast<double>(last - first)};
      });
      BOOST_CHECK_EQUAL(sums.count, samples);
      loss = sums.loss;
      gradients.insert(gradients.end(), parameters.gradients().begin(), parameters.gradients().end());
    }
    gradients.push_back(static_cast<real>(loss));
    return gradients;
  };
  std::size_t differing = 0;
  for (const std::size_t shards : {1u, 2u, 3u, 5u})
    for (const std::size_t rounds : {2u, 3u, 4u, 7u})
      for (const std::size_t samples : {1u, 11u, 64u, 100u})
        for (const int threads : {1, 2, 3}) {
          set_num_threads(threads);
          const auto expected = gradient(shards * rounds, 1, samples), found = gradient(shards, rounds, samples);
          BOOST_CHECK_MESSAGE(found == expected, rounds << " rounds of " << shards << ", " << samples << " samples");
          differing += gradient(shards, 1, samples) != expected;
        }
  BOOST_CHECK_GT(differing, 20);  // fewer shards sum in another order
  set_num_threads(1);
  BOOST_CHECK_THROW(DataParallel(parameters, 2, 0), ArgumentError);
  BOOST_CHECK_THROW(DataParallel(parameters, 2, 1001), ArgumentError);
}

// Gradients of 4 MB each: for two shards at a time and for pending sums, not for each of 32 shards.
BOOST_AUTO_TEST_CASE(rounds_take_the_memory_of_one) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {1 << 20}, init_ones());
  DataParallel parallel(parameters, 2, 16);
  const auto address_space_mb = [] {
    std::ifstream file("/proc/self/statm");
    std::size_t pages = 0;
    file >> pages;
    return static_cast<double>(pages) * 4096 / 1e6;
  };
  const auto step = [&] {
    parallel.backward(64, 0, 1, [&](std::size_t first, std::size_t last) {
      return ShardLoss{.loss = sum(slice(w, 0, static_cast<int>(first), static_cast<int>(last))), .count = 1};
    });
  };
  const double before = address_space_mb();
  step();
  const double after = address_space_mb();
  BOOST_CHECK_LT(after - before, 8 * 4.2 + 10);
  for (int i = 0; i < 5; ++i) step();
  BOOST_CHECK_LT(address_space_mb() - after, 4);
}

// Two blocks of gradients and Adam's two moments would take 256 MB.
BOOST_AUTO_TEST_CASE(frozen_parameters_take_no_memory_to_train_others) {
  set_num_threads(2);
  Parameters parameters(1);
  const Tensor ice = parameters.root().parameter("ice", {1 << 24}, init_ones());
  const Tensor w = parameters.root().parameter("w", {64}, init_ones());
  const auto resident_mb = [] {
    std::ifstream file("/proc/self/statm");
    std::size_t pages = 0;
    file >> pages >> pages;
    return static_cast<double>(pages) * 4096 / 1e6;
  };
  const double before = resident_mb();
  parameters.freeze("ice");
  Trainer trainer(parameters, {.lr = 0.5, .adam = {.weight_decay = 0.1}, .shards = 2});
  const std::vector<int> examples(8);
  for (int i = 0; i < 3; ++i)
    trainer.step(examples, [&](std::span<const int> some) {
      return ShardLoss{.loss = sum(square(w)) + sum(slice(ice, 0, 0, 64) * w),
                       .count = static_cast<double>(some.size())};
    });
  parameters.zero_gradients();
  if (!test::takes_memory_itself()) BOOST_CHECK_LT(resident_mb() - before, 64);
  BOOST_CHECK_LT(w.values()[0], 0.5);
  BOOST_CHECK_EQUAL(ice.values()[7], 1);
  set_num_threads(1);
}

BOOST_AUTO_TEST_CASE(shards_by_the_size_of_the_model_and_of_the_batch) {
  struct Case {
    int parameters;
    std::vector<std::size_t> sizes;
  };
  const std::vector<std::size_t> large(8, 32);
  for (const auto& [count, sizes] : std::vector<Case>{{250'000, {12, 12, 8, 12, 12, 8}},
                                                      {1'000'000, {16, 16, 16, 16}},
                                                      {1'000'001, {32, 32}},
                                                      {1'000'001, {32, 32, 32}},
                                                      {250'000, large},
                                                      {1'000'001, large}}) {
    const std::size_t samples = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    Parameters parameters(1);
    const Tensor w = parameters.root().parameter("w", {count}, init_ones());
    std::vector<std::size_t> seen;
    DataParallel(parameters).backward(samples, 0, 1, [&](std::size_t first, std::size_t last) {
      seen.push_back(last - first);
      return ShardLoss{.loss = sum(w)};
    });
    BOOST_TEST(seen == sizes, boost::test_tools::per_element());
    for (const std::size_t rounds : {2u, 3u}) {  // each is cut as a batch of its size
      seen.clear();
      DataParallel(parameters, 0, rounds).backward(rounds * samples, 0, 1, [&](std::size_t first, std::size_t last) {
        seen.push_back(last - first);
        return ShardLoss{.loss = sum(w)};
      });
      std::vector<std::size_t> expected;
      for (std::size_t round = 0; round < rounds; ++round) expected.insert(expected.end(), sizes.begin(), sizes.end());
      BOOST_TEST(seen == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_failing_shard_leaves_no_gradient_behind) {
  set_num_threads(2);
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {3}, init_ones());
  for (const std::size_t rounds : {1u, 2u, 4u}) {
    DataParallel data_parallel(parameters, 4 / rounds, rounds);
    const auto loss = [&](std::size_t first, std::size_t, bool fail_here) {
      if (fail_here && first > 0) throw std::runtime_error("shard");
      return ShardLoss{.loss = sum(w), .count = 1};
    };
    BOOST_CHECK_THROW(data_parallel.backward(8, 0, 1, [&](std::size_t a, std::size_t b) { return loss(a, b, true); }),
                      std::runtime_error);
    data_parallel.backward(8, 0, 1, [&](std::size_t a, std::size_t b) { return loss(a, b, false); });
    BOOST_CHECK_EQUAL(parameters.gradients()[0], 4);  // one from each shard
    parameters.zero_gradients();
    const auto here = std::this_thread::get_id();
    const auto diverge = [&](std::size_t first, std::size_t) {
      BOOST_CHECK(std::this_thread::get_id() == here);
      return ShardLoss{.loss = sum(first == 0 ? w : square(log(w * real{0}))), .count = 1};
    };
    BOOST_CHECK_EXCEPTION(data_parallel.backward(8, 0, 1, diverge, /*finds_anomaly=*/true), NumericError,
                          [](const NumericError& e) { return std::string(e.what()).starts_with("log: forward"); });
    for (const real g : parameters.gradients()) BOOST_CHECK_EQUAL(g, 0);
  }
  set_num_threads(1);
}

BOOST_AUTO_TEST_CASE(threads_may_train_models_of_their_own) {
  const auto expected = train(1, 5, 30);
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&result] { result = train(1, 5, 30); });
  for (std::thread& t : threads) t.join();
  for (const auto& result : results) BOOST_CHECK(result == expected);
}
