// TrainingRun: the loop, and the order in which its files are written.
#include "training_run.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../io/model_file.h"
#include "../io/text_file.h"
#include "../train/evaluate.h"
#include "../train/first_rank.h"
#include "../train/ranks.h"
#include "average.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {
namespace {

using nlohmann::json;

const RunOptions& checked(const RunOptions& options) {
  check<ArgumentError>(options.log_interval > 0, "training: log_interval ", options.log_interval, " is not positive");
  check<ArgumentError>(options.save_interval >= 0, "training: save_interval ", options.save_interval, " is negative");
  check<ArgumentError>(options.keep > 0, "training: keep ", options.keep, " is not positive: no checkpoint would stay");
  return options;
}

TrainingTask checked(TrainingTask task) {
  check<ArgumentError>(task.loss && task.evaluate, "training: the task has no ", task.loss ? "evaluation" : "loss");
  return task;
}

}  // namespace

TrainingRun::TrainingRun(Parameters& parameters, const TrainingConfig& config, TrainingTask task,
                         const RunOptions& options)
    : parameters_(parameters),
      config_(check_config("training", config)),
      task_(checked(std::move(task))),
      options_(checked(options)),
      folder_(options.folder),
      sampler_(task_.examples, config_.complete_sampler(), task_.lengths),
      steps_(config_.epochs * sampler_.batches_per_epoch()),
      trainer_(task_.optimiser ? Trainer(parameters, *task_.optimiser, config_.complete_trainer(steps_))
                               : Trainer(parameters, config_.complete_trainer(steps_))) {
  if (task_.schedule) trainer_.set_schedule(task_.schedule);
  if (options_.catch_signals) interrupts_.emplace();
  check_equal_over_ranks("the digest of the data", task_.digest);
  check<StateError>(options_.resume || options_.overwrite || !folder_.is_used(),
                    "training: an earlier training is in '", printable_path(options_.folder),
                    "'; resume it, or overwrite it");
  if (!options_.resume) folder_.check_own();
}

void TrainingRun::reserve(std::size_t bytes) {
  for (const std::unique_ptr<Tape>& tape : trainer_.tapes()) tape->reserve(bytes);
}

RunResult TrainingRun::train(RunEvents events) {
  events_ = std::move(events);
  try {
    begin();
    train_to_the_end();
    const Evaluation kept = finish();
    return {.steps = trainer_.steps(), .seconds = seconds(), .kept = kept};
  } catch (const Interrupted&) {
    if (saved_ != trainer_.steps()) save_checkpoint();
    folder_.finish();
    throw;
  } catch (const FileError&) {
    folder_.check_locked();  // without its folder, saving fails in many ways
    throw;
  }
}

void TrainingRun::begin() {
  if (options_.resume)
    resume();
  else
    folder_.begin();
  metrics_.emplace(options_.folder / "metrics.jsonl", trainer_.steps());
  if (events_.begun) events_.begun(metrics_->earlier());
}

void TrainingRun::resume() {
  std::string why;  // the newest cannot be read
  const auto note = [&](const Error& e) { why = why.empty() ? std::string(": ") + e.what() : why; };
  const auto newest = newest_checkpoint(options_.folder, note);
  check<FormatError>(newest.has_value(), printable_path(options_.folder), ": has no checkpoint to go on from", why);
  const SafeTensorsFile file(*newest);
  const RunState state = read_run_state(file);
  check<FormatError>(state.data == task_.digest, file.name(), ": the data have changed: their digest was ",
                     printable(state.data), ", and is ", task_.digest);
  trainer_.load(file);
  const std::int64_t step = trainer_.steps();
  sampler_.seek(step);
  folder_.go_on_from(step);
  saved_ = step;
  is_evaluated_ = state.is_evaluated;
  best_ = state.best;
  if (best_.step == step) save_model(/*is_at_the_end=*/false);  // the run may have been killed between the two files
  has_model_ = of_first_rank(best_.step > 0 && std::filesystem::exists(folder_.model()));
  if (!has_model_) best_ = {};
}

void TrainingRun::train_to_the_end() {
  if (!is_evaluated_) evaluate_and_save();
  while (!is_over()) {
    step();
    is_evaluated_ = !is_evaluation_due();
    if (!is_evaluated_)
      evaluate_and_save();
    else if (options_.save_interval > 0 && trainer_.steps() % options_.save_interval == 0)
      folder_.save_in_background([&] { save_checkpoint(); });
  }
  if (saved_ != trainer_.steps()) save_checkpoint();
  if (signal()) throw Interrupted{signal()};
}

void TrainingRun::step() {
  const StepResult now = trainer_.step(sampler_.next(), task_.loss);
  agree_to_stop();
  folder_.check_background();
  if (events_.stepped) events_.stepped(now);
  if (now.step % options_.log_interval == 0 || is_over()) log(now);
}

void TrainingRun::log(const StepResult& step) {
  metrics_->write({{"step", step.step},
                   {"epoch", sampler_.epoch()},
                   {"loss", step.loss},
                   {"accuracy", step.accuracy},
                   {"gradient_norm", step.gradient_norm},
                   {"lr", step.lr},
                   {"seconds", seconds()}});
}

// If any rank has caught a signal, all ranks stop after the same step.
void TrainingRun::agree_to_stop() {
  if (ranks() == 1) return;
  std::array<double, NSIG> caught{};  // the number of ranks that caught each signal
  if (interrupts_) caught[static_cast<std::size_t>(interrupts_->signal())] = 1;
  add_over_ranks(caught);
  for (int signal = NSIG - 1; signal > 0; --signal)
    if (caught[static_cast<std::size_t>(signal)] > 0) agreed_signal_ = signal;
}

