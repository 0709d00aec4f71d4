// DataParallel: shards as tasks, then their gradient blocks added in place. Trainer: where a step's sums become means,
// and these a move of the parameters.
#include "trainer.h"

#include "../../autograd/core/parallel.h"
#include "../../autograd/kernels/kernels.h"
#include "../../autograd/ops.h"
#include "../../autograd/tools/observers.h"
#include "../data/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

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

// Of the metadata of a file that save() wrote.
constexpr const char* kSteps = "seppo.steps";
constexpr const char* kMoves = "seppo.moves";  // steps that were not skipped
constexpr int kMostSkipped = 100;

std::int64_t number_of(const SafeTensorsFile& file, const char* key) {
  const auto found = file.metadata().find(key);
  const std::string text = found == file.metadata().end() ? "" : found->second;
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  check<FormatError>(error == std::errc() && end == text.data() + text.size() && number >= 0, file.name(), ": ", key,
                     " '", printable(text), "' is not a number of steps: this is no checkpoint of a trainer");
  return number;
}

double count_correct(const Tensor& logits, List<int> targets) {
  const std::vector<int> best = argmax(logits);
  check(best.size() == targets.size(), "accuracy: logits ", logits, " have ", best.size(), " rows, targets are ",
        targets.size());
  return std::transform_reduce(best.begin(), best.end(), targets.begin(), 0.0, std::plus<>(), std::equal_to<>());
}

}  // namespace

DataParallel::DataParallel(Parameters& parameters, std::size_t shards, std::size_t rounds) : parameters_(&parameters) {
  check<ArgumentError>(shards <= 64, "data parallel: ", shards, " shards are not in 1..64");
  check<ArgumentError>(rounds >= 1 && rounds <= 1000, "data parallel: ", rounds, " rounds are not in 1..1000");
  std::vector<std::size_t> cuts(shards + 1);
  std::iota(cuts.begin(), cuts.end(), std::size_t{0});
  if (shards == 0) cuts = default_cuts(parameters.count());
  at_once_ = cuts.size() - 1;
  for (std::size_t shard = 0; shard <= rounds * at_once_; ++shard)
    cuts_.push_back(shard / at_once_ * cuts.back() + cuts[shard % at_once_]);
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
  free_.clear();
  for (Memory& block : gradients_) {
    if (block.size() != gradients.size_bytes()) block = Memory(gradients.size_bytes());
    free_.push_back(block.as<real>());
  }
  while (tapes_.size() < static_cast<std::size_t>(num_threads())) tapes_.push_back(std::make_unique<Tape>());
  std::size_t shards = 0;  // that have samples
  while (cut(samples, shards) < samples) ++shards;
  losses_.assign(shards, {});
  blocks_.assign(shards, gradients.data());

  const auto run_shard = [&](std::size_t shard) {
    const std::size_t first = cut(samples, shard), last = cut(samples, shard + 1);
    if (first == last) return;
    const FlushDenormals flush;
    Tape& t = *tapes_[static_cast<std::size_t>(thread_index())];
    const UseTape use(t);
    FindAnomaly finder;
    std::optional<Observe> scope;
    if (finds_anomaly) scope.emplace(finder);
    t.clear();
    t.mode = Mode::train;
    t.redirect_gradients(gradients, blocks_[shard]);
    t.random = {seed, step, static_cast<std::uint32_t>(first), 0};
    const ShardLoss result = loss(first, last);
    losses_[shard] = {static_cast<double>(result.loss.item()), result.count, result.correct};
    t.backward(result.loss);
  };
  try {
    for (std::size_t first = 0, last; first < shards; first = last) {
      last = std::min(shards, first + at_once_);
      for (std::size_t shard = std::max<std::size_t>(first, 1); shard < last; ++shard) blocks_[shard] = take_block();
      if (finds_anomaly)
        for (std::size_t shard = first; shard < last; ++shard) run_shard(shard);
      else
        run_tasks(last - first, [&](std::size_t task) { run_shard(first + task); });
      add_gradients(first, last);
    }
  } catch (...) {  // leave no partial gradient behind
    parameters_->zero_gradients();
    for (Memory& block : gradients_) std::fill_n(block.as<real>(), gradients.size(), real{0});
    throw;
  }

  StepLoss total;
  for (const StepLoss& shard : losses_) total += shard;
  return total;
}

