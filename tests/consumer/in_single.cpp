// Trains the model in single precision.
#include "model.h"

#include <seppo/nn/parameters.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <numeric>
#include <span>
#include <vector>

double accuracy_after_training() {
  using namespace consumer;
  Parameters parameters(/*seed=*/1);
  const Comparer model(parameters.root(), kInputs, 16);
  const Data data = draw(64);
  std::vector<int> rows(data.larger.size());
  std::iota(rows.begin(), rows.end(), 0);
  Trainer trainer(parameters, {.lr = 1e-2});
  double accuracy = 0;
  while (trainer.steps() < 300)
    accuracy = trainer
                   .step(rows,
                         [&](std::span<const int> part) {
                           const Data shard = data.pick(part);
                           return classification_loss(model(shard.inputs()), shard.larger);
                         })
                   .accuracy;
  return accuracy;
}
