#include <seppo/nn/data_parallel.h>

#include <seppo/autograd/parallel.h>

#include <algorithm>

namespace seppo::inline SEPPO_ABI {

DataParallel::DataParallel(Parameters& parameters, std::size_t shards)
    : parameters_(&parameters),
      shards_(shards > 0                        ? shards
              : parameters.count() <= 1'000'000 ? 4
                                                : 2) {
  check<ArgumentError>(shards <= 64, "data parallel: ", shards, " shards are not in 1..64");
  gradients_.resize(shards_ - 1);
  losses_.resize(shards_);
}

StepLoss DataParallel::backward(std::size_t samples, std::uint64_t seed, std::uint32_t step,
                                FunctionRef<ShardLoss(std::size_t, std::size_t)> loss) {
  const std::size_t shards = std::min(shards_, samples);
  const std::span<real> gradients = parameters_->gradients();
  for (Memory& block : gradients_)
    if (block.size() != gradients.size_bytes()) block = Memory(gradients.size_bytes());
  while (tapes_.size() < static_cast<std::size_t>(num_threads())) tapes_.push_back(std::make_unique<Tape>());

  const auto run_shard = [&](std::size_t shard) {
    const FlushDenormals flush;
    Tape& t = *tapes_[static_cast<std::size_t>(thread_index())];
    const UseTape use(t);
    t.clear();
    t.mode = Mode::train;
    t.redirect_gradients(gradients, shard == 0 ? gradients.data() : gradients_[shard - 1].as<real>());
    const std::size_t first = samples * shard / shards, last = samples * (shard + 1) / shards;
    t.random = {seed, step, static_cast<std::uint32_t>(first), 0};
    const ShardLoss result = loss(first, last);
    losses_[shard] = {static_cast<double>(result.loss.item()), result.count, result.correct};
    t.backward_and_clear(result.loss);
  };
  try {
    run_tasks(shards, run_shard);
  } catch (...) {  // leave no half of a gradient behind
    parameters_->zero_gradients();
    for (Memory& block : gradients_) std::fill_n(block.as<real>(), gradients.size(), real{0});
    throw;
  }
  add_gradients(shards);

  StepLoss total;
  for (std::size_t shard = 0; shard < shards; ++shard) {
    total.loss += losses_[shard].loss;
    total.count += losses_[shard].count;
    total.correct += losses_[shard].correct;
  }
  return total;
}

// Shard s adds shard s + 1, then s + 2, s + 4 ...: a tree that depends on the number of shards alone.
void DataParallel::add_gradients(std::size_t shards) {
  const std::span<real> gradients = parameters_->gradients();
  const auto block = [&](std::size_t shard) {
    return shard == 0 ? gradients.data() : gradients_[shard - 1].as<real>();
  };
  constexpr std::size_t kGrain = std::size_t{1} << 13;
  parallel_for(0, gradients.size(), kGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t stride = 1; stride < shards; stride *= 2)
      for (std::size_t shard = 0; shard + stride < shards; shard += 2 * stride) {
        real* const to = block(shard);
        real* const from = block(shard + stride);
        for (std::size_t i = begin; i < end; ++i) to[i] += from[i];
        std::fill(from + begin, from + end, real{0});
      }
  });
}

}  // namespace seppo::inline SEPPO_ABI