real* DataParallel::take_block() {
  if (free_.empty()) free_.push_back(gradients_.emplace_back(parameters_->gradients().size_bytes()).as<real>());
  real* const block = free_.back();
  free_.pop_back();
  return block;
}

// Shard s adds shard s + 1, then s + 2, s + 4 ...: a tree that depends on the number of shards alone, of which this
// adds what shards first .. last - 1 complete.
void DataParallel::add_gradients(std::size_t first, std::size_t last) {
  const std::size_t shards = blocks_.size();
  std::vector<std::pair<real*, real*>> sums;
  for (std::size_t stride = 1; stride < shards; stride *= 2)
    for (std::size_t shard = 0; shard + stride < shards; shard += 2 * stride)
      if (const std::size_t end = std::min(shard + 2 * stride, shards); end > first && end <= last) {
        sums.emplace_back(blocks_[shard], blocks_[shard + stride]);
        free_.push_back(blocks_[shard + stride]);
      }
  constexpr std::size_t kGrain = std::size_t{1} << 13;
  constexpr std::size_t kPiece = std::size_t{1} << 10;  // of all shards in the L1 cache
  parallel_for(0, parameters_->gradients().size(), kGrain, [&](std::size_t from, std::size_t to) {
    for (std::size_t begin = from; begin < to; begin += kPiece)
      for (const auto& [sum, term] : sums) {
        const std::size_t n = std::min(kPiece, to - begin);
        kernels::axpy(sum + begin, 1, term + begin, 1, n);
        std::fill_n(term + begin, n, real{0});
      }
  });
}

void TrainerConfig::fields(ConfigVisitor& v) {
  v("lr", lr, {1e-12, 100}, "peak learning rate");
  v("min_lr", min_lr, {0, 100}, "learning rate at the end of a cosine or linear schedule");
  v("warmup_steps", warmup_steps, {0, 1e9}, "steps of linear warm-up to the peak");
  v("schedule", schedule, "course of the learning rate after warm-up; noam falls as 1 / sqrt(step)");
  adam.fields(v);
  v("clip_norm", clip_norm, {0, 1e9}, "gradient clipping norm; 0 turns it off");
  v("accumulate", accumulate, {1, 1000},
    "batches that make up one step, computed one after another in the memory of one");
  v("shards", shards, {0, 64}, "parts of a batch that threads share; 0 for 2 to 5, by the size of the model");
  v("on_nan", on_nan, "what to do where a loss or gradient is not finite");
  v("seed", seed, "random seed for initialisation, shuffling, dropout and generated data");
}

void TrainerConfig::validate() const {
  const char* name = enum_names(schedule)[static_cast<std::size_t>(schedule)];
  const bool is_falling = schedule == ScheduleKind::cosine || schedule == ScheduleKind::linear;
  check<ArgumentError>(min_lr <= lr, "trainer: min_lr ", min_lr, " is above lr ", lr);
  check<ArgumentError>(schedule != ScheduleKind::noam || warmup_steps > 0,
                       "trainer: the noam schedule needs warmup_steps of at least 1");
  check<ArgumentError>(!is_falling || steps > 0, "trainer: the ", name, " schedule needs steps, of the whole training");
}

Trainer::Trainer(Parameters& parameters, const TrainerConfig& config, const ParameterGroups& groups)
    : parameters_(&parameters),
      config_(check_config("trainer", config)),
      schedule_(make_schedule(config)),
      adam_(parameters, config.adam, groups),
      data_parallel_(parameters, static_cast<std::size_t>(config.shards), static_cast<std::size_t>(config.accumulate)) {
  if (config.ema_decay != 0) averages_.emplace(parameters, config.ema_decay);
}

Ema& Trainer::averages() {
  check<StateError>(averages_.has_value(), "trainer: there are no averages; set ema_decay");
  return *averages_;
}

