// DataParallel: shards as tasks, then their gradient blocks added in place.
#include "data_parallel.h"

#include "../../autograd/core/parallel.h"
#include "../../autograd/kernels/kernels.h"
#include "../../autograd/tools/observers.h"

#include <algorithm>
#include <numeric>
#include <optional>

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

std::size_t DataParallel::cut(std::size_t samples, std::size_t shard) const {
  return (samples * cuts_[shard] + cuts_.back() - 1) / cuts_.back();
}

std::vector<std::size_t> DataParallel::shard_sizes(std::size_t samples) const {
  std::vector<std::size_t> sizes;
  for (std::size_t shard = 0; shard + 1 < cuts_.size(); ++shard)
    sizes.push_back(cut(samples, shard + 1) - cut(samples, shard));
  return sizes;
}

StepLoss DataParallel::backward(std::size_t samples, std::uint64_t seed, std::uint32_t step,
                                FunctionRef<ShardLoss(std::size_t, std::size_t)> loss, bool finds_anomaly) {
  const std::span<real> gradients = parameters_->gradients();
  for (Memory& block : gradients_)
    if (block.size() != gradients.size_bytes()) block = Memory(gradients.size_bytes());
  while (tapes_.size() < static_cast<std::size_t>(num_threads())) tapes_.push_back(std::make_unique<Tape>());
  std::size_t shards = 0;  // that have samples
  while (cut(samples, shards) < samples) ++shards;

  const auto run_shard = [&](std::size_t shard) {
    const std::size_t first = cut(samples, shard), last = cut(samples, shard + 1);
    losses_[shard] = {};
    if (first == last) return;
    const FlushDenormals flush;
    Tape& t = *tapes_[static_cast<std::size_t>(thread_index())];
    const UseTape use(t);
    FindAnomaly finder;
    std::optional<Observe> scope;
    if (finds_anomaly) scope.emplace(finder);
    t.clear();
    t.mode = Mode::train;
    t.redirect_gradients(gradients, shard == 0 ? gradients.data() : gradients_[shard - 1].as<real>());
    t.random = {seed, step, static_cast<std::uint32_t>(first), 0};
    const ShardLoss result = loss(first, last);
    losses_[shard] = {static_cast<double>(result.loss.item()), result.count, result.correct};
    t.backward(result.loss);
  };
  try {
    if (finds_anomaly)
      for (std::size_t shard = 0; shard < shards; ++shard) run_shard(shard);
    else
      run_tasks(shards, run_shard);
  } catch (...) {  // leave no partial gradient behind
    parameters_->zero_gradients();
    for (Memory& block : gradients_) std::fill_n(block.as<real>(), gradients.size(), real{0});
    throw;
  }
  add_gradients(shards);

  StepLoss total;
  for (const StepLoss& shard : std::span(losses_).first(shards)) total += shard;
  return total;
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
