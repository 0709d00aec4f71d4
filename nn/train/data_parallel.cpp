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
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// The bounds of the shards, as fractions of the last number, of batches too small for a shard of 32 samples each.
constexpr std::size_t kTwoShards[] = {0, 1, 2};
constexpr std::size_t kFourShards[] = {0, 1, 2, 3, 4};
// In a small model the last shard of each half is smaller,
// so that threads finish together, while two ranks have equal work: in sixteenths, a rank has 3, 3 and 2. Cut into 3,
// 3, 3, 3, 2 and 2, so that the first of two ranks has 9, a step of J1 (tests/bench) took 1.14 times as long on two
// ranks as on two threads; cut so, 1.06 times.
constexpr std::size_t kSixShards[] = {0, 3, 6, 8, 11, 14, 16};

std::vector<std::size_t> equal_shards(std::size_t shards) {
  std::vector<std::size_t> fractions(shards + 1);
  std::iota(fractions.begin(), fractions.end(), std::size_t{0});
  return fractions;
}

std::span<const std::size_t> fewest_shards(std::size_t parameters) {
  if (parameters <= 250'000) return kSixShards;
  if (parameters <= 1'000'000) return kFourShards;
  return kTwoShards;
}

std::vector<std::size_t> default_shards(std::size_t parameters, std::size_t samples) {
  constexpr std::size_t kSamples = 32;  // enough to pay for a shard in any model
  const std::size_t shards = samples / kSamples;
  const std::span<const std::size_t> fewest = fewest_shards(parameters);
  if (shards >= fewest.size()) return equal_shards(shards);
  return {fewest.begin(), fewest.end()};
}

// sum += term; term = 0, in pieces that fit into the L1 cache
void move_gradients(std::span<const Parameters::Run> runs, real* sum, real* term) {
  for (const auto& [begin, end] : runs)
    parallel_for(begin, end, std::size_t{1} << 12, [&](std::size_t first, std::size_t last) {
      kernels::axpy(sum + first, 1, term + first, 1, last - first);
      std::fill(term + first, term + last, real{0});
    });
}

void clear(std::span<const Parameters::Run> runs, real* block) {
  for (const auto& [begin, end] : runs) std::fill(block + begin, block + end, real{0});
}

// Makes the additions that the tree still allows, given of how many shards each sum is (0: there is no sum). Returns
// them in order, and updates the widths.
std::vector<std::pair<std::size_t, std::size_t>> add_neighbours(std::vector<std::size_t>& widths) {
  std::vector<std::pair<std::size_t, std::size_t>> additions;
  for (std::size_t width = 1; width < widths.size(); width *= 2)
    for (std::size_t left = 0; left < widths.size(); left += 2 * width) {
      const std::size_t right = left + width;
      const bool has_right = right < widths.size();
      if (widths[left] != width || (has_right && widths[right] != width)) continue;
      if (has_right) {
        additions.push_back({left, right});
        widths[right] = 0;
      }
      widths[left] = 2 * width;
    }
  return additions;
}

// Where the share of a rank begins, of n things that the ranks divide.
std::size_t share_begin(std::size_t n, int rank) {
  return n * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks());
}

std::vector<int> other_ranks() {
  std::vector<int> others;
  for (int other = 0; other < ranks(); ++other)
    if (other != rank()) others.push_back(other);
  return others;
}

RankMessage message(int rank, std::span<real> data) { return {rank, data.data(), data.size_bytes()}; }

// A sum that the tree of a rank has left.
struct RankSum {
  int rank;
  std::size_t shard;   // the first
  std::size_t shards;  // how many
};

// The sums of all ranks. Each rank works out which ones the others have.
std::vector<RankSum> sums_of_ranks(std::size_t shards) {
  std::vector<RankSum> sums;
  for (int rank = 0; rank < ranks(); ++rank) {
    std::vector<std::size_t> widths(shards);
    for (std::size_t shard = share_begin(shards, rank); shard < share_begin(shards, rank + 1); ++shard)
      widths[shard] = 1;
    add_neighbours(widths);
    for (std::size_t shard = 0; shard < shards; ++shard)
      if (widths[shard] > 0) sums.push_back({rank, shard, widths[shard]});
  }
  return sums;
}

bool is_mean(const Tensor& loss) {
  const char* const op = loss.node().op;
  return op != nullptr && std::string_view(op) == "mean";
}

}  // namespace

ShardLoss mean_loss(const Tensor& mean, AnyNumber count, AnyNumber correct) {
  check<ArgumentError>(count > 0 && std::isfinite(count), "mean_loss: a mean over ", count.value,
                       " terms; their number must be positive and finite");
  return {mean * static_cast<real>(count.value), count, correct};
}

StepLoss numbers_of(const ShardLoss& shard) {
  check<ArgumentError>(shard.count >= 0 && std::isfinite(shard.count), "ShardLoss: count is ", shard.count.value,
                       "; a count must be positive and finite, or 0 where nothing counts");
  check<ArgumentError>(shard.count <= 1 || !is_mean(shard.loss), "ShardLoss: the loss is a mean, but its count is ",
                       shard.count.value, ": give the sum, or mean_loss(loss, count)");
  return {shard.loss.item(), shard.count, shard.correct};
}

