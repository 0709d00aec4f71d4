// DataParallel: one training step's gradient, computed by many threads and ranks with the same bytes for any number.
//
// The batch is cut by sample index into shards; their number depends on the model and the batch alone. Each shard runs
// on one thread with its own tape; threads without a shard help the others (core/parallel.h). Gradients are added in a
// binary tree over the shards, by whichever thread finishes last. Each rank (ranks.h) takes consecutive shards; what
// remains of the tree is added over the ranks, each of which does so for its part of the parameters. Losses and
// gradients are sums over what they count, such as tokens; the caller divides once, by the total.
#pragma once

#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/memory.h"
#include "../../autograd/ops.h"
#include "../parameters.h"

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// A double from a number of any type, such as a vector's size().
struct AnyNumber {
  template <class Number>
  requires std::is_arithmetic_v<Number> AnyNumber(Number number) : value(static_cast<double>(number)) {}
  operator double() const { return value; }
  AnyNumber& operator+=(AnyNumber other) {
    value += other.value;
    return *this;
  }

  double value;
};

// What the loss function returns for a shard.
struct ShardLoss {
  Tensor loss;            // the sum, one element; mean_loss() makes it of a mean
  AnyNumber count = 0;    // how many terms it sums; 0 if none of the shard's counts
  AnyNumber correct = 0;  // any statistic to be added up, such as correct predictions
};

// The same from a mean over `count` terms, such as mean(x) or a cross-entropy with its default reduction:
// {mean * count, count, correct}. Throws ArgumentError unless count is positive and finite.
ShardLoss mean_loss(const Tensor& mean, AnyNumber count, AnyNumber correct = 0);

// The same for a whole batch: sums, and their means over what was counted.
struct StepLoss {
  double loss = 0, count = 0, correct = 0;

  double mean() const { return loss / count; }
  double accuracy() const { return correct / count; }
  StepLoss& operator+=(const StepLoss& other) {
    loss += other.loss;
    count += other.count;
    correct += other.correct;
    return *this;
  }
};

// A shard's numbers. Throws ArgumentError if the count is negative or not finite, or if it is above 1 and the loss is
// the result of mean(), or of a loss op that reduces to the mean, as these do unless told otherwise.
StepLoss numbers_of(const ShardLoss& shard);

class DataParallel {
 public:
  // More shards keep more threads and ranks busy, but each costs a pass over its gradients. By default (0) there is one
  // for every 32 samples, and at least six for up to 250,000 parameters, four for up to a million, else two. With more
  // than one round (gradient accumulation), each round's share of the batch is cut so, which takes the memory of one
  // round. R rounds of S shards give the same bytes as one of R S.
  explicit DataParallel(Parameters& parameters, std::size_t shards = 0, std::size_t rounds = 1);

  // How many samples each shard has.
  std::vector<std::size_t> shard_sizes(std::size_t samples) const;

  // The tapes of the shards, one for each thread that there is now, without tensors until the next backward(): memory
  // that other work may use meanwhile, such as an evaluation (UseTapes in evaluate.h).
  std::span<const std::unique_ptr<Tape>> tapes();

  // Calls loss(first, last) for the samples of each of this rank's shards, runs backward on the result, and adds the
  // gradients of all ranks to parameters.gradients(), which must be zero before. `seed` and `step` key dropout masks.
  // Throws StateError if `loss` calls backward, adds parameters, or would bring gradients to other Parameters.
  // What `loss` throws in one rank is thrown in all, as StateError in the others. Gradients are zero after a throw.
  // With `finds_anomaly`, shards run in this thread, and NumericError names the first op with a non-finite result.
  StepLoss backward(std::size_t samples, std::uint64_t seed, std::uint32_t step,
                    FunctionRef<ShardLoss(std::size_t first, std::size_t last)> loss, bool finds_anomaly = false);

 private:
  // The sum of the gradients of `shards` consecutive shards; 0: there is none yet.
  struct Sum {
    real* block = nullptr;
    std::size_t shards = 0;
  };

  struct Step;  // what a call of backward() was given

  // What was thrown in this rank, if anything.
  struct Failure {
    std::exception_ptr error;
    std::string text;
  };

  std::vector<std::size_t> cuts(std::size_t samples) const;
  void prepare(std::size_t shards);
  void make_tapes();
  Failure run_own_shards(const Step& step);
  void run_shard(const Step& step, std::size_t shard);
  real* take_block();
  void climb(std::size_t shard, real* block);
  void clear_gradients();

  void share_losses(const std::string& error);
  void copy_buffers();
  void add_ranks();
  std::span<real> part_of(real* block, int rank) const;
  std::vector<Sum> exchange_parts();
  void add_parts(const std::vector<Sum>& parts);
  void send_result();

  Parameters* parameters_;
  std::size_t shards_, rounds_;
  std::mutex mutex_;                          // guards the next three
  std::vector<Memory> gradients_;             // blocks beside the parameters' own, which the first shard uses
  std::vector<real*> free_;                   // blocks that hold no sum; all zeros
  std::vector<Sum> sums_;                     // indexed by the first shard of each
  std::vector<StepLoss> losses_;              // of each shard
  std::vector<std::unique_ptr<Tape>> tapes_;  // one for each thread
  Memory received_;                           // from other ranks
};

}  // namespace SEPPO_ABI
}  // namespace seppo
