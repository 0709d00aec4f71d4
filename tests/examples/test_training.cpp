// The training loop that the programs share: which examples a step takes, how many steps there are, and when they end.
#define BOOST_TEST_MODULE training
#include "app/training.h"

#include <seppo/autograd/ops.h>
#include <seppo/nn/layers/linear.h>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <algorithm>
#include <mutex>
#include <set>
#include <vector>

using examples::Task;
using examples::TrainingOptions;

namespace {

// What a training does, seen from its task.
struct Run {
  std::vector<std::vector<int>> batches;  // the examples of each step
  int evaluations = 0, saves = 0;
  examples::TrainingResult result;
};

Run run(TrainingOptions options, std::size_t examples, std::span<const int> lengths = {}) {
  options.log_format = "none";
  options.out = std::filesystem::temp_directory_path() / ("seppo-training-" + std::to_string(::getpid()));
  std::filesystem::create_directories(options.out);
  seppo::Parameters parameters(1);
  const seppo::Linear model(parameters.root(), 1, 1);
  Run run;
  std::mutex mutex;
  std::vector<int> seen;
  const Task task{.examples = examples,
                  .lengths = lengths,
                  .loss =
                      [&](std::span<const int> picks) {
                        const std::scoped_lock lock(mutex);
                        seen.insert(seen.end(), picks.begin(), picks.end());
                        const auto count = static_cast<int>(picks.size());
                        return seppo::ShardLoss{sum(model(seppo::zeros({count, 1}))), static_cast<double>(count)};
                      },
                  .evaluate =
                      [&] {
                        ++run.evaluations;
                        return nlohmann::json{{"val", 1.0}};
                      },
                  .save = [&] { ++run.saves; }};
  run.result = examples::train(parameters, options, task);
  std::filesystem::remove_all(options.out);
  const auto batch = static_cast<std::size_t>(options.batch_size);
  for (std::size_t i = 0; i < seen.size(); i += batch)
    run.batches.emplace_back(seen.begin() + static_cast<std::ptrdiff_t>(i),
                             seen.begin() + static_cast<std::ptrdiff_t>(std::min(i + batch, seen.size())));
  // Threads take the shards of a step in any order.
  for (auto& picks : run.batches) std::sort(picks.begin(), picks.end());
  return run;
}

TrainingOptions two_epochs() {
  TrainingOptions options;
  options.epochs = 2;
  options.batch_size = 8;
  options.schedule = "const";
  return options;
}

std::vector<int> joined(std::span<const std::vector<int>> batches) {
  std::vector<int> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<int> first_numbers(std::size_t count) {
  std::vector<int> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<int>(i);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_epoch_takes_every_example_once_in_a_new_order) {
  std::vector<int> lengths;
  for (int i = 0; i < 800; ++i) lengths.push_back(i * 37 % 100);
  for (const bool has_lengths : {false, true}) {
    const Run r = run(two_epochs(), 800, has_lengths ? std::span<const int>(lengths) : std::span<const int>());
    BOOST_REQUIRE_EQUAL(r.batches.size(), 200);
    const auto batches = std::span(r.batches);
    BOOST_TEST(joined(batches.first(100)) == first_numbers(800));
    BOOST_TEST(joined(batches.last(100)) == first_numbers(800));
    BOOST_CHECK(r.batches[0] != r.batches[100]);
    TrainingOptions other_seed = two_epochs();
    other_seed.seed = 1;
    BOOST_CHECK(run(two_epochs(), 800, has_lengths ? std::span<const int>(lengths) : std::span<const int>()).batches ==
                r.batches);
    BOOST_CHECK(run(other_seed, 800).batches != r.batches);
  }
}

// And which batch comes when does not depend on the lengths in it.
BOOST_AUTO_TEST_CASE(lengths_make_batches_of_like_examples) {
  std::vector<int> lengths;
  for (int i = 0; i < 800; ++i) lengths.push_back(i * 37 % 100);
  const Run r = run(two_epochs(), 800, lengths);
  double spread = 0;
  int rises = 0, falls = 0, before = 0;
  for (const auto& batch : r.batches) {
    const auto [least, most] = std::minmax_element(batch.begin(), batch.end(), [&](int a, int b) {
      return lengths[static_cast<std::size_t>(a)] < lengths[static_cast<std::size_t>(b)];
    });
    const int low = lengths[static_cast<std::size_t>(*least)], high = lengths[static_cast<std::size_t>(*most)];
    spread += high - low;
    (low > before ? rises : falls) += 1;
    before = low;
  }
  BOOST_CHECK_LT(spread / static_cast<double>(r.batches.size()), 5);  // drawn at random it is some 75
  BOOST_CHECK(rises > 60 && falls > 60);
}

BOOST_AUTO_TEST_CASE(in_order_nothing_is_shuffled) {
  TrainingOptions options = two_epochs();
  options.in_order = true;
  std::vector<int> lengths(24, 1);
  lengths[3] = 50;
  const Run r = run(options, 24, lengths);
  BOOST_REQUIRE_EQUAL(r.batches.size(), 6);
  for (std::size_t b = 0; b < 6; ++b)
    for (int i = 0; i < 8; ++i)
      BOOST_CHECK_EQUAL(r.batches[b][static_cast<std::size_t>(i)], static_cast<int>(b % 3) * 8 + i);
}

BOOST_AUTO_TEST_CASE(what_does_not_fill_a_batch_waits) {
  const std::vector<int> lengths = first_numbers(30);
  for (const bool has_lengths : {false, true}) {
    const Run r = run(two_epochs(), 30, has_lengths ? std::span<const int>(lengths) : std::span<const int>());
    BOOST_CHECK_EQUAL(r.batches.size(), 6);
    const std::vector<int> epoch = joined(std::span(r.batches).first(3));
    BOOST_CHECK_EQUAL(std::set<int>(epoch.begin(), epoch.end()).size(), 24);
  }
  BOOST_CHECK_EQUAL(run(two_epochs(), 5).result.steps, 2);  // fewer examples than a batch holds
}

BOOST_AUTO_TEST_CASE(how_many_steps_and_evaluations) {
  TrainingOptions options = two_epochs();
  options.epoch_steps = 2;
  options.eval_interval = 1;
  Run r = run(options, 80);
  BOOST_CHECK_EQUAL(r.result.steps, 4);
  BOOST_CHECK_EQUAL(r.evaluations, 2);
  BOOST_CHECK_EQUAL(r.saves, 2);
  options.epoch_steps = 0;
  options.max_steps = 13;
  r = run(options, 80);
  BOOST_CHECK_EQUAL(r.result.steps, 13);
  BOOST_CHECK_EQUAL(r.evaluations, 2);
  options.max_steps = 0;
  options.epochs = 7;
  options.eval_interval = 3;
  r = run(options, 16);
  BOOST_CHECK_EQUAL(r.result.steps, 14);
  BOOST_CHECK_EQUAL(r.evaluations, 3);  // after epochs 3, 6 and 7
  BOOST_CHECK(!r.result.interrupted);
}

// A task's loss: summed, with the rows counted whose largest score is the target's.
BOOST_AUTO_TEST_CASE(classification_loss_counts_what_is_right) {
  const seppo::TapeMark mark;
  const seppo::Tensor logits = seppo::tensor({3, 2}, {2, 1, 0, 3, 1, 0});
  const seppo::ShardLoss loss = examples::classification_loss(logits, std::vector<int>{0, 1, 1});
  BOOST_CHECK_EQUAL(loss.count, 3);
  BOOST_CHECK_EQUAL(loss.correct, 2);
  const double expected = std::log1p(std::exp(-1.0)) + std::log1p(std::exp(-3.0)) + std::log1p(std::exp(1.0));
  BOOST_CHECK_CLOSE(static_cast<double>(loss.loss.item()), expected, 1e-4);
  // Smoothed by 0.2, a row loses 0.9 and 0.1 of its two differences to the largest score.
  const auto smoothed = [](double right, double wrong) { return 0.9 * right + 0.1 * wrong; };
  const auto softplus = [](double x) { return std::log1p(std::exp(x)); };
  BOOST_CHECK_CLOSE(
      static_cast<double>(examples::classification_loss(logits, std::vector<int>{0, 1, 1}, 0.2).loss.item()),
      smoothed(softplus(-1), softplus(1)) + smoothed(softplus(-3), softplus(3)) + smoothed(softplus(1), softplus(-1)),
      1e-4);
}
