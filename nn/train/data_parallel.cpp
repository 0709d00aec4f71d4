// DataParallel: shards as tasks, and the tree of their gradients.
#include "data_parallel.h"

#include "../../autograd/core/flush_denormals.h"
#include "../../autograd/core/memory.h"
#include "../../autograd/core/parallel.h"
#include "../../autograd/kernels/kernels.h"
#include "../../autograd/tools/anomaly.h"
#include "ranks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// The bounds of the shards, as fractions of the last number. In small models the last shard of each half is smaller, so
// that threads finish together and two ranks have equal work.
std::vector<std::size_t> default_fractions(std::size_t parameters, std::size_t samples) {
  constexpr std::size_t kSamples = 32;  // enough to pay for a shard in any model
  std::vector<std::size_t> least = {0, 1, 2};
  if (parameters <= 1'000'000) least = {0, 1, 2, 3, 4};
  if (parameters <= 250'000) least = {0, 3, 6, 8, 11, 14, 16};
  if (samples / kSamples < least.size()) return least;
  least.resize(samples / kSamples + 1);
  std::iota(least.begin(), least.end(), std::size_t{0});
  return least;
}

// sum += term; term = 0, in pieces that fit into the L1 cache
void move_gradients(real* sum, real* term, std::size_t n) {
  parallel_for(0, n, std::size_t{1} << 12, [&](std::size_t first, std::size_t last) {
    kernels::axpy(sum + first, 1, term + first, 1, last - first);
    std::fill(term + first, term + last, real{0});
  });
}

// Makes the additions that the tree still allows: calls f(left, right) for each, and updates the widths of the sums.
// From widths alone, a rank works out which sums the others have.
template <class Sums, class F>
void add_neighbours(Sums& sums, const F& f) {
  for (std::size_t width = 1; width < sums.size(); width *= 2)
    for (std::size_t left = 0; left < sums.size(); left += 2 * width) {
      const std::size_t right = left + width;
      if (sums[left].shards != width || (right < sums.size() && sums[right].shards != width)) continue;
      if (right < sums.size()) f(sums[left], sums[right]), sums[right] = {};
      sums[left].shards = 2 * width;
    }
}

std::size_t first_shard(std::size_t shards, int rank) {
  return shards * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks());
}

}  // namespace

ShardLoss mean_loss(const Tensor& mean, double count, double correct) {
  check<ArgumentError>(count > 0 && std::isfinite(count), "mean_loss: a mean over ", count,
                       " terms; their number must be positive and finite");
  return {mean * static_cast<real>(count), count, correct};
}

StepLoss numbers_of(const ShardLoss& shard) {
  check<ArgumentError>(shard.count >= 0 && std::isfinite(shard.count), "ShardLoss: count is ", shard.count,
                       "; a count must be positive and finite, or 0 where nothing counts");
  return {static_cast<double>(shard.loss.item()), shard.count, shard.correct};
}

DataParallel::DataParallel(Parameters& parameters, std::size_t shards, std::size_t rounds)
    : parameters_(&parameters), shards_(shards), rounds_(rounds) {
  check<ArgumentError>(shards <= 64, "data parallel: ", shards, " shards are not in 1..64");
  check<ArgumentError>(rounds >= 1 && rounds <= 1000, "data parallel: ", rounds, " rounds are not in 1..1000");
}

