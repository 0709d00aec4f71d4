// The precision of products as an option of a training: where it holds, and that it is saved.
#include "support/program.h"

#include <seppo/autograd/core/matmul_precision.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/config.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/run/training_run.h>
#include <seppo/nn/train/metrics.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <numeric>
#include <stdexcept>

using namespace seppo;
using enum MatmulPrecision;

namespace {

struct Model {
  Parameters parameters{3};
  Linear layer{parameters.root() / "layer", 2, 3};
  mutable std::atomic<int> others = 0;  // calls in another precision than medium

  ShardLoss loss(std::span<const int> some) const {
    if (matmul_precision() != medium) ++others;
    const std::vector<real> inputs(2 * some.size(), real{1});
    const std::vector<int> targets(some.size(), 1);
    return classification_loss(layer(tensor({static_cast<int>(some.size()), 2}, inputs)), targets);
  }
};

std::vector<int> indices(int n) {
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_step_has_the_precision_of_the_config_on_every_thread) {
  set_num_threads(3);
  Model model;
  Trainer trainer(model.parameters, {.shards = 16, .matmul_precision = medium});
  const std::vector<int> examples = indices(64);
  for (int i = 0; i < 5; ++i) trainer.step(examples, [&](std::span<const int> some) { return model.loss(some); });
  BOOST_CHECK_EQUAL(model.others, 0);
  BOOST_CHECK(matmul_precision() == highest);
  const auto failing = [](std::span<const int>) -> ShardLoss { throw std::runtime_error("no loss"); };
  BOOST_CHECK_THROW(trainer.step(examples, failing), std::runtime_error);
  BOOST_CHECK(matmul_precision() == highest);
  set_num_threads(1);
}

BOOST_AUTO_TEST_CASE(a_config_has_the_precision_that_holds_where_it_is_made) {
  BOOST_CHECK(TrainerConfig().matmul_precision == highest);
  const UseMatmulPrecision use(high);
  BOOST_CHECK(TrainerConfig().matmul_precision == high);
}

BOOST_AUTO_TEST_CASE(a_config_is_saved_with_its_precision_and_an_older_one_has_none) {
  nlohmann::json saved = to_json_object(TrainerConfig{.matmul_precision = medium});
  BOOST_CHECK_EQUAL(saved.at("matmul_precision"), "medium");
  BOOST_CHECK(from_json_object<TrainerConfig>(saved).matmul_precision == medium);
  saved.erase("matmul_precision");
  BOOST_CHECK(from_json_object<TrainerConfig>(saved).matmul_precision == highest);
}

BOOST_AUTO_TEST_CASE(a_run_also_evaluates_in_it) {
  const test::Folder folder("trained-precision");
  Model model;
  int evaluations = 0;
  const TrainingTask task{.examples = 24,
                          .digest = "1234",
                          .loss = [&](std::span<const int> some) { return model.loss(some); },
                          .evaluate =
                              [&] {
                                model.loss(indices(24));
                                return Evaluation{.val_loss = static_cast<double>(++evaluations)};
                              },
                          .config = {{"model", {{"width", 2}}}}};
  TrainingRun run(model.parameters, {.epochs = 2, .trainer = {.matmul_precision = medium}}, task,
                  {.folder = folder.path / "run"});
  run.train();
  BOOST_CHECK_EQUAL(evaluations, 3);  // after each epoch, and at the end of the first model, which is the best
  BOOST_CHECK_EQUAL(model.others, 0);
  BOOST_CHECK(matmul_precision() == highest);
}
