// Trainer: turns a step's sums into means, and these into an update of the parameters.
#include "trainer.h"

#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/ops.h"
#include "../io/digest.h"
#include "../optim/clip.h"
#include "ranks.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Keys in the metadata of the files that save() writes.
constexpr const char* kSteps = "seppo.steps";
constexpr const char* kMoves = "seppo.moves";               // steps that were not skipped
constexpr std::string_view kAverage = "adam.average";       // the prefix of the averages' names
constexpr std::int64_t kMostSteps = std::int64_t{1} << 32;  // 32 bits key dropout masks
constexpr int kMostSkipped = 100;
constexpr int kStepsToCheck = 100;  // ranks compare their parameters after this many, and before each save

std::int64_t number_of(const SafeTensorsFile& file, const char* key) {
  const auto found = file.metadata().find(key);
  const std::string text = found == file.metadata().end() ? "" : found->second;
  const char* const text_end = text.data() + text.size();
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text_end, number);
  const bool is_number = error == std::errc() && end == text_end;
  check<FormatError>(is_number && number >= 0 && number < kMostSteps, file.name(), ": ", key, " '", printable(text),
                     "' is not a number of steps: this is no checkpoint of a trainer");
  return number;
}

// The forward pass updates running statistics. This restores them, unless the step is taken.
class Undo {
 public:
  explicit Undo(const Parameters& parameters) {
    for (const auto& entry : parameters.entries())
      if (entry.is_buffer) buffers_.emplace_back(entry.tensor, copy_of(entry.tensor));
  }
  ~Undo() {
    for (const auto& [buffer, values] : buffers_) std::ranges::copy(values, buffer.data());
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;

  void forget() { buffers_.clear(); }

 private:
  static std::vector<real> copy_of(const Tensor& buffer) { return {buffer.values().begin(), buffer.values().end()}; }

  std::vector<std::pair<Tensor, std::vector<real>>> buffers_;
};

}  // namespace

void TrainerConfig::fields(ConfigVisitor& v) {
  v("lr", lr, {1e-12, 100}, "peak learning rate");
  v("min_lr", min_lr, {0, 100}, "learning rate at the end of a cosine or linear schedule");
  v("warmup_steps", warmup_steps, {0, 1e9}, "steps of linear warm-up to the peak");
  v("schedule", schedule, "course of the learning rate after warm-up; noam falls as 1 / sqrt(step)");
  adam.fields(v);
  v("clip_norm", clip_norm, {0, 1e9}, "gradient clipping norm; 0 turns it off");
  v("accumulate", accumulate, {1, 1000}, "gradient accumulation: batches per step, in the memory of one");
  v("shards", shards, {0, 64}, "parts of a batch that threads share; 0 chooses by the sizes of model and batch");
  v("on_nan", on_nan, "what to do if a loss or gradient is not finite");
  v("seed", seed, "random seed for initialisation, shuffling, dropout and generated data");
}

void TrainerConfig::validate() const {
  const char* name = enum_names(schedule)[static_cast<std::size_t>(schedule)];
  const bool is_falling = schedule == ScheduleKind::cosine || schedule == ScheduleKind::linear;
  check<ArgumentError>(min_lr <= lr, "trainer: min_lr ", min_lr, " is above lr ", lr);
  check<ArgumentError>(schedule != ScheduleKind::noam || warmup_steps > 0,
                       "trainer: the noam schedule needs warmup_steps of at least 1");
  check<ArgumentError>(!is_falling || steps > 0, "trainer: the ", name, " schedule needs steps, of the whole training");
  check<ArgumentError>(!whole_batch || (shards <= 1 && accumulate == 1),
                       "trainer: whole_batch is one shard in one round, not shards ", shards, ", accumulate ",
                       accumulate);
}

Trainer::Trainer(Parameters& parameters, const TrainerConfig& config, const ParameterGroups& groups)
    : parameters_(&parameters),
      config_(check_config("trainer", config)),
      schedule_(make_schedule(config)),
      adam_(parameters, config.adam, groups),
      data_parallel_(parameters, config.whole_batch ? 1 : static_cast<std::size_t>(config.shards),
                     static_cast<std::size_t>(config.accumulate)) {
  if (config.ema_decay != 0) averages_.emplace(parameters, config.ema_decay);
  if (ranks() > 1) check_start();
}

// Detects differences between ranks before the first step.
void Trainer::check_start() const {
  set_rank_phase("the start of training");
  check_equal_over_ranks("the compiler", __VERSION__);
  const nlohmann::json config = to_json_object(config_);
  for (const auto& [key, value] : config.items()) check_equal_over_ranks("the option '" + key + "'", value.dump());
  check_equal_over_ranks("the option 'whole_batch'", config_.whole_batch ? "true" : "false");
  for (const auto& entry : parameters_->entries())
    check_equal_over_ranks("a parameter", concat_text(entry.name, " ", entry.tensor));
  check_equal_over_ranks("the number of parameters", std::to_string(parameters_->count()));
  check_ranks();
}

