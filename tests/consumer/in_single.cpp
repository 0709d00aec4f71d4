// Trains the model in single precision, by the library's optimiser and by an own one, and resumes a training.
#include "model.h"
#include "momentum.h"

#include <seppo/nn/optim/sgd.h>
#include <seppo/nn/parameters.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace {

struct Training {
  // The accuracy of the last step.
  double run_to(std::int64_t end) {
    const auto loss = [&](std::span<const int> part) {
      const consumer::Data shard = data.pick(part);
      return seppo::classification_loss(model(shard.inputs()), shard.larger);
    };
    std::vector<int> rows(data.larger.size());
    std::iota(rows.begin(), rows.end(), 0);
    double accuracy = 0;
    while (trainer.steps() < end) accuracy = trainer.step(rows, loss).accuracy;
    return accuracy;
  }

  seppo::Parameters parameters{/*seed=*/1};
  consumer::Comparer model{parameters.root(), consumer::kInputs, 16};
  consumer::Data data = consumer::draw(64);
  seppo::Trainer trainer{parameters, {.lr = 1e-2}};
};

}  // namespace

double accuracy_after_training() { return Training().run_to(300); }

bool resumes_exactly(const std::string& file) {
  Training whole, first, second;
  whole.run_to(20);
  first.run_to(10);
  first.trainer.save(file);
  second.trainer.load(file);
  second.run_to(20);
  return std::ranges::equal(whole.parameters.values(), second.parameters.values());
}

namespace {

template <class Optimiser>
std::vector<seppo::real> values_after_steps(Optimiser&& optimiser, seppo::Parameters& parameters,
                                            const consumer::Comparer& model) {
  const consumer::Data data = consumer::draw(16);
  for (int step = 0; step < 5; ++step) {
    seppo::tape().clear();
    seppo::tape().backward(seppo::cross_entropy(model(data.inputs()), data.larger));
    optimiser.step(0.1, 0.5);
  }
  return {parameters.values().begin(), parameters.values().end()};
}

}  // namespace

bool own_optimiser_equals_seppos() {
  using namespace consumer;
  const ParameterGroups groups{{.prefix = "up.", .lr = 0.5}};
  Parameters own(/*seed=*/1), theirs(/*seed=*/1);
  const Comparer a(own.root(), kInputs, 4), b(theirs.root(), kInputs, 4);
  const std::vector<real> before(own.values().begin(), own.values().end());
  const std::vector<real> after = values_after_steps(Momentum(own, groups), own, a);
  const std::vector<real> expected = values_after_steps(Sgd(theirs, {.momentum = 0.9}, groups), theirs, b);
  return after != before && after == expected;
}
