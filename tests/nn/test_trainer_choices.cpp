// Trainers with an optimiser and a schedule of the user's choice: each step against a loop without a Trainer, and
// trainings that are resumed against those that never stopped.
#include "consumer/momentum.h"
#include "support/errors.h"
#include "support/regression.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adagrad.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/clip.h>
#include <seppo/nn/optim/sgd.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

using namespace seppo;
using test::check_error;
using test::Regression, test::Rows, test::Values, test::copy_of, test::rows_from;
namespace fs = std::filesystem;

namespace {

template <class T>
struct Make {
  T operator()(Parameters& parameters) const { return T(parameters); }
};
template <>
struct Make<Sgd> {
  Sgd operator()(Parameters& parameters) const { return Sgd(parameters, {.momentum = 0.9, .nesterov = true}); }
};

// Calls f with a maker of each kind of optimiser: the library's, and one that others wrote.
template <class F>
void for_each_optimiser(F f) {
  f("adam", Make<Adam>());
  f("sgd", Make<Sgd>());
  f("adagrad", Make<Adagrad>());
  f("momentum", Make<consumer::Momentum>());
}

struct TemporaryFile {
  fs::path path = fs::temp_directory_path() / ("seppo-choices-" + std::to_string(::getpid()));
  ~TemporaryFile() { fs::remove(path); }
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

double halving(std::int64_t step) { return 0.05 * std::pow(0.5, static_cast<double>(step) / 4); }

}  // namespace

// Forward, backward, clipping and the division by the count, written down again.
BOOST_AUTO_TEST_CASE(a_step_is_that_of_a_loop_of_ones_own) {
  for_each_optimiser([](const char* name, auto make) {
    Regression of_trainer, of_loop;
    auto optimiser = make(of_trainer.parameters), own = make(of_loop.parameters);
    Trainer trainer(of_trainer.parameters, optimiser, {.clip_norm = 0.5, .shards = 1, .seed = 7});
    trainer.set_schedule(halving);
    for (int step = 1; step <= 6; ++step) {
      const std::vector<int> rows = rows_from(10 * step, 5 + step);
      const StepResult now = trainer.step(rows, of_trainer);
      tape().clear();
      tape().random = {.seed = 7, .step = static_cast<std::uint32_t>(step)};
      const Tensor loss = of_loop.loss(rows);
      backward(loss);
      const double count = static_cast<double>(rows.size()), norm = gradient_norm(of_loop.parameters) / count;
      BOOST_CHECK_EQUAL(now.loss, loss.item() / count);
      BOOST_CHECK_EQUAL(now.gradient_norm, norm);
      BOOST_CHECK_EQUAL(now.lr, halving(step));
      own.step(halving(step), clip_factor(norm, 0.5) / count);
      BOOST_CHECK_MESSAGE(std::ranges::equal(of_trainer.parameters.values(), of_loop.parameters.values()),
                          name << " after step " << step);
    }
  });
}

BOOST_AUTO_TEST_CASE(the_default_is_adam) {
  const TemporaryFile file;
  std::vector<std::string> saved;
  for (const bool is_given : {false, true}) {
    Regression model;
    Adam adam(model.parameters, {.betas = {0.8, 0.9}});
    const TrainerConfig config{.lr = 0.01, .adam = {.betas = {0.8, 0.9}}, .ema_decay = 0.5};
    const auto trainer = is_given ? std::make_unique<Trainer>(model.parameters, adam, config)
                                  : std::make_unique<Trainer>(model.parameters, config);
    for (int step = 0; step < 3; ++step) trainer->step(rows_from(step, 8), model);
    trainer->save(file.path);
    saved.push_back(bytes_of(file.path));
  }
  BOOST_CHECK(saved[0] == saved[1]);
}

// A rate that was set is not that of a file which has none.
BOOST_AUTO_TEST_CASE(a_file_without_a_rate_releases_it) {
  const TemporaryFile file;
  Regression model, other;
  Trainer trainer(model.parameters, {.lr = 0.25}), fresh(other.parameters, {.lr = 0.25});
  trainer.step(rows_from(0, 8), model);
  trainer.save(file.path);
  trainer.set_lr(1e-9);
  trainer.load(file.path);
  fresh.load(file.path);
  BOOST_CHECK_EQUAL(trainer.lr(), 0.25);
  trainer.step(rows_from(8, 8), model);
  fresh.step(rows_from(8, 8), other);
  BOOST_CHECK(std::ranges::equal(model.parameters.values(), other.parameters.values()));
}

// With a schedule of one's own, and a rate that is set in the middle and released again later.
BOOST_AUTO_TEST_CASE(a_resumed_training_ends_with_the_same_bytes) {
  constexpr int kSteps = 12;
  const TemporaryFile file;
  for_each_optimiser([&](const char* name, auto make) {
    struct Training {
      Training(std::uint64_t seed, decltype(make) f) : model(seed), optimiser(f(model.parameters)) {
        trainer.set_schedule(halving);
      }
      void run_to(std::int64_t steps) {
        while (trainer.steps() < steps) {
          if (trainer.steps() == 4) trainer.set_lr(1.0 / 30);
          if (trainer.steps() == 6) trainer.set_lr(0);
          if (trainer.steps() == 9) trainer.set_lr({});
          trainer.step(rows_from(static_cast<int>(trainer.steps()) * 3, 20), model);
        }
      }
      Regression model;
      decltype(make(model.parameters)) optimiser;
      Trainer trainer{model.parameters, optimiser, {.ema_decay = 0.9, .seed = 5}};
    };
    Training whole(1, make);
    whole.run_to(kSteps);
    whole.trainer.save(file.path);
    const std::string expected = bytes_of(file.path);
    for (int cut = 0; cut <= kSteps; ++cut) {
      set_num_threads(1 + cut % 3);
      Training first(1, make), second(2, make);
      first.run_to(cut);
      first.trainer.save(file.path);
      second.trainer.load(file.path);
      BOOST_CHECK_EQUAL(second.trainer.lr(), first.trainer.lr());
      second.run_to(kSteps);
      second.trainer.save(file.path);
      BOOST_CHECK_MESSAGE(bytes_of(file.path) == expected, name << ", cut after step " << cut);
    }
    set_num_threads(1);
  });
}

// A model is read from a checkpoint with the state of any optimiser; another optimiser does not continue from it.
BOOST_AUTO_TEST_CASE(state_in_files_belongs_to_an_optimiser) {
  struct Plain {  // gradient descent, without any state
    Parameters* parameters;
    TrainedRuns runs{*parameters, 0, {}};
    void step(double lr, double scale) {
      const std::span<real> values = parameters->edit(), gradients = parameters->gradients();
      runs.for_each([&](const TrainedRun& run) {
        for (std::size_t i = run.begin; i < run.end; ++i) {
          values[i] -= static_cast<real>(lr * run.lr * scale) * gradients[i];
          gradients[i] = 0;
        }
      });
    }
    std::vector<OptimizerBlock> state() const { return {}; }
  };
  const TemporaryFile file;
  Regression a, b, c;
  Sgd sgd(a.parameters, {.momentum = 0.9});
  Adagrad adagrad(b.parameters);
  Plain plain{&c.parameters};
  Trainer of_sgd(a.parameters, sgd), of_adagrad(b.parameters, adagrad), of_plain(c.parameters, plain);
  for (Trainer* trainer : {&of_sgd, &of_plain}) trainer->step(rows_from(0, 6), trainer == &of_sgd ? a : c);
  of_sgd.save(file.path);
  Regression read(9);
  load_checkpoint(file.path, read.parameters);
  BOOST_CHECK(std::ranges::equal(read.parameters.values(), a.parameters.values()));
  const Values before = copy_of(c.parameters.values());
  BOOST_CHECK_EXCEPTION(of_adagrad.load(file.path), FormatError, [](const FormatError& e) {
    const std::string text = e.what();  // lists each difference
    return text.find("the file has no optimiser.squares.up.weight") != text.npos &&
           text.find("the model has no optimiser.velocity.up.weight") != text.npos;
  });
  check_error<FormatError>([&] { of_plain.load(file.path); }, {"has the state of an optimiser"});
  BOOST_CHECK(copy_of(c.parameters.values()) == before);
  of_plain.save(file.path);
  of_plain.load(file.path);
  BOOST_CHECK_THROW(of_sgd.load(file.path), FormatError);
}

BOOST_AUTO_TEST_CASE(optimisers_that_do_not_fit_are_refused) {
  struct Odd {
    std::string prefix = "optimiser.x";
    Values values = {};
    void step(double, double) {}
    std::vector<OptimizerBlock> state() { return {{prefix, values}}; }
  };
  Regression model;
  Parameters other(1);
  other.root().parameter("w", {2}, init_ones());
  Sgd of_other(other);
  const std::size_t size = model.parameters.values().size();
  Odd short_one, unnamed{.prefix = "velocity", .values = Values(size)}, idle{.values = Values(size)};
  Adam used(model.parameters);
  used.step(0.1);
  const auto refused = [&](auto& optimiser, const std::string& part) {
    check_error<ArgumentError>([&] { Trainer(model.parameters, optimiser); }, {"trainer: the optimiser", part});
  };
  refused(of_other, "it must be made for these parameters");
  refused(short_one, "'optimiser.x' has 0 values");
  refused(unnamed, "'velocity' does not begin with 'optimiser.'");
  refused(used, "has already taken 1 steps");
  Trainer trainer(model.parameters, idle);
  check_error<StateError>([&] { trainer.step(rows_from(0, 6), model); }, {"left gradients behind"});
}

BOOST_AUTO_TEST_CASE(rates_that_cannot_be_are_refused) {
  Regression model;
  const Values before = copy_of(model.parameters.values());
  Trainer trainer(model.parameters);
  for (const double bad : {-0.1, std::nan(""), std::numeric_limits<double>::infinity()}) {
    check_error<ArgumentError>([&] { trainer.set_lr(bad); }, {"trainer: lr ", "is negative or not finite"});
    trainer.set_schedule([=](std::int64_t) { return bad; });
    check_error<ArgumentError>([&] { trainer.step(rows_from(0, 6), model); }, {"trainer: step 1: the schedule's lr"});
  }
  BOOST_CHECK_EQUAL(trainer.steps(), 0);
  BOOST_CHECK(copy_of(model.parameters.values()) == before);
  trainer.set_lr(0);
  trainer.step(rows_from(0, 6), model);
  BOOST_CHECK(copy_of(model.parameters.values()) == before);
  trainer.set_schedule([](std::int64_t step) { return static_cast<double>(step); });
  BOOST_CHECK_EQUAL(trainer.lr(), 0);  // a rate that was set stays
  trainer.set_lr({});
  BOOST_CHECK_EQUAL(trainer.lr(), 2);
}