void Trainer::check_ranks() const {
  Digest digest;
  const std::span<const real> values = parameters_->values();
  digest.add(values.data(), values.size_bytes());
  check_equal_over_ranks(concat_text("the parameters' digest after step ", steps_), digest.hex());
}

Ema& Trainer::averages() {
  check<StateError>(averages_.has_value(), "trainer: there are no averages; set ema_decay");
  return *averages_;
}

StepResult Trainer::step(Examples examples, FunctionRef<ShardLoss(Examples)> loss) {
  const std::int64_t step = steps_ + 1;
  if (ranks() > 1) set_rank_phase(concat_text("step ", step));
  Undo undo(*parameters_);
  const StepLoss sums = backward(examples, loss);
  StepResult result{.step = step,
                    .loss = sums.mean(),
                    .accuracy = sums.accuracy(),
                    .gradient_norm = gradient_norm(*parameters_) / sums.count,
                    .lr = schedule_(step)};
  if (sums.count > 0 && std::isfinite(result.loss) && std::isfinite(result.gradient_norm)) {
    update(result, sums.count);
    undo.forget();
  } else {
    parameters_->zero_gradients();
    if (!may_skip(sums)) refuse_step(examples, sums, result.gradient_norm, loss);
    result.is_skipped = true;
  }
  ++steps_;
  if (ranks() > 1 && steps_ % kStepsToCheck == 0) check_ranks();
  return result;
}

void Trainer::update(const StepResult& step, double count) {
  skipped_in_a_row_ = 0;
  adam_.step(step.lr, clip_factor(step.gradient_norm, config_.clip_norm) / count);
  if (averages_) averages_->update();
}

bool Trainer::may_skip(const StepLoss& sums) {
  if (config_.on_nan == OnNan::stop || !(sums.count > 0)) return false;
  ++skipped_in_a_row_;
  return skipped_in_a_row_ < kMostSkipped;
}

StepLoss Trainer::backward(Examples examples, FunctionRef<ShardLoss(Examples)> loss, bool finds_anomaly) {
  return data_parallel_.backward(
      examples.size(), config_.seed, static_cast<std::uint32_t>(steps_ + 1),
      [&](std::size_t first, std::size_t last) { return loss(examples.subspan(first, last - first)); }, finds_anomaly);
}

void Trainer::refuse_step(Examples examples, const StepLoss& sums, double norm, FunctionRef<ShardLoss(Examples)> loss) {
  const std::int64_t step = steps_ + 1;
  check<ArgumentError>(sums.count > 0, "trainer: step ", step, ": the loss counted ", sums.count, " for ",
                       examples.size(), " examples; its count must be positive");
  fail<NumericError>("trainer: step ", step, ": loss ", sums.mean(), " or gradient norm ", norm, " is not finite (",
                     place_of_anomaly(examples, loss), "); try a lower lr than ", schedule_(step));
}

// Repeats the step, with the same random numbers, to find out where it goes wrong.
std::string Trainer::place_of_anomaly(Examples examples, FunctionRef<ShardLoss(Examples)> loss) {
  std::string place = "no op alone is to blame";
  try {
    backward(examples, loss, true);
    parameters_->zero_gradients();
  } catch (const Error& e) {  // possibly another rank's
    place = e.what();
  }
  const auto is_finite = [](real v) { return std::isfinite(v); };
  for (const auto& entry : parameters_->entries())
    if (!entry.is_buffer && !std::ranges::all_of(entry.tensor.values(), is_finite))
      place = "parameter " + entry.name + " was not finite before it";
  return place;
}

std::vector<OptimizerBlock> Trainer::state() const {
  std::vector<OptimizerBlock> blocks{{"adam.m", adam_.first_moments()}, {"adam.v", adam_.second_moments()}};
  if (averages_) blocks.push_back({std::string(kAverage), averages_->averages()});
  return blocks;
}

void Trainer::save(const std::filesystem::path& file, std::map<std::string, std::string> metadata) const {
  metadata[kSteps] = std::to_string(steps_);
  metadata[kMoves] = std::to_string(adam_.steps());
  if (ranks() > 1) check_ranks();
  if (rank() > 0) return;
  save_checkpoint(file, *parameters_, metadata, state());
}

void Trainer::load(const SafeTensorsFile& file) {
  const std::int64_t steps = number_of(file, kSteps);
  const std::int64_t moves = number_of(file, kMoves);
  const auto is_average = [](const TensorInfo& tensor) { return tensor.name.starts_with(kAverage); };
  check<FormatError>(averages_ || std::ranges::none_of(file.tensors(), is_average), file.name(),
                     ": has averages of the parameters, but the trainer keeps none: set ema_decay");
  load_checkpoint(file, *parameters_, state());
  steps_ = steps;
  skipped_in_a_row_ = 0;
  adam_.set_steps(moves);
  if (averages_) averages_->set_updates(moves);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
