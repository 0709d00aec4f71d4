// DataParallel: shards as tasks, then their gradient blocks added in place.
#include "data_parallel.h"

#include "../../autograd/core/parallel.h"
#include "../../autograd/kernels/kernels.h"
#include "../../autograd/tools/anomaly.h"

#include <algorithm>
#include <numeric>

namespace seppo::inline SEPPO_ABI {
namespace {

// Where the batch is cut, as fractions of the last number. The smaller the model, the less a shard costs; for the
// smallest models the last two are half as large, so that threads of unequal speed finish together (guided
// self-scheduling, Polychronopoulos and Kuck 1987).
std::vector<std::size_t> default_cuts(std::size_t parameters) {
  if (parameters <= 250'000) return {0, 2, 4, 6, 7, 8};
  if (parameters <= 1'000'000) return {0, 1, 2, 3, 4};
  return {0, 1, 2};
}

}  // namespace

DataParallel::DataParallel(Parameters& parameters, std::size_t shards) : parameters_(&parameters), cuts_(shards + 1) {
  check<ArgumentError>(shards <= 64, "data parallel: ", shards, " shards are not in 1..64");
  std::iota(cuts_.begin(), cuts_.end(), std::size_t{0});
  if (shards == 0) cuts_ = default_cuts(parameters.count());
  losses_.resize(cuts_.size() - 1);
  gradients_.resize(losses_.size() - 1);
}

struct DataParallel::Batch {
  std::size_t samples;
  std::uint64_t seed;
  std::uint32_t step;
  FunctionRef<ShardLoss(std::size_t, std::size_t)> loss;
};

std::size_t DataParallel::cut(std::size_t samples, std::size_t shard) const {
  return (samples * cuts_[shard] + cuts_.back() - 1) / cuts_.back();
}

std::vector<std::size_t> DataParallel::shard_sizes(std::size_t samples) const {
  std::vector<std::size_t> sizes;
  for (std::size_t shard = 0; shard + 1 < cuts_.size(); ++shard)
    sizes.push_back(cut(samples, shard + 1) - cut(samples, shard));
  return sizes;
}

// Makes blocks and tapes; returns how many shards have samples.
std::size_t DataParallel::prepare(const Batch& batch) {
  const std::size_t bytes = parameters_->gradients().size_bytes();
  for (Memory& block : gradients_)
    if (block.size() != bytes) block = Memory(bytes);
  while (tapes_.size() < static_cast<std::size_t>(num_threads())) tapes_.push_back(std::make_unique<Tape>());
  std::size_t shards = 0;
  while (cut(batch.samples, shards) < batch.samples) ++shards;
  return shards;
}

void DataParallel::run_shard(const Batch& batch, std::size_t shard) {
  const std::size_t first = cut(batch.samples, shard), last = cut(batch.samples, shard + 1);
  losses_[shard] = {};
  if (first == last) return;
  const std::span<real> gradients = parameters_->gradients();
  const FlushDenormals flush;
  Tape& t = *tapes_[static_cast<std::size_t>(thread_index())];
  const UseTape use(t);
  t.clear();
  t.mode = Mode::train;
  t.redirect_gradients(gradients, shard == 0 ? gradients.data() : gradients_[shard - 1].as<real>());
  t.random = {batch.seed, batch.step, static_cast<std::uint32_t>(first), 0};
  const ShardLoss result = batch.loss(first, last);
  losses_[shard] = {static_cast<double>(result.loss.item()), result.count, result.correct};
  t.backward(result.loss);
}

StepLoss DataParallel::backward(std::size_t samples, std::uint64_t seed, std::uint32_t step,
                                FunctionRef<ShardLoss(std::size_t, std::size_t)> loss) {
  const Batch batch{samples, seed, step, loss};
  const std::size_t shards = prepare(batch);
  try {
    run_tasks(shards, [&](std::size_t shard) { run_shard(batch, shard); });
  } catch (...) {  // leave no partial gradient behind
    zero_gradients();
    throw;
  }
  add_gradients(shards);

  StepLoss total;
  for (const StepLoss& shard : std::span(losses_).first(shards)) total += shard;
  return total;
}

void DataParallel::find_anomaly(std::size_t samples, std::uint64_t seed, std::uint32_t step,
                                FunctionRef<ShardLoss(std::size_t, std::size_t)> loss) {
  const Batch batch{samples, seed, step, loss};
  const std::size_t shards = prepare(batch);
  try {
    for (std::size_t shard = 0; shard < shards; ++shard) {
      FindAnomaly finder;
      const UseTape use(*tapes_[static_cast<std::size_t>(thread_index())]);
      const Observe scope(finder);
      run_shard(batch, shard);
    }
  } catch (...) {
    zero_gradients();
    throw;
  }
  zero_gradients();
}

void DataParallel::zero_gradients() {
  parameters_->zero_gradients();
  for (Memory& block : gradients_) std::fill_n(block.as<real>(), parameters_->gradients().size(), real{0});
}

// Shard s adds shard s + 1, then s + 2, s + 4 ...: a tree that depends on the number of shards alone.
void DataParallel::add_gradients(std::size_t shards) {
  const std::span<real> gradients = parameters_->gradients();
  const auto block = [&](std::size_t shard) {
    return shard == 0 ? gradients.data() : gradients_[shard - 1].as<real>();
  };
  constexpr std::size_t kGrain = std::size_t{1} << 13;
  constexpr std::size_t kPiece = std::size_t{1} << 10;  // of all shards in the L1 cache
  parallel_for(0, gradients.size(), kGrain, [&](std::size_t first, std::size_t last) {
    for (std::size_t begin = first; begin < last; begin += kPiece) {
      const std::size_t n = std::min(kPiece, last - begin);
      for (std::size_t stride = 1; stride < shards; stride *= 2)
        for (std::size_t shard = 0; shard + stride < shards; shard += 2 * stride) {
          real* const from = block(shard + stride) + begin;
          kernels::axpy(block(shard) + begin, 1, from, 1, n);
          std::fill_n(from, n, real{0});
        }
    }
  });
}

}  // namespace seppo::inline SEPPO_ABI