// The first sample of each shard that is not empty, and then the number of samples.
std::vector<std::size_t> DataParallel::cuts(std::size_t samples) const {
  std::vector<std::size_t> fractions(shards_ + 1);
  std::iota(fractions.begin(), fractions.end(), std::size_t{0});
  if (shards_ == 0) fractions = default_fractions(parameters_->count(), samples / rounds_);
  const std::size_t whole = rounds_ * fractions.back();
  std::vector<std::size_t> cuts;
  for (std::size_t round = 0; round < rounds_; ++round)
    for (const std::size_t fraction : fractions)
      cuts.push_back((samples * (round * fractions.back() + fraction) + whole - 1) / whole);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

std::vector<std::size_t> DataParallel::shard_sizes(std::size_t samples) const {
  std::vector<std::size_t> sizes = cuts(samples);
  std::adjacent_difference(sizes.begin(), sizes.end(), sizes.begin());
  sizes.erase(sizes.begin());
  return sizes;
}

StepLoss DataParallel::backward(std::size_t samples, std::uint64_t seed, std::uint32_t step,
                                FunctionRef<ShardLoss(std::size_t, std::size_t)> loss, bool finds_anomaly) {
  const Parameters::Fixed fixed(*parameters_, "during a training step");
  const std::span<real> gradients = parameters_->gradients();
  const std::vector<std::size_t> cuts = this->cuts(samples);
  const std::size_t shards = cuts.size() - 1, first = first_shard(shards, rank()),
                    last = first_shard(shards, rank() + 1);
  free_.clear();
  for (Memory& block : gradients_) {
    if (block.size() != gradients.size_bytes()) block = Memory(gradients.size_bytes());
    free_.push_back(block.as<real>());
  }
  while (tapes_.size() < static_cast<std::size_t>(num_threads())) tapes_.push_back(std::make_unique<Tape>());
  losses_.assign(shards, {});
  sums_.assign(shards, {});

  const auto run_shard = [&](std::size_t shard) {
    const FlushDenormals flush;
    Tape& t = *tapes_[static_cast<std::size_t>(thread_index())];
    const UseTape use(t);
    FindAnomaly finder;
    std::optional<Observe> scope;
    if (finds_anomaly) scope.emplace(finder);
    real* const block = shard == first ? gradients.data() : take_block();
    t.clear();
    t.mode = Mode::train;
    t.redirect_gradients(gradients, block);
    t.random = {seed, step, static_cast<std::uint32_t>(cuts[shard]), 0};
    const ShardLoss result = [&] {
      const NoBackward guard;
      return loss(cuts[shard], cuts[shard + 1]);
    }();
    losses_[shard] = numbers_of(result);
    t.backward(result.loss);
    climb(shard, block);
  };
  try {
    std::exception_ptr error;
    std::string text;
    try {
      if (finds_anomaly)
        for (std::size_t shard = first; shard < last; ++shard) run_shard(shard);
      else
        run_tasks(last - first, [&](std::size_t task) { run_shard(first + task); });
    } catch (const std::exception& e) {
      error = std::current_exception(), text = concat_text("rank ", rank(), ": ", e.what());
    } catch (...) {
      error = std::current_exception(), text = concat_text("rank ", rank(), ": an exception of an unknown type");
    }
    if (ranks() > 1) share_losses(text);
    if (error) std::rethrow_exception(error);
    if (ranks() > 1 && shards > 0) add_ranks();
  } catch (...) {  // leave no partial gradient behind
    parameters_->zero_gradients();
    for (Memory& block : gradients_) std::fill_n(block.as<real>(), gradients.size(), real{0});
    throw;
  }

  StepLoss total;
  for (const StepLoss& shard : losses_) total += shard;
  return total;
}

// The free block used last, which is the likeliest to be cached.
real* DataParallel::take_block() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return gradients_.emplace_back(parameters_->gradients().size_bytes()).as<real>();
  real* const block = free_.back();
  free_.pop_back();
  return block;
}

// Two neighbouring sums of `width` shards (the last may have fewer) make one of twice the width. A thread climbs the
// tree as long as the neighbour is there; otherwise the thread that computes the neighbour climbs on.
void DataParallel::climb(std::size_t shard, real* block) {
  for (std::size_t width = 1;; width *= 2) {
    const std::size_t left = shard / (2 * width) * (2 * width), right = left + width;
    real* term = nullptr;
    {
      const std::lock_guard lock(mutex_);
      sums_[shard] = {block, width};
      if (width >= sums_.size()) return;
      if (right >= sums_.size()) continue;
      if (sums_[shard == left ? right : left].shards != width) return;
      block = sums_[left].block;
      term = std::exchange(sums_[right], {}).block;
      shard = left;
    }
    move_gradients(block, term, parameters_->gradients().size());
    const std::lock_guard lock(mutex_);
    free_.push_back(term);
  }
}