StepResult Trainer::step(Rows rows, FunctionRef<ShardLoss(Rows)> loss) {
  const std::int64_t step = steps_ + 1;
  const StepLoss sums = backward(rows, loss);
  const double mean = sums.loss / sums.count, norm = gradient_norm(*parameters_) / sums.count;
  const double lr = schedule_(step);
  StepResult result{step, mean, sums.correct / sums.count, norm, lr};
  if (sums.count > 0 && std::isfinite(mean) && std::isfinite(norm)) {
    skipped_in_a_row_ = 0;
    adam_.step(lr, clip_factor(norm, config_.clip_norm) / sums.count);
    if (averages_) averages_->update();
  } else {
    parameters_->zero_gradients();
    if (!(sums.count > 0) || config_.on_nan == OnNan::stop || ++skipped_in_a_row_ == kMostSkipped)
      refuse_step(rows, sums, norm, loss);
    result.is_skipped = true;
  }
  ++steps_;
  return result;
}

StepLoss Trainer::backward(Rows rows, FunctionRef<ShardLoss(Rows)> loss, bool finds_anomaly) {
  return data_parallel_.backward(
      rows.size(), config_.seed, static_cast<std::uint32_t>(steps_ + 1),
      [&](std::size_t first, std::size_t last) { return loss(rows.subspan(first, last - first)); }, finds_anomaly);
}

// Repeats the step, whose random numbers are a function of its number, to say where it goes wrong.
void Trainer::refuse_step(Rows rows, const StepLoss& sums, double norm, FunctionRef<ShardLoss(Rows)> loss) {
  const std::int64_t step = steps_ + 1;
  check<ArgumentError>(sums.count > 0, "trainer: step ", step, ": the loss counted ", sums.count, " for ", rows.size(),
                       " rows; its count must be positive");
  std::string where = "no op alone is to blame";
  try {
    backward(rows, loss, true);
    parameters_->zero_gradients();
  } catch (const NumericError& e) {
    where = e.what();
  }
  for (const auto& entry : parameters_->entries())
    if (!std::ranges::all_of(entry.tensor.values(), [](real v) { return std::isfinite(v); }))
      where = "parameter " + entry.name + " was not finite before it";
  fail<NumericError>("trainer: step ", step, ": loss ", sums.mean(), " or gradient norm ", norm, " is not finite (",
                     where, "); try a lower lr than ", schedule_(step));
}

std::vector<OptimizerBlock> Trainer::state() const {
  std::vector<OptimizerBlock> blocks{{"adam.m", adam_.first_moments()}, {"adam.v", adam_.second_moments()}};
  if (averages_) blocks.push_back({"adam.average", averages_->averages()});
  return blocks;
}

void Trainer::save(const std::filesystem::path& file, std::map<std::string, std::string> metadata) const {
  metadata[kSteps] = std::to_string(steps_);
  metadata[kMoves] = std::to_string(adam_.steps());
  save_checkpoint(file, *parameters_, metadata, state());
}

void Trainer::load(const SafeTensorsFile& file) {
  const std::int64_t steps = number_of(file, kSteps), moves = number_of(file, kMoves);
  load_checkpoint(file, *parameters_, state());
  steps_ = steps;
  adam_.set_steps(moves);
  if (averages_) averages_->set_updates(moves);
}

double accuracy(const Tensor& logits, List<int> targets) {
  const double correct = count_correct(logits, targets);
  return targets.empty() ? 0 : correct / static_cast<double>(targets.size());
}

ShardLoss classification_loss(const Tensor& logits, List<int> targets, double label_smoothing) {
  return {.loss = cross_entropy(logits, targets, {.label_smoothing = label_smoothing, .reduction = Reduction::sum}),
          .count = static_cast<double>(targets.size()),
          .correct = count_correct(logits, targets)};
}

StepLoss evaluate(std::span<const int> rows, FunctionRef<ShardLoss(std::span<const int> rows)> loss,
                  std::size_t chunk) {
  check<ArgumentError>(chunk > 0, "evaluate: chunks of 0 rows");
  std::vector<StepLoss> parts((rows.size() + chunk - 1) / chunk);
  parallel_for(0, rows.size(), chunk, [&](std::size_t first, std::size_t last) {
    const UseMode eval(Mode::eval);
    const TapeMark mark;
    const ShardLoss part = loss(rows.subspan(first, last - first));
    parts[first / chunk] = {static_cast<double>(part.loss.item()), part.count, part.correct};
  });
  StepLoss total;
  for (const StepLoss& part : parts) total += part;
  return total;
}

}  // namespace seppo::inline SEPPO_ABI
