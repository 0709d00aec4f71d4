// Sampler: draws the order of an epoch when its first batch is needed, or computes each batch by itself.
#include "sampler.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/random.h"
#include "permutation.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// The first `count` numbers of a random permutation of 0 .. n - 1 (Fisher and Yates), in memory proportional to
// `count`: of the other positions, only those whose number has moved are stored.
std::vector<int> first_of_permutation(std::size_t count, std::size_t n, RandomStream random) {
  std::vector<int> first;
  std::unordered_map<std::size_t, std::size_t> moved;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t chosen = i + random.below(static_cast<std::uint32_t>(n - i));
    std::size_t& there = moved.try_emplace(chosen, chosen).first->second;
    first.push_back(static_cast<int>(there));
    const auto found = moved.find(i);
    there = found == moved.end() ? i : found->second;
  }
  return first;
}

constexpr std::size_t kPool = 50;  // batches that are sorted together
constexpr std::size_t kFew = 16;   // one in 16 examples is few: each stored number takes some 50 bytes
constexpr std::size_t kMostStored = std::size_t{1} << 27;  // examples, 4 bytes each

}  // namespace

Sampler::Sampler(std::size_t examples, const SamplerConfig& config, std::vector<int> lengths)
    : config_(config), lengths_(std::move(lengths)), examples_(examples) {
  check_config("sampler", config);
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  check<ArgumentError>(examples > 0 && examples <= kMost, "sampler: ", examples, " examples are not in 1..", kMost);
  check(lengths_.empty() || lengths_.size() == examples, "sampler: ", lengths_.size(), " lengths for ", examples,
        " examples");
  batch_ = std::min(static_cast<std::size_t>(config.batch_size), examples);
  batches_ = static_cast<std::int64_t>(examples / batch_);
  if (config.batch_tokens > 0) cut_by_tokens();
  if (config.epoch_steps > 0) batches_ = std::min<std::int64_t>(batches_, config.epoch_steps);
  takes_few_ = lengths_.empty() && static_cast<std::size_t>(batches_) * batch_ <= examples / kFew;
  computes_ = config.in_order || (lengths_.empty() && !takes_few_ && examples > kMostStored);
}

std::span<const int> Sampler::next() {
  const std::int64_t epoch = drawn_ / batches_ + 1, batch = drawn_ % batches_;
  if (computes_) {
    compute_batch(epoch, batch);
    ++drawn_;
    return order_;
  }
  if (epoch != order_epoch_) draw_order(epoch);
  ++drawn_;
  auto place = static_cast<std::size_t>(batch);
  if (!places_.empty()) place = static_cast<std::size_t>(places_[place]);
  if (cuts_.empty()) return std::span(order_).subspan(place * batch_, batch_);
  return std::span(order_).subspan(cuts_[place], cuts_[place + 1] - cuts_[place]);
}

// The cuts are those of every epoch: they depend on the sorted lengths alone.
void Sampler::cut_by_tokens() {
  check<ArgumentError>(!lengths_.empty(), "sampler: batch_tokens needs the lengths of the examples");
  std::vector<int> sorted = lengths_;
  std::ranges::sort(sorted);
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    tokens += sorted[i];
    if (i > 0 && tokens <= config_.batch_tokens) continue;
    cuts_.push_back(i);
    tokens = sorted[i];
  }
  batches_ = std::ssize(cuts_);
  cuts_.push_back(sorted.size());
}

void Sampler::seek(std::int64_t batches) {
  constexpr std::int64_t kLast = std::int64_t{1} << 62;
  check<ArgumentError>(batches >= 0 && batches <= kLast, "sampler: cannot seek to batch ", batches, ", not in 0..",
                       kLast);
  drawn_ = batches;
}

void Sampler::compute_batch(std::int64_t epoch, std::int64_t batch) {
  order_.resize(batch_);
  std::iota(order_.begin(), order_.end(), static_cast<int>(static_cast<std::size_t>(batch) * batch_));
  if (config_.in_order) return;
  const Permutation shuffled(static_cast<std::uint32_t>(examples_), config_.seed, Purpose::shuffle,
                             static_cast<std::uint64_t>(epoch));
  for (int& example : order_) example = static_cast<int>(shuffled(static_cast<std::uint32_t>(example)));
}

void Sampler::draw_order(std::int64_t epoch) {
  order_epoch_ = epoch;
  const auto stream = static_cast<std::uint64_t>(epoch);
  const RandomStream random(config_.seed, Purpose::shuffle, stream);
  if (takes_few_) {
    order_ = first_of_permutation(static_cast<std::size_t>(batches_) * batch_, examples_, random);
  } else {
    order_ = random_permutation(static_cast<int>(examples_), random);
  }
  if (lengths_.empty()) return;
  if (cuts_.empty()) {
    order_.resize(examples_ / batch_ * batch_);  // before sorting, or the longest would be left out each time
    sort_by_length(kPool * batch_);
  } else {
    sort_by_length(examples_);
  }
  const std::size_t batches = cuts_.empty() ? examples_ / batch_ : cuts_.size() - 1;
  places_ = random_permutation(static_cast<int>(batches),
                               {config_.seed, Purpose::shuffle, (std::uint64_t{1} << 32) + stream});
}

// Sorts so many examples at a time; those of equal length stay in their order.
void Sampler::sort_by_length(std::size_t pool) {
  const auto length = [&](int example) { return lengths_[static_cast<std::size_t>(example)]; };
  for (std::size_t first = 0; first < order_.size(); first += pool) {
    const auto some = std::span(order_).subspan(first, std::min(pool, order_.size() - first));
    std::ranges::stable_sort(some, {}, length);
  }
}

}  // namespace SEPPO_ABI
}  // namespace seppo
