// DataParallel: one training step's gradient, computed by many threads with the same bytes for any
// number of them.
//
// The batch is cut by sample index into a fixed number of shards. Each shard is run by one thread on
// a tape and gradient block of its own, then the blocks are added in a fixed binary tree. Losses and
// gradients are sums over what they count (tokens, say); the caller divides once, by the total.
#pragma once

#include "../../autograd/core/utility.h"
#include "../parameters.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace seppo::inline SEPPO_ABI {

// What the loss function returns for a shard.
struct ShardLoss {
  Tensor loss;         // the sum, one element
  double count = 0;    // of what is summed
  double correct = 0;  // any statistic to be added up, such as correct predictions
};

// The same for a whole batch: sums, and their means over what was counted.
struct StepLoss {
  double loss = 0, count = 0, correct = 0;

  double mean() const { return loss / count; }
  double accuracy() const { return correct / count; }
  StepLoss& operator+=(const StepLoss& other) {
    loss += other.loss, count += other.count, correct += other.correct;
    return *this;
  }
};

class DataParallel {
 public:
  // More shards keep more threads busy; each costs a block of gradients and makes products smaller. By default (0)
  // there are five for up to 250,000 parameters, the last two half as large as the others, to even out threads of
  // unequal speed; four for up to a million; else two. A small batch may leave some without a sample.
  explicit DataParallel(Parameters& parameters, std::size_t shards = 0);

  // How many samples each shard has; the last may have none.
  std::vector<std::size_t> shard_sizes(std::size_t samples) const;

  // Calls loss(first, last) for the samples of each shard, runs backward on what it returns, and adds the gradients to
  // parameters.gradients(). `seed` and `step` key the dropout masks. Gradients are zero after a throw.
  // With `finds_anomaly` it does so in this thread, with FindAnomaly (autograd/tools/observers.h) looking on, which
  // throws NumericError for the first value that is not finite.
  StepLoss backward(std::size_t samples, std::uint64_t seed, std::uint32_t step,
                    FunctionRef<ShardLoss(std::size_t first, std::size_t last)> loss, bool finds_anomaly = false);

 private:
  std::size_t cut(std::size_t samples, std::size_t shard) const;
  void add_gradients(std::size_t shards);

  Parameters* parameters_;
  std::vector<std::size_t> cuts_;             // of the batch, as fractions of the last one
  std::vector<Memory> gradients_;             // of all shards but the first, which uses the parameters' own
  std::vector<StepLoss> losses_;              // of each shard
  std::vector<std::unique_ptr<Tape>> tapes_;  // one for each thread
};

}  // namespace seppo::inline SEPPO_ABI
