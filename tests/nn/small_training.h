// A small training, for tests of TrainingRun.
#pragma once

#include "support/program.h"

#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/run/training_run.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/metrics.h>

#include <boost/test/unit_test.hpp>

#include <exception>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace test::small_training {

using namespace seppo;
namespace fs = std::filesystem;

inline constexpr int kExamples = 24;

struct Model {
  Parameters parameters{3};
  Linear layer{parameters.root() / "layer", 2, 3};

  ShardLoss loss(std::span<const int> some) const {
    std::vector<real> inputs;
    std::vector<int> targets;
    for (const int i : some) {
      inputs.insert(inputs.end(), {static_cast<real>(i % 5), static_cast<real>(i % 7)});
      targets.push_back(i % 3);
    }
    return classification_loss(layer(tensor({static_cast<int>(some.size()), 2}, inputs)), targets);
  }
};

// Six steps in three epochs.
inline TrainingConfig config() {
  return {.epochs = 3, .average = 2, .sampler = {.batch_size = 12}, .trainer = {.lr = 0.1}};
}

inline TrainingTask task_of(const Model& model) {
  const auto evaluation = [&model] {
    std::vector<int> all(kExamples);
    std::iota(all.begin(), all.end(), 0);
    return Evaluation{.val_loss = evaluate(all, [&](auto some) { return model.loss(some); }).mean("loss")};
  };
  return {.examples = kExamples,
          .digest = "1234",
          .loss = [&model](std::span<const int> some) { return model.loss(some); },
          .evaluate = evaluation,
          .config = {{"model", {{"width", 2}}}}};
}

struct Outcome {
  RunResult result;
  std::string model, state;  // the files of model and checkpoint
};

inline Outcome train(const fs::path& folder, bool resume, int max_steps = 0, RunEvents events = {}) {
  Model model;
  TrainingConfig changed = config();
  changed.max_steps = max_steps;
  TrainingRun run(model.parameters, changed, task_of(model),
                  {.folder = folder, .resume = resume, .log_interval = 1, .save_interval = 1});
  const RunResult result = run.train(std::move(events));
  const std::string step = std::to_string(result.steps);
  return {result, test::read(run.folder().model()), test::read(folder / "checkpoints" / (step + ".safetensors"))};
}

inline auto says(const std::string& part) {
  return [=](const std::exception& e) {
    BOOST_TEST_MESSAGE(e.what());
    return std::string(e.what()).find(part) != std::string::npos;
  };
}

}  // namespace test::small_training