int TrainingRun::signal() const {
  if (ranks() > 1) return agreed_signal_;
  return interrupts_ ? interrupts_->signal() : 0;
}

bool TrainingRun::is_over() const {
  const int most = config_.max_steps;
  return signal() || trainer_.steps() >= steps_ || (most > 0 && trainer_.steps() >= most);
}

bool TrainingRun::is_evaluation_due() const {
  return trainer_.steps() % sampler_.batches_per_epoch() == 0 && sampler_.epoch() % config_.eval_interval == 0;
}

double TrainingRun::seconds() const {
  const std::chrono::duration<double> here = std::chrono::steady_clock::now() - start_;
  return metrics_->earlier_seconds() + here.count();
}

// In the memory and the precision of the steps.
Evaluation TrainingRun::measure() {
  const UseMatmulPrecision precision(config_.trainer.matmul_precision);
  const UseTapes tapes(trainer_.tapes());
  return task_.evaluate();
}

// Evaluates the current parameters, which may be the mean of several models. A measure that is not finite ends the run;
// what was saved before is kept.
Evaluation TrainingRun::evaluate(std::size_t models) {
  kept_.reset();
  Evaluation evaluation = measure();
  json line = evaluation.summary();
  if (models > 1) line["mean_of"] = models;
  for (const auto& [key, value] : line.items())
    if (value.is_number_float() && !std::isfinite(value.get<double>()))
      fail<NumericError>("evaluation after step ", trainer_.steps(), ": ", key, " is ", value.get<double>(),
                         "; what was saved before is kept");
  line.update({{"epoch", sampler_.epoch()}, {"step", trainer_.steps()}});
  if (events_.evaluated) events_.evaluated({evaluation, models, sampler_.epoch(), line});
  metrics_->write(line);
  return evaluation;
}

void TrainingRun::evaluate_and_save() {
  const Evaluation evaluation = evaluate();
  const Best now = scored(evaluation);
  const bool is_best = now.is_above(best_);
  if (is_best) best_ = now;
  is_evaluated_ = true;
  folder_.save_in_background([&] {
    if (config_.average > 1) save_last();
    save_checkpoint();
    if (is_best) save_model(/*is_at_the_end=*/false);
  });
  if (is_best) kept_ = evaluation;
  if (events_.saved && !is_over()) events_.saved(evaluation, false);
}

void TrainingRun::save_last() {
  folder_.save_last(trainer_.steps(), static_cast<std::size_t>(config_.average),
                    [&](const auto& file) { seppo::save_checkpoint(file, parameters_, {}, {}, task_.frozen); });
}

void TrainingRun::save_checkpoint() {
  metrics_->check();  // a resumed run does not rewrite the lines before its checkpoint
  const RunState state{.data = task_.digest, .best = best_, .is_evaluated = is_evaluated_};
  folder_.save_checkpoint(trainer_.steps(), static_cast<std::size_t>(options_.keep), [&](const auto& file) {
    trainer_.save(file, {{kConfigKey, dumped(task_.config)}, {kRunKey, text_of(state)}}, task_.frozen);
  });
  saved_ = trainer_.steps();
}

void TrainingRun::save_model(bool is_at_the_end) {
  folder_.check_locked();
  const bool writes_config = !std::exchange(has_config_, true) && seppo::rank() == 0;
  const bool has_best = std::exchange(has_model_, true);  // otherwise, the model there may be an earlier run's
  const std::filesystem::path config_file = options_.folder / "config.json";
  if (task_.save && seppo::rank() == 0) task_.save();
  if (writes_config && !options_.resume) std::filesystem::remove(config_file);  // it describes an earlier run's model
  const auto write = [&](const std::filesystem::path& file) {
    seppo::save_checkpoint(file, parameters_, {{kConfigKey, dumped(task_.config)}}, {}, task_.frozen);
    if (!writes_config) return;
    write_text(config_file, task_.config.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  };
  folder_.save_model(write, is_at_the_end && has_best);
}

// Reads parameters from files that the machines of other ranks may not have.
void TrainingRun::read_on_first_rank(const std::function<void()>& read) {
  if (seppo::rank() == 0) read();
  copy_from_first_rank(std::as_writable_bytes(parameters_.edit()));
}

// Keeps the best of: the models evaluated so far, the final parameters, and the mean of the last models.
Evaluation TrainingRun::finish() {
  folder_.finish();
  if (!is_evaluation_due() || !has_model_) keep_if_better();
  if (config_.average > 1) try_mean_of_last();
  if (!kept_) {
    read_on_first_rank([&] { load_checkpoint(folder_.model(), parameters_); });
    if (!has_config_) save_model(/*is_at_the_end=*/false);  // the file has the config from before the run was resumed
    kept_ = measure();
  }
  if (events_.saved) events_.saved(*kept_, true);
  metrics_->close();
  return *kept_;
}

void TrainingRun::try_mean_of_last() {
  const auto models = folder_.last_models(static_cast<std::size_t>(config_.average));
  const std::size_t count = of_first_rank(models.size());
  if (count < 2) return;
  read_on_first_rank([&] { load_average(models, parameters_); });
  if (keep_if_better(count) && events_.kept_mean) events_.kept_mean(count);
}

bool TrainingRun::keep_if_better(std::size_t models) {
  const Evaluation evaluation = evaluate(models);
  const Best now = scored(evaluation);
  if (has_model_ && !now.is_above(best_)) return false;
  best_ = now;
  save_model(/*is_at_the_end=*/true);
  kept_ = evaluation;
  return true;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
