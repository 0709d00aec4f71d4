// Trains the model in single precision.
#include "model.h"

#include <seppo/nn/optim/adam.h>
#include <seppo/nn/parameters.h>
#include <seppo/nn/train/data_parallel.h>

#include <span>

double loss_after_training() {
  using namespace consumer;
  constexpr int kRows = 64;
  Parameters parameters(/*seed=*/1);
  const Comparer model(parameters.root(), kInputs, 16);
  const Data data = draw(kRows);
  DataParallel shards(parameters);
  Adam adam(parameters);
  double mean = 0;
  for (std::uint32_t step = 1; step <= 200; ++step) {
    const StepLoss loss = shards.backward(kRows, /*seed=*/1, step, [&](std::size_t first, std::size_t last) {
      const int rows = static_cast<int>(last - first);
      const std::span x = std::span(data.x).subspan(first * kInputs, (last - first) * kInputs);
      const std::span larger = std::span(data.larger).subspan(first, last - first);
      const Tensor mean_loss = cross_entropy(model(tensor({rows, kInputs}, x)), larger);
      return ShardLoss{.loss = mean_loss * static_cast<real>(rows), .count = static_cast<double>(rows)};
    });
    adam.step(1e-2, 1 / loss.count);
    mean = loss.loss / loss.count;
  }
  return mean;
}
