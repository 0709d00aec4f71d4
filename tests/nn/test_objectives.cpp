// A step on several losses, and several models that learn from each other, each with Parameters and a Trainer.
#include "support/errors.h"
#include "support/regression.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/sgd.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

using namespace seppo;
using test::check_error;
using test::Regression, test::Rows, test::Values, test::copy_of, test::rows_from;
namespace fs = std::filesystem;

namespace {

struct TemporaryFile {
  fs::path path = fs::temp_directory_path() / ("seppo-objectives-" + std::to_string(::getpid()));
  ~TemporaryFile() { fs::remove(path); }
};

}  // namespace

// Means over 4 and 2 examples of losses that are linear, so that one step of gradient descent shows the gradient.
BOOST_AUTO_TEST_CASE(objectives_are_weighted_means) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {2}, init_zeros());
  Sgd sgd(parameters);
  Trainer trainer(parameters, sgd, {.lr = 1, .clip_norm = 0});
  const auto linear = [&](real slope_a, real slope_b, double share) {  // of the examples are right
    return [&w, slope_a, slope_b, share](Rows rows) {
      real total = 0;
      for (const int row : rows) total += static_cast<real>(row);
      return ShardLoss{sum(w * tensor({2}, {slope_a * total, slope_b * total})) + 3 * static_cast<real>(rows.size()),
                       static_cast<double>(rows.size()), static_cast<double>(rows.size()) * share};
    };
  };
  const std::vector<int> some{1, 2, 3, 6}, others{4, 8};  // means 3 and 6
  const auto f = linear(1, 0, 0.5), g = linear(0, 2, 0);
  const StepResult now = trainer.step({{some, f, 0.5}, {others, g, -0.25}});
  BOOST_CHECK_EQUAL(now.loss, 3 * 0.5 - 3 * 0.25);
  BOOST_CHECK(now.losses == (std::vector<double>{3, 3}));
  BOOST_CHECK_CLOSE(now.accuracy, 2.0 / 6, 1e-12);  // of all examples, whatever the weights
  BOOST_CHECK_EQUAL(w.values()[0], -0.5 * 3);
  BOOST_CHECK_EQUAL(w.values()[1], 0.25 * 2 * 6);
  BOOST_CHECK_CLOSE(now.gradient_norm, std::hypot(1.5, 3), 1e-5);
  for (const real gradient : parameters.gradients()) BOOST_CHECK_EQUAL(gradient, 0);
  BOOST_CHECK_EQUAL(trainer.steps(), 1);
  BOOST_CHECK_EQUAL(trainer.step({{some, f, 2}}).losses.size(), 1u);
  const StepResult watched = trainer.step({{some, f}, {others, g, 0}});  // a weight of 0 trains nothing, and counts
  BOOST_CHECK_EQUAL(watched.losses.size(), 2u);
  BOOST_CHECK_CLOSE(watched.accuracy, 2.0 / 6, 1e-12);
}

BOOST_AUTO_TEST_CASE(one_objective_is_a_plain_step) {
  Regression plain, listed;
  Trainer of_plain(plain.parameters, {.lr = 0.01}), of_listed(listed.parameters, {.lr = 0.01});
  for (int step = 0; step < 3; ++step) {
    const std::vector<int> rows = rows_from(step, 30);
    BOOST_CHECK_EQUAL(of_plain.step(rows, plain).loss, of_listed.step({{rows, listed}}).loss);
  }
  BOOST_CHECK(std::ranges::equal(plain.parameters.values(), listed.parameters.values()));
}

// The same bytes for any number of threads; masks as in one batch; buffers, values and gradients after a failure.
BOOST_AUTO_TEST_CASE(objectives_keep_the_promises_of_steps) {
  std::vector<Values> results;
  std::set<std::uint32_t> samples;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    Regression model;
    Trainer trainer(model.parameters, {.lr = 0.01, .shards = 2});
    std::mutex mutex;
    const auto loss = [&](Rows rows) {
      const std::scoped_lock lock(mutex);
      samples.insert(tape().random.sample);
      return model(rows);
    };
    for (int step = 0; step < 3; ++step)
      trainer.step({{rows_from(0, 8), loss}, {rows_from(step, 6), loss, 0.5}, {rows_from(2, 2), loss}});
    results.push_back(copy_of(model.parameters.values()));
  }
  set_num_threads(1);
  BOOST_CHECK(results[0] == results[1]);
  BOOST_CHECK(samples == (std::set<std::uint32_t>{0, 4, 8, 11, 14, 15}));
}