// Adds the losses of other ranks' shards. An `error` in one rank ends the step in all.
void DataParallel::share_losses(const std::string& error) {
  std::vector<double> numbers;
  for (const StepLoss& shard : losses_) numbers.insert(numbers.end(), {shard.loss, shard.count, shard.correct});
  numbers.push_back(error.empty() ? 0 : 1);
  add_over_ranks(numbers);
  for (std::size_t shard = 0; shard < losses_.size(); ++shard)
    losses_[shard] = {numbers[3 * shard], numbers[3 * shard + 1], numbers[3 * shard + 2]};
  if (numbers.back() == 0) return;
  for (const std::string& theirs : gather_over_ranks(error))
    check<StateError>(!error.empty() || theirs.empty(), theirs);
}

// Each rank receives its part of the sums that all ranks' trees have left, adds them up, and sends the result to all
// (reduce-scatter and all-gather). If each tree leaves one sum, a rank sends and receives 2 (ranks - 1) / ranks of the
// gradients, which is optimal (Patarasuk and Yuan 2009).
void DataParallel::add_ranks() {
  const std::span<real> gradients = parameters_->gradients();
  const std::size_t shards = sums_.size();
  const auto part = [&](int of) {
    return gradients.size() * static_cast<std::size_t>(of) / static_cast<std::size_t>(ranks());
  };
  const std::size_t begin = part(rank()), size = part(rank() + 1) - begin;

  std::vector<Sum> sums(shards);  // this rank's part of all ranks' sums
  std::vector<RankMessage> sent, received;
  for (int other = 0; other < ranks(); ++other) {
    std::vector<Sum> theirs(shards);
    for (std::size_t shard = first_shard(shards, other); shard < first_shard(shards, other + 1); ++shard)
      theirs[shard].shards = 1;
    add_neighbours(theirs, [](Sum&, Sum&) {});
    for (std::size_t shard = 0; shard < shards; ++shard) {
      if (theirs[shard].shards == 0) continue;
      sums[shard] = {other == rank() ? sums_[shard].block + begin : nullptr, theirs[shard].shards};
      if (other != rank()) received.push_back({other, &sums[shard], size * sizeof(real)});
      for (int to = 0; other == rank() && to < ranks(); ++to)
        if (to != rank()) sent.push_back({to, sums_[shard].block + part(to), (part(to + 1) - part(to)) * sizeof(real)});
    }
  }
  real* buffer = at_least(received_, received.size() * size * sizeof(real)).as<real>();
  for (RankMessage& message : received) {
    message.data = static_cast<Sum*>(message.data)->block = buffer;
    buffer += size;
  }
  swap_messages(sent, received);

  std::vector<std::pair<real*, const real*>> additions;
  add_neighbours(sums, [&](Sum& left, Sum& right) { additions.emplace_back(left.block, right.block); });
  real* const sum = gradients.data() + begin;
  parallel_for(0, size, std::size_t{1} << 13, [&](std::size_t from, std::size_t to) {
    for (const auto& [left, right] : additions) kernels::axpy(left + from, 1, right + from, 1, to - from);
    if (sums[0].block != sum) std::copy(sums[0].block + from, sums[0].block + to, sum + from);
  });

  sent.clear(), received.clear();
  for (int other = 0; other < ranks(); ++other) {
    if (other == rank()) continue;
    sent.push_back({other, sum, size * sizeof(real)});
    received.push_back({other, gradients.data() + part(other), (part(other + 1) - part(other)) * sizeof(real)});
  }
  swap_messages(sent, received);
  for (const Sum& own : sums_)
    if (own.block && own.block != gradients.data()) std::fill_n(own.block, gradients.size(), real{0});
}

}  // namespace SEPPO_ABI
}  // namespace seppo
