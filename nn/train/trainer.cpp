// Trainer: turns a step's sums into means, and these into an update of the parameters.
#include "trainer.h"

#include "../../autograd/core/function_ref.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/kernels/kernels.h"
#include "../../autograd/ops.h"
#include "../io/digest.h"
#include "../optim/clip.h"
#include "ranks.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

// Keys in the metadata of the files that save() writes.
constexpr const char* kSteps = "seppo.steps";
constexpr const char* kMoves = "seppo.moves";               // steps that were not skipped
constexpr const char* kLr = "seppo.lr";                     // a rate that was set
constexpr std::string_view kAverage = "adam.average";       // the prefix of the averages' names
constexpr std::int64_t kMostSteps = std::int64_t{1} << 32;  // 32 bits key dropout masks
constexpr int kMostSkipped = 100;
constexpr int kStepsToCheck = 100;  // ranks compare their parameters after this many, and before each save

// The number that is all of the text; nothing if it is not one.
template <class Number>
std::optional<Number> number_in(const std::string& text) {
  const char* const text_end = text.data() + text.size();
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text_end, number);
  if (error != std::errc() || end != text_end) return {};
  return number;
}

std::int64_t steps_of(const SafeTensorsFile& file, const char* key) {
  const auto found = file.metadata().find(key);
  const std::string text = found == file.metadata().end() ? "" : found->second;
  const std::int64_t number = number_in<std::int64_t>(text).value_or(-1);
  check<FormatError>(number >= 0 && number < kMostSteps, file.name(), ": ", key, " '", printable(text),
                     "' is not a number of steps: this is no checkpoint of a trainer");
  return number;
}

// A rate that was set; nothing if the file has none.
std::optional<double> lr_of(const SafeTensorsFile& file) {
  const auto found = file.metadata().find(kLr);
  if (found == file.metadata().end()) return {};
  const double lr = number_in<double>(found->second).value_or(-1);
  check<FormatError>(lr >= 0 && std::isfinite(lr), file.name(), ": ", kLr, " '", printable(found->second),
                     "' is not a learning rate");
  return lr;
}

// The shortest text from which lr_of() reads the same number.
std::string text_of(double lr) {
  char text[32];
  return {text, std::to_chars(text, std::end(text), lr).ptr};
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

std::size_t shards_of(const TrainerConfig& config) {
  return config.whole_batch ? 1 : static_cast<std::size_t>(config.shards);
}

nlohmann::json to_json(const ParameterGroups& groups) {
  nlohmann::json all = nlohmann::json::array();
  for (const ParameterGroup& group : groups)
    all.push_back(
        {group.prefix, group.lr, group.weight_decay ? nlohmann::json(*group.weight_decay) : nlohmann::json()});
  return all;
}

}  // namespace