BOOST_AUTO_TEST_CASE(objectives_that_fail_change_nothing) {
  Regression model;
  const Tensor seen = model.parameters.root().buffer("seen", {1}, init_zeros());
  const Values before = copy_of(model.parameters.values());
  Trainer trainer(model.parameters, {.on_nan = OnNan::stop}), skipping(model.parameters, {.on_nan = OnNan::skip});
  const std::vector<int> rows = rows_from(0, 6);
  const auto counting = [&](Rows some) {
    seen.data()[0] += 1;
    return model(some);
  };
  const auto broken = [&](Rows) { return ShardLoss{sum(log(model.up.weight * real{0})), 1}; };
  const auto none = [&](Rows some) { return ShardLoss{model.loss(some), 0}; };
  const auto thrown = [&](Rows) -> ShardLoss { throw std::runtime_error("mine"); };
  const auto check_nothing_changed = [&] {
    BOOST_CHECK(copy_of(model.parameters.values()) == before);
    BOOST_CHECK(std::ranges::all_of(model.parameters.gradients(), [](real g) { return g == 0; }));
  };
  check_error<NumericError>([&] { trainer.step({{rows, counting}, {rows, broken}}); }, {"step 1", "log: forward made"});
  check_nothing_changed();
  check_error<ArgumentError>(
      [&] {
        trainer.step({{rows, counting}, {rows_from(0, 3), none}});
      },
      {"the loss counted 0 for 3 examples"});
  check_nothing_changed();
  BOOST_CHECK_THROW(trainer.step({{rows, counting}, {rows, thrown}}), std::runtime_error);
  check_nothing_changed();
  check_error<ArgumentError>([&] { trainer.step(List<Objective>()); }, {"without objectives"});
  check_error<ArgumentError>([&] { trainer.step({{rows, counting, std::nan("")}}); }, {"has the weight nan"});
  BOOST_CHECK_EQUAL(trainer.steps(), 0);
  BOOST_CHECK(skipping.step({{rows, counting}, {rows, broken}}).is_skipped);
  BOOST_CHECK_EQUAL(skipping.steps(), 1);
  check_nothing_changed();
}

namespace {

// A generator of numbers and its critic, each with Parameters and a Trainer.
struct Gan {
  explicit Gan(std::uint64_t seed) : own(seed), critics(seed + 1) {}

  Tensor drawn(Rows rows) const {
    Values noise;
    for (const int row : rows) noise.push_back(static_cast<real>(row % 9) / 4 - 1);
    return generator(tensor({static_cast<int>(rows.size()), 1}, noise));
  }
  static ShardLoss counted(const Tensor& losses) { return {sum(losses), static_cast<double>(losses.numel())}; }

  void run_to(std::int64_t steps) {
    while (trainer.steps() < steps) {
      const std::vector<int> rows = rows_from(static_cast<int>(trainer.steps()) * 5, 16);
      critics.freeze("", false);
      const Values before = copy_of(own.values());
      critics_trainer.step(rows, [&](Rows some) {
        const Tensor fakes = [&] {
          const NoGrad guard;
          return drawn(some);
        }();
        return counted(softplus(-critic(fakes + 2)) + softplus(critic(fakes)));
      });
      BOOST_REQUIRE(copy_of(own.values()) == before);
      critics.freeze("");
      const Values judged = copy_of(critics.values());
      trainer.step(rows, [&](Rows some) { return counted(softplus(-critic(drawn(some)))); });
      BOOST_REQUIRE(copy_of(critics.values()) == judged && copy_of(own.values()) != before);
    }
  }

  Parameters own, critics;
  Linear generator{own.root() / "generator", 1, 1}, critic{critics.root() / "critic", 1, 1};
  Sgd sgd{critics, {.momentum = 0.5}};
  Trainer trainer{own, {.lr = 0.01}}, critics_trainer{critics, sgd, {.lr = 0.1}};
};

}  // namespace

// Two Parameters that learn from each other, resumed after any step, on any number of threads.
BOOST_AUTO_TEST_CASE(each_of_two_models_has_a_trainer) {
  const TemporaryFile file, critics_file{file.path.string() + "-critic"};
  Gan whole(1);
  whole.run_to(8);
  for (int cut = 0; cut <= 8; cut += 2) {
    set_num_threads(1 + cut % 3);
    Gan first(1), second(5);
    first.run_to(cut);
    first.trainer.save(file.path);
    first.critics_trainer.save(critics_file.path);
    second.critics.freeze("", cut > 0);  // as when it was saved
    second.trainer.load(file.path);
    second.critics_trainer.load(critics_file.path);
    second.run_to(8);
    BOOST_CHECK(copy_of(second.own.values()) == copy_of(whole.own.values()));
    BOOST_CHECK(copy_of(second.critics.values()) == copy_of(whole.critics.values()));
  }
  set_num_threads(1);
}