DataParallel::DataParallel(Parameters& parameters, std::size_t shards, std::size_t rounds)
    : parameters_(&parameters), shards_(shards), rounds_(rounds) {
  check<ArgumentError>(shards <= 64, "data parallel: ", shards, " shards are not in 1..64");
  check<ArgumentError>(rounds >= 1 && rounds <= 1000, "data parallel: ", rounds, " rounds are not in 1..1000");
}

// The first sample of each shard that is not empty, and then the number of samples.
std::vector<std::size_t> DataParallel::cuts(std::size_t samples) const {
  const std::vector<std::size_t> fractions =
      shards_ > 0 ? equal_shards(shards_) : default_shards(parameters_->count(), samples / rounds_);
  const std::size_t in_a_round = fractions.back();
  const std::size_t whole = rounds_ * in_a_round;
  std::vector<std::size_t> cuts;
  for (std::size_t round = 0; round < rounds_; ++round)
    for (const std::size_t fraction : fractions)
      cuts.push_back((samples * (round * in_a_round + fraction) + whole - 1) / whole);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

std::vector<std::size_t> DataParallel::shard_sizes(std::size_t samples) const {
  std::vector<std::size_t> sizes = cuts(samples);
  std::adjacent_difference(sizes.begin(), sizes.end(), sizes.begin());
  sizes.erase(sizes.begin());
  return sizes;
}

// What a call of backward() was given.
struct DataParallel::Step {
  std::vector<std::size_t> cuts;
  std::uint64_t seed;
  std::uint32_t number;
  FunctionRef<ShardLoss(std::size_t first, std::size_t last)> loss;
  bool finds_anomaly;

  std::size_t shards() const { return cuts.size() - 1; }
  std::size_t first_shard() const { return share_begin(shards(), rank()); }     // of this rank
  std::size_t last_shard() const { return share_begin(shards(), rank() + 1); }  // exclusive
};

StepLoss DataParallel::backward(std::size_t samples, std::uint64_t seed, std::uint32_t step,
                                FunctionRef<ShardLoss(std::size_t, std::size_t)> loss, bool finds_anomaly) {
  const Parameters::Fixed fixed(*parameters_, "during a training step");
  const Step now{cuts(samples), seed, step, loss, finds_anomaly};
  prepare(now.shards());
  try {
    const Failure failure = run_own_shards(now);
    if (ranks() > 1) share_losses(failure.text);
    if (failure.error) std::rethrow_exception(failure.error);
    if (ranks() > 1 && now.shards() > 0) add_ranks();
    if (ranks() > 1 && now.shards() == 1) copy_buffers();
  } catch (...) {
    clear_gradients();
    throw;
  }
  StepLoss total;
  for (const StepLoss& shard : losses_) total += shard;
  return total;
}

void DataParallel::prepare(std::size_t shards) {
  const std::size_t bytes = parameters_->gradients().size_bytes();
  free_.clear();
  for (Memory& block : gradients_) {
    if (block.size() != bytes) block = Memory(bytes);
    free_.push_back(block.as<real>());
  }
  make_tapes();
  losses_.assign(shards, {});
  sums_.assign(shards, {});
}

void DataParallel::make_tapes() {
  while (tapes_.size() < static_cast<std::size_t>(num_threads())) tapes_.push_back(std::make_unique<Tape>());
}

std::span<const std::unique_ptr<Tape>> DataParallel::tapes() {
  make_tapes();
  for (const std::unique_ptr<Tape>& tape : tapes_) {
    tape->clear();
    tape->sees_a_part = false;
  }
  return tapes_;
}

DataParallel::Failure DataParallel::run_own_shards(const Step& step) {
  const std::size_t first = step.first_shard();
  const std::size_t last = step.last_shard();
  try {
    if (step.finds_anomaly)
      for (std::size_t shard = first; shard < last; ++shard) run_shard(step, shard);
    else
      run_tasks(last - first, [&](std::size_t task) { run_shard(step, first + task); });
    return {};
  } catch (const std::exception& e) {
    return {std::current_exception(), concat_text("rank ", rank(), ": ", e.what())};
  } catch (...) {
    return {std::current_exception(), concat_text("rank ", rank(), ": an exception of an unknown type")};
  }
}

void DataParallel::run_shard(const Step& step, std::size_t shard) {
  const FlushDenormals flush;
  Tape& t = *tapes_[static_cast<std::size_t>(thread_index())];
  const UseTape use(t);
  FindAnomaly finder;
  std::optional<Observe> scope;
  if (step.finds_anomaly) scope.emplace(finder);
  const std::span<real> gradients = parameters_->gradients();
  real* const block = shard == step.first_shard() ? gradients.data() : take_block();
  const std::size_t first = step.cuts[shard];
  const std::size_t last = step.cuts[shard + 1];
  t.clear();
  t.mode = Mode::train;
  t.sees_a_part = step.shards() > 1;
  t.redirect_gradients(gradients, block);
  t.random = {step.seed, step.number, static_cast<std::uint32_t>(first), 0};
  const ShardLoss result = [&] {
    const NoBackward guard;
    return step.loss(first, last);
  }();
  losses_[shard] = numbers_of(result);
  t.backward(result.loss);
  climb(shard, block);
}

// Leaves no part of a gradient behind.
void DataParallel::clear_gradients() {
  parameters_->zero_gradients();
  for (Memory& block : gradients_) clear(parameters_->trained_runs(), block.as<real>());
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
    const std::size_t left = shard / (2 * width) * (2 * width);
    const std::size_t right = left + width;
    real* term = nullptr;
    {
      const std::lock_guard lock(mutex_);
      sums_[shard] = {block, width};
      if (width >= sums_.size()) return;
      if (right >= sums_.size()) continue;
      const std::size_t neighbour = shard == left ? right : left;
      if (sums_[neighbour].shards != width) return;
      block = sums_[left].block;
      term = std::exchange(sums_[right], {}).block;
      shard = left;
    }
    move_gradients(parameters_->trained_runs(), block, term);
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
  add_parts(exchange_parts());
  send_result();
  const std::span<real> gradients = parameters_->gradients();
  for (const Sum& own : sums_)
    if (own.block && own.block != gradients.data()) clear(parameters_->trained_runs(), own.block);
}

// The forward pass of a single shard may change buffers, such as running statistics: its rank, the last one, sends
// them.
void DataParallel::copy_buffers() {
  const int owner = ranks() - 1;  // share_begin(1, rank) is 0 for all ranks
  std::vector<RankMessage> sent, received;
  for (const Parameters::Entry& entry : parameters_->entries()) {
    if (!entry.is_buffer) continue;
    void* const values = entry.tensor.data();
    const std::size_t bytes = entry.size() * sizeof(real);
    if (rank() != owner) received.push_back({owner, values, bytes});
    for (int other = 0; rank() == owner && other < owner; ++other) sent.push_back({other, values, bytes});
  }
  swap_messages(sent, received);
}

// The part of a block of gradients that a rank adds up.
std::span<real> DataParallel::part_of(real* block, int rank) const {
  const std::size_t n = parameters_->gradients().size();
  const std::size_t begin = share_begin(n, rank);
  return {block + begin, share_begin(n, rank + 1) - begin};
}

// Sends the other ranks their parts of this rank's sums. Returns this rank's part of all sums, each at the index of its
// first shard.
std::vector<DataParallel::Sum> DataParallel::exchange_parts() {
  const std::vector<RankSum> sums = sums_of_ranks(sums_.size());
  const std::size_t size = part_of(parameters_->gradients().data(), rank()).size();
  const auto is_theirs = [](const RankSum& sum) { return sum.rank != rank(); };
  const auto theirs = static_cast<std::size_t>(std::ranges::count_if(sums, is_theirs));
  real* buffer = at_least(received_, theirs * size * sizeof(real)).as<real>();
  std::vector<Sum> parts(sums_.size());
  std::vector<RankMessage> sent, received;
  for (const RankSum& sum : sums) {
    if (is_theirs(sum)) {
      parts[sum.shard] = {buffer, sum.shards};
      received.push_back(message(sum.rank, {buffer, size}));
      buffer += size;
      continue;
    }
    real* const block = sums_[sum.shard].block;
    parts[sum.shard] = {part_of(block, rank()).data(), sum.shards};
    for (const int other : other_ranks()) sent.push_back(message(other, part_of(block, other)));
  }
  swap_messages(sent, received);
  return parts;
}

// Leaves this rank's part of the sum over all shards in the parameters' gradients.
void DataParallel::add_parts(const std::vector<Sum>& parts) {
  std::vector<std::size_t> widths;
  for (const Sum& part : parts) widths.push_back(part.shards);
  const auto additions = add_neighbours(widths);
  const real* const whole = parts[0].block;  // once these are made
  const std::span<real> sum = part_of(parameters_->gradients().data(), rank());
  parallel_for(0, sum.size(), std::size_t{1} << 13, [&](std::size_t from, std::size_t to) {
    for (const auto& [left, right] : additions)
      kernels::axpy(parts[left].block + from, 1, parts[right].block + from, 1, to - from);
    if (whole != sum.data()) std::copy(whole + from, whole + to, sum.data() + from);
  });
}

// Sends this rank's part of the gradients to the others, and receives theirs.
void DataParallel::send_result() {
  real* const gradients = parameters_->gradients().data();
  std::vector<RankMessage> sent, received;
  for (const int other : other_ranks()) {
    sent.push_back(message(other, part_of(gradients, rank())));
    received.push_back(message(other, part_of(gradients, other)));
  }
  swap_messages(sent, received);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
