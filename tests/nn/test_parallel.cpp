// Threads: every task once, exceptions once, and training bytes that do not depend on their number.
#define BOOST_TEST_MODULE parallel
#include <seppo/autograd/core/parallel.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/train/data_parallel.h>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

using namespace seppo;

BOOST_AUTO_TEST_CASE(every_task_runs_once) {
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::vector<std::atomic<int>> runs(37);
      run_tasks(runs.size(), [&](std::size_t i) {
        BOOST_REQUIRE(thread_index() < num_threads());
        ++runs[i];
      });
      for (const auto& r : runs) BOOST_REQUIRE_EQUAL(r.load(), 1);
    }
    std::atomic<std::size_t> covered{0};
    parallel_for(5, 1000, 64, [&](std::size_t first, std::size_t last) { covered += last - first; });
    BOOST_CHECK_EQUAL(covered.load(), 995);
  }
  set_num_threads(1);
  BOOST_CHECK_THROW(set_num_threads(0), ArgumentError);
  BOOST_CHECK_THROW(set_num_threads(1000), ArgumentError);
}

BOOST_AUTO_TEST_CASE(an_exception_arrives_and_the_pool_lives_on) {
  set_num_threads(3);
  for (int repeat = 0; repeat < 20; ++repeat) {
    BOOST_CHECK_THROW(run_tasks(10,
                                [](std::size_t i) {
                                  if (i == 7) throw std::runtime_error("task");
                                }),
                      std::runtime_error);
    std::atomic<int> runs{0};
    run_tasks(10, [&](std::size_t) { ++runs; });
    BOOST_CHECK_EQUAL(runs.load(), 10);
  }
  std::atomic<int> nested{0};
  run_tasks(4, [&](std::size_t) { run_tasks(5, [&](std::size_t) { ++nested; }); });
  BOOST_CHECK_EQUAL(nested.load(), 20);
  set_num_threads(1);
}

BOOST_AUTO_TEST_CASE(denormals_are_flushed_in_scope_only) {
  volatile float tiny = std::numeric_limits<float>::min();
  {
    const FlushDenormals flush;
    BOOST_CHECK_EQUAL(tiny / 4, 0);
  }
  BOOST_CHECK_GT(tiny / 4, 0);
}

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

// A few steps of training with dropout on ragged data; returns the parameters' bytes.
std::vector<float> train(int threads, int steps, std::size_t samples) {
  set_num_threads(threads);
  const Data data;
  Parameters parameters(4);
  const Transformer model(parameters.root(), {.src_vocabulary = 20,
                                              .tgt_vocabulary = 20,
                                              .layer = {.d_model = 16, .n_heads = 2, .d_ff = 24, .dropout = 0.1},
                                              .enc_layers = 2,
                                              .dec_layers = 2,
                                              .max_length = 16});
  Adam adam(parameters, {.weight_decay = 0.01});
  DataParallel data_parallel(parameters);
  for (int step = 1; step <= steps; ++step) {
    const StepLoss sums =
        data_parallel.backward(samples, 7, static_cast<std::uint32_t>(step), [&](std::size_t first, std::size_t last) {
          Ragged src, tgt;
          std::vector<int> next;
          for (std::size_t s = first; s < last; ++s) {
            src.add(data.src[s]);
            tgt.add(data.tgt[s]);
            next.insert(next.end(), data.next[s].begin(), data.next[s].end());
          }
          return ShardLoss{.loss = cross_entropy(model.logits(src, tgt), next, {.reduction = Reduction::sum}),
                           .count = static_cast<double>(next.size())};
        });
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

BOOST_AUTO_TEST_CASE(shards_take_each_sample_once) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {3}, init_ones());
  for (const unsigned shards : {0u, 1u, 2u, 3u, 5u}) {
    DataParallel data_parallel(parameters, shards);
    for (std::size_t samples = 0; samples < 20; ++samples) {
      parameters.zero_gradients();
      const StepLoss sums = data_parallel.backward(samples, 0, 1, [&](std::size_t first, std::size_t last) {
        BOOST_CHECK_LT(first, last);
        BOOST_CHECK_LE(last, samples);
        real squares = 0;  // of the samples' numbers
        for (std::size_t s = first; s < last; ++s) squares += static_cast<real>((s + 1) * (s + 1));
        return ShardLoss{.loss = sum(w) * squares, .count = static_cast<double>(last - first)};
      });
      BOOST_CHECK_EQUAL(sums.count, samples);
      BOOST_CHECK_EQUAL(parameters.gradients()[2], samples * (samples + 1) * (2 * samples + 1) / 6);
    }
  }
}

BOOST_AUTO_TEST_CASE(shards_by_the_size_of_the_model) {
  const std::vector<std::pair<int, std::vector<std::size_t>>> expected{
      {250'000, {16, 16, 16, 8, 8}}, {1'000'000, {16, 16, 16, 16}}, {1'000'001, {32, 32}}};
  for (const auto& [count, sizes] : expected) {
    Parameters parameters(1);
    const Tensor w = parameters.root().parameter("w", {count}, init_ones());
    std::vector<std::size_t> seen;
    DataParallel(parameters).backward(64, 0, 1, [&](std::size_t first, std::size_t last) {
      seen.push_back(last - first);
      return ShardLoss{.loss = sum(w)};
    });
    BOOST_TEST(seen == sizes, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_failing_shard_leaves_no_gradient_behind) {
  set_num_threads(2);
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {3}, init_ones());
  DataParallel data_parallel(parameters, 4);
  const auto loss = [&](std::size_t first, std::size_t, bool fail_here) {
    if (fail_here && first > 0) throw std::runtime_error("shard");
    return ShardLoss{.loss = sum(w), .count = 1};
  };
  BOOST_CHECK_THROW(data_parallel.backward(8, 0, 1, [&](std::size_t a, std::size_t b) { return loss(a, b, true); }),
                    std::runtime_error);
  data_parallel.backward(8, 0, 1, [&](std::size_t a, std::size_t b) { return loss(a, b, false); });
  BOOST_CHECK_EQUAL(parameters.gradients()[0], 4);  // one from each shard
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