void TrainerConfig::fields(ConfigVisitor& v) {
  v("lr", lr, {1e-12, 100}, "peak learning rate");
  v("min_lr", min_lr, {0, 100}, "learning rate at the end of a cosine or linear schedule");
  v("warmup_steps", warmup_steps, {0, 1e9}, "steps of linear warm-up to the peak");
  v("schedule", schedule, "course of the learning rate after warm-up; noam falls as 1 / sqrt(step)");
  v("optimizer", optimizer, "what moves the weights; adam is AdamW with --decoupled-decay", {.may_be_missing = true});
  v("momentum", momentum, {0, 0.999999999}, "momentum of sgd", {.may_be_missing = true});
  adam.fields(v);
  v("clip_norm", clip_norm, {0, 1e9}, "gradient clipping norm; 0 turns it off");
  v("accumulate", accumulate, {1, 1000}, "gradient accumulation: batches per step, in the memory of one");
  v("shards", shards, {0, 64}, "parts of a batch that threads share; 0 chooses by the sizes of model and batch");
  v("on_nan", on_nan, "what to do if a loss or gradient is not finite");
  v("matmul_precision", matmul_precision,
    "precision of large products, where the processor has bfloat16; elsewhere all are highest",
    {.may_be_missing = true});
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
      own_(make_optimiser(parameters, config.optimizer, {config.momentum, config.adam}, groups)),
      optimiser_(any_optimiser(*own_)),
      data_parallel_(parameters, shards_of(config), static_cast<std::size_t>(config.accumulate)) {
  begin(groups);
}

Trainer::Trainer(Parameters& parameters, AnyOptimiser optimiser, const TrainerConfig& config)
    : parameters_(&parameters),
      config_(check_config("trainer", config)),
      schedule_(make_schedule(config)),
      optimiser_(std::move(optimiser)),
      data_parallel_(parameters, shards_of(config), static_cast<std::size_t>(config.accumulate)) {
  check_optimiser();
  begin({});
}

void Trainer::begin(const ParameterGroups& groups) {
  if (config_.ema_decay != 0) averages_.emplace(*parameters_, config_.ema_decay);
  if (ranks() > 1) check_start(groups);
}

void Trainer::check_optimiser() const {
  check<ArgumentError>(optimiser_.steps() == 0, "trainer: the optimiser has already taken ", optimiser_.steps(),
                       " steps: a trainer begins with a new one");
  const std::size_t size = parameters_->values().size();
  for (const OptimizerBlock& block : optimiser_.state()) {
    check<ArgumentError>(is_optimizer_state(block.prefix), "trainer: the optimiser's state '", printable(block.prefix),
                         "' does not begin with 'optimiser.'");
    check<ArgumentError>(block.values.size() == size, "trainer: the optimiser's state '", printable(block.prefix),
                         "' has ", block.values.size(), " values, the parameters ", size,
                         ": it must be made for these parameters, after the last of them");
  }
}

// Detects differences between ranks before the first step.
void Trainer::check_start(const ParameterGroups& groups) const {
  set_rank_phase("the start of training");
  check_equal_over_ranks("the compiler", __VERSION__);
  const nlohmann::json config = to_json_object(config_);
  for (const auto& [key, value] : config.items()) check_equal_over_ranks("the option '" + key + "'", value.dump());
  check_equal_over_ranks("the option 'whole_batch'", config_.whole_batch ? "true" : "false");
  check_equal_over_ranks("the option 'ema_decay'", nlohmann::json(config_.ema_decay).dump());
  check_equal_over_ranks("the list of parameter groups", to_json(groups).dump());
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

void Trainer::set_lr(std::optional<double> lr) {
  const double value = lr.value_or(0);
  check<ArgumentError>(value >= 0 && std::isfinite(value), "trainer: lr ", value, " is negative or not finite");
  lr_ = lr;
}

double Trainer::lr() const {
  if (lr_) return *lr_;
  const double lr = schedule_(steps_ + 1);
  check<ArgumentError>(lr >= 0 && std::isfinite(lr), "trainer: step ", steps_ + 1, ": the schedule's lr ", lr,
                       " is negative or not finite");
  return lr;
}

StepResult Trainer::step(Examples examples, FunctionRef<ShardLoss(Examples)> loss) {
  return step({{.examples = examples, .loss = loss}});
}

// What the backward passes of a step give. The gradient of its loss is the parameters' gradients over `divisor`.
struct Trainer::Means {
  double loss = 0, accuracy = 0, divisor = 1;
  double least_count = 0;           // of an objective
  std::size_t least_examples = 0;   // of that objective
  std::vector<double> losses = {};  // of each objective, if there are several
};

StepResult Trainer::step(List<Objective> objectives) {
  const UseMatmulPrecision precision(config_.matmul_precision);
  const std::int64_t step = steps_ + 1;
  const double rate = lr();
  if (ranks() > 1) set_rank_phase(concat_text("step ", step));
  Undo undo(*parameters_);
  Means means = backward(objectives);
  StepResult result{.step = step,
                    .loss = means.loss,
                    .accuracy = means.accuracy,
                    .gradient_norm = gradient_norm(*parameters_) / means.divisor,
                    .lr = rate,
                    .losses = std::move(means.losses)};
  if (means.least_count > 0 && std::isfinite(result.loss) && std::isfinite(result.gradient_norm)) {
    update(result, means.divisor);
    undo.forget();
  } else {
    parameters_->zero_gradients();
    if (!may_skip(means)) refuse_step(objectives, means, result);
    result.is_skipped = true;
  }
  ++steps_;
  if (ranks() > 1 && steps_ % kStepsToCheck == 0) check_ranks();
  return result;
}

void Trainer::update(const StepResult& step, double divisor) {
  skipped_in_a_row_ = 0;
  optimiser_.step(step.lr, clip_factor(step.gradient_norm, config_.clip_norm) / divisor);
  ++moves_;
  if (averages_) averages_->update();
  if (std::exchange(is_checked_, true)) return;
  check<StateError>(std::ranges::all_of(parameters_->gradients(), [](real g) { return g == 0; }),
                    "trainer: the optimiser left gradients behind: its step() must zero those of these parameters");
}

bool Trainer::may_skip(const Means& means) {
  if (config_.on_nan == OnNan::stop || !(means.least_count > 0)) return false;
  ++skipped_in_a_row_;
  return skipped_in_a_row_ < kMostSkipped;
}

Trainer::Means Trainer::backward(List<Objective> objectives) {
  check<ArgumentError>(!objectives.empty(), "trainer: a step without objectives");
  for (const Objective& o : objectives)
    check<ArgumentError>(std::isfinite(o.weight), "trainer: an objective has the weight ", o.weight);
  const Objective& first = objectives[0];
  if (objectives.size() > 1 || first.weight != 1) return add_up(objectives);
  const StepLoss sums = backward(first, 0);
  return {.loss = sums.mean(),
          .accuracy = sums.accuracy(),
          .divisor = sums.count,
          .least_count = sums.count,
          .least_examples = first.examples.size()};
}

// Leaves the gradient of the weighted sum of the objectives' means.
Trainer::Means Trainer::add_up(List<Objective> objectives) {
  const std::span<real> gradients = parameters_->gradients();
  if (sum_.size() != gradients.size_bytes()) sum_ = Memory(gradients.size_bytes());
  real* const sum = sum_.as<real>();
  const std::span<const Parameters::Run> trained = parameters_->trained_runs();
  for (const Parameters::Run& run : trained) std::fill(sum + run.begin, sum + run.end, real{0});
  Means means{.least_count = std::numeric_limits<double>::infinity()};
  StepLoss total;
  std::size_t earlier_examples = 0;
  for (const Objective& o : objectives) {
    const StepLoss own = backward(o, earlier_examples);
    for (const Parameters::Run& run : trained)
      kernels::axpy(sum + run.begin, 1, gradients.data() + run.begin, static_cast<real>(o.weight / own.count),
                    run.end - run.begin);
    parameters_->zero_gradients();
    means.loss += o.weight * own.mean();
    means.losses.push_back(own.mean());
    if (own.count < means.least_count) {
      means.least_count = own.count;
      means.least_examples = o.examples.size();
    }
    total += own;
    earlier_examples += o.examples.size();
  }
  means.accuracy = total.accuracy();
  for (const Parameters::Run& run : trained) std::copy(sum + run.begin, sum + run.end, gradients.data() + run.begin);
  return means;
}

StepLoss Trainer::backward(const Objective& o, std::size_t earlier_examples, bool finds_anomaly) {
  return data_parallel_.backward(
      o.examples.size(), config_.seed, static_cast<std::uint32_t>(steps_ + 1),
      [&](std::size_t first, std::size_t last) {
        tape().random.sample += static_cast<std::uint32_t>(earlier_examples);
        return o.loss(o.examples.subspan(first, last - first));
      },
      finds_anomaly);
}

void Trainer::refuse_step(List<Objective> objectives, const Means& means, const StepResult& step) {
  check<ArgumentError>(means.least_count > 0, "trainer: step ", step.step, ": the loss counted ", means.least_count,
                       " for ", means.least_examples, " examples; its count must be positive");
  fail<NumericError>("trainer: step ", step.step, ": loss ", step.loss, " or gradient norm ", step.gradient_norm,
                     " is not finite (", place_of_anomaly(objectives), "); try a lower lr than ", step.lr);
}

// Repeats the step, with the same random numbers, to find out where it goes wrong.
std::string Trainer::place_of_anomaly(List<Objective> objectives) {
  std::string place = "no op alone is to blame";
  std::size_t earlier_examples = 0;
  try {
    for (const Objective& o : objectives) {
      backward(o, earlier_examples, true);
      parameters_->zero_gradients();
      earlier_examples += o.examples.size();
    }
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
  std::vector<OptimizerBlock> blocks = optimiser_.state();
  if (averages_) blocks.push_back({std::string(kAverage), averages_->averages()});
  return blocks;
}

void Trainer::save(const std::filesystem::path& file, std::map<std::string, std::string> metadata,
                   FrozenValues frozen) const {
  metadata[kSteps] = std::to_string(steps_);
  metadata[kMoves] = std::to_string(moves_);
  if (lr_) metadata[kLr] = text_of(*lr_);
  if (ranks() > 1) check_ranks();
  if (rank() > 0) return;
  save_checkpoint(file, *parameters_, metadata, state(), frozen);
}

void Trainer::load(const SafeTensorsFile& file) {
  const std::int64_t steps = steps_of(file, kSteps);
  const std::int64_t moves = steps_of(file, kMoves);
  const std::optional<double> lr = lr_of(file);
  const auto is_average = [](const TensorInfo& tensor) { return tensor.name.starts_with(kAverage); };
  check<FormatError>(averages_ || std::ranges::none_of(file.tensors(), is_average), file.name(),
                     ": has averages of the parameters, but the trainer keeps none: set ema_decay");
  const std::vector<OptimizerBlock> own = state();
  const auto is_state = [](const TensorInfo& tensor) { return is_optimizer_state(tensor.name); };
  check<FormatError>(!own.empty() || std::ranges::none_of(file.tensors(), is_state), file.name(),
                     ": has the state of an optimiser, but the trainer's keeps none");
  load_checkpoint(file, *parameters_, own);
  steps_ = steps;
  moves_ = moves;
  lr_ = lr;
  skipped_in_a_row_ = 0;
  optimiser_.set_steps(moves);
  if (averages_) averages_->set_updates(moves);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
