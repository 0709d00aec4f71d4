// The training loop with progress, evaluations and files. A checkpoint depends only on the options, the data and the
// step, so a run that was interrupted anywhere ends with the same bytes.
#include "app/training.h"
#include "app/average.h"

#include "app/arithmetic.h"
#include "app/first_rank.h"
#include "app/invocation.h"
#include "app/memory.h"
#include "app/paths.h"
#include "app/printable.h"
#include "app/summary.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/json.h>
#include <seppo/nn/train/ranks.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

namespace examples {

using nlohmann::json;
using seppo::check;
using seppo::FormatError;
using seppo::printable_path;

namespace {

constexpr const char* kRunKey = "seppo.run";  // in a checkpoint, besides the trainer's state: data and best

seppo::SamplerConfig sampler_config(const TrainingConfig& c) {
  seppo::SamplerConfig config = c.sampler;
  config.seed = c.trainer.seed;
  config.batch_size *= c.trainer.accumulate;
  return config;
}

seppo::TrainerConfig trainer_config(const TrainingConfig& c, std::int64_t steps) {
  seppo::TrainerConfig config = c.trainer;
  config.steps = steps;
  return config;
}

// null, or [step, score, loss].
bool is_best(const json& best) {
  if (best.is_null()) return true;
  return best.is_array() && best.size() == 3 && best[0].is_number_integer() && best[0] > 0 && best[1].is_number() &&
         best[2].is_number();
}

std::string text_of(const std::string& what, const Evaluation& e) {
  std::string text = fmt::format("{} | val_loss {:#.4g}", what, e.val_loss);
  for (const auto& [key, value] : e.measures.items())
    if (value.is_number_float()) text += fmt::format(" | {} {:#.4g}", key, value.get<double>());
  return text;
}

// The most bytes of gradients that any rank sends in a step. For each partial sum of its shards in the tree
// (seppo/nn/train/data_parallel.h), it sends every other rank that rank's part; then its own part of the total to all.
double most_sent(std::size_t parameters, std::size_t shards) {
  const auto ranks = static_cast<std::size_t>(seppo::ranks());
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t last = shards * (rank + 1) / ranks;
    const std::size_t part = parameters * (rank + 1) / ranks - parameters * rank / ranks;
    std::size_t sums = 0;
    for (std::size_t at = shards * rank / ranks, width; at < last; at += width, ++sums)
      for (width = 1; at % (2 * width) == 0 && width < shards && std::min(at + 2 * width, shards) <= last;) width *= 2;
    most = std::max(most, sums * (parameters - part) + (ranks - 1) * part);
  }
  return static_cast<double>(most * sizeof(seppo::real));
}

std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string used_folder(const std::filesystem::path& folder) {
  const std::string name = printable_path(folder);
  return fmt::format("--out: an earlier training is in '{}'; --overwrite replaces it, --resume {} goes on with it",
                     name, name);
}

Training::Training(const Run& run, const std::string& program, seppo::Parameters& parameters, const json& config,
                   const Task& task)
    : run_(run),
      program_(program),
      parameters_(parameters),
      config_(config),
      task_(task),
      folder_(run.out),
      sampler_(task.examples, sampler_config(run.training), task.lengths),
      steps_(run.training.epochs * sampler_.batches_per_epoch()),
      trainer_(parameters, trainer_config(run.training, steps_)),
      progress_(seppo::rank() == 0 ? run.log_format : LogFormat::none, steps_, run.log_interval) {
  seppo::check_equal_over_ranks("the digest of the data", task_.digest);
  if (seppo::ranks() > 1) seppo::check_equal_over_ranks("the arithmetic of the processor", arithmetic());
  if (run_.resume.empty() && !run_.overwrite && folder_.is_used()) throw UsageError(used_folder(run_.out));
  const std::vector<int> batch = large_batch();
  const MemoryNeed need = predict_memory(parameters_, batch, task_.evaluated, task_.loss, trainer_.config());
  check_memory(need, batch.size());
  progress_.note(fmt::format("{}: {} parameters, {}, {} threads, about {:.0f} MB of memory", program_,
                             parameters_.count(), task_.data, seppo::num_threads(),
                             (resident_memory() + need.total()) / 1048576));
  if (seppo::ranks() > 1) tell_traffic(batch.size());
  if (run_.training.trainer.warmup_steps >= steps_)
    progress_.note(
        fmt::format("{}: warm-up takes {} steps and the run has {}: the learning rate never reaches its peak", program_,
                    run_.training.trainer.warmup_steps, steps_));
  if (!run_.resume.empty()) resume();
  metrics_.emplace(run_.out / "metrics.jsonl", trainer_.steps());
  progress_.start_at(trainer_.steps());
  if (const std::int64_t most = run_.training.max_steps; most > 0) progress_.end_at(std::min(most, steps_));
  if (run_.report && seppo::rank() == 0) begin_report();
}

// The least is the lower bound for any all-reduce (Patarasuk and Yuan 2009).
void Training::tell_traffic(std::size_t batch) {
  const seppo::TrainerConfig& c = trainer_.config();
  const auto shards = static_cast<std::size_t>(c.shards), rounds = static_cast<std::size_t>(c.accumulate);
  const std::size_t used = seppo::DataParallel(parameters_, shards, rounds).shard_sizes(batch).size();
  const double size = static_cast<double>(parameters_.count() * sizeof(seppo::real)), ranks = seppo::ranks();
  progress_.note(fmt::format(
      "{} ranks share {} shards; in a step each sends at most {:.3f} MB of gradients, where {:.3f} MB is the least",
      seppo::ranks(), used, most_sent(parameters_.count(), used) / 1e6, 2 * (ranks - 1) / ranks * size / 1e6));
}

// A batch that needs as much memory as any: the longest examples, shuffled so that the first few are typical of all.
std::vector<int> Training::large_batch() {
  const std::span<const int> first = sampler_.next();
  std::vector<int> batch(first.begin(), first.end());
  sampler_.seek(0);
  if (task_.lengths.empty()) return batch;
  std::vector<int> all(task_.examples);
  std::iota(all.begin(), all.end(), 0);
  std::ranges::stable_sort(all, std::greater<>(),
                           [&](int row) { return task_.lengths[static_cast<std::size_t>(row)]; });
  all.resize(batch.size());
  std::ranges::shuffle(all, std::minstd_rand(1));
  return all;
}

void Training::resume() {
  const auto newest = newest_checkpoint(run_.out, [](const seppo::Error&) {});  // run.cpp tells what is passed over
  check<FormatError>(newest.has_value(), printable_path(run_.out), ": has no checkpoint to go on from");
  const seppo::SafeTensorsFile file(*newest);
  const auto found = file.metadata().find(kRunKey);
  const json state =
      found == file.metadata().end() ? json() : seppo::parse_json(found->second, file.name() + ": " + kRunKey);
  const bool is_right = state.is_object() && state.contains("data") && state["data"].is_string() &&
                        state.contains("best") && is_best(state["best"]);
  check<FormatError>(is_right, file.name(), ": ", kRunKey, " is not the state of a training");
  const std::string digest = state["data"].get<std::string>();
  check<FormatError>(digest == task_.digest, file.name(), ": the data have changed: their digest was ",
                     seppo::printable(digest), ", and is ", task_.digest);
  trainer_.load(file);
  const std::int64_t step = trainer_.steps();
  sampler_.seek(step);
  folder_.go_on_from(step);
  saved_ = step;
  progress_.note(fmt::format("{}: goes on after step {}", program_, step));
  is_evaluated_ = state.value("is_evaluated", json(true)) != false;
  if (state["best"].is_array()) best_ = {state["best"].at(0), state["best"].at(1), state["best"].at(2)};
  if (best_.step == step) save_model(/*is_at_the_end=*/false);  // the run may have been killed between the two files
  has_model_ = of_first_rank(best_.step > 0 && std::filesystem::exists(folder_.model()));
  if (!has_model_) best_ = {};
}

void Training::begin_report() {
  const int first = 0;
  const std::string model = examples::summary(parameters_, [&] { task_.loss({&first, 1}); });
  page_.emplace(run_.out / "report.html", Report::Facts{task_.title, task_.about, model, config_, steps_});
  for (const json& line : metrics_->earlier()) {
    const auto is_number = [&](const char* key) { return line.contains(key) && line[key].is_number(); };
    if (line.contains("val_loss"))
      page_->add_evaluation(line["step"], line);
    else if (std::ranges::all_of(std::array{"loss", "accuracy", "gradient_norm", "lr"}, is_number))  // not skipped
      page_->add_step({line["step"], line["loss"], line["accuracy"], line["gradient_norm"], line["lr"]});
  }
}

Result Training::run() try {
  if (!is_evaluated_) evaluate_and_save();
  while (!is_over()) {
    step();
    is_evaluated_ = !is_evaluation_due();
    if (!is_evaluated_)
      evaluate_and_save();
    else if (run_.save_interval > 0 && trainer_.steps() % run_.save_interval == 0)
      save_checkpoint();
  }
  if (saved_ != trainer_.steps()) save_checkpoint();
  if (signal()) throw Interrupted{signal()};
  const Evaluation kept = finish();
  return {trainer_.steps(), seconds(), kept.summary()};
} catch (const Interrupted& e) {
  if (saved_ != trainer_.steps()) save_checkpoint();
  progress_.note(trainer_.steps() == 0
                     ? fmt::format("{} before the first step; nothing was saved", ::strsignal(e.signal))
                     : fmt::format("{}: interrupted after step {}; saved. To go on: {} train --resume {}",
                                   ::strsignal(e.signal), trainer_.steps(), program_as_typed(program_),
                                   shown_line(shell_word(run_.out.string()))));
  throw;
} catch (const seppo::FileError&) {
  folder_.check_locked();  // without its folder, saving fails in many ways
  throw;
}

void Training::step() {
  const seppo::StepResult now = trainer_.step(sampler_.next(), task_.loss);
  agree_to_stop();
  progress_.step(now);
  if (now.is_skipped) progress_.note(fmt::format("step {}: loss or gradient is not finite; left out", now.step));
  if (page_) page_->add_step(now);
  if (now.step % run_.log_interval != 0 && !is_over()) return;
  metrics_->write({{"step", now.step},
                   {"epoch", sampler_.epoch()},
                   {"loss", now.loss},
                   {"accuracy", now.accuracy},
                   {"gradient_norm", now.gradient_norm},
                   {"lr", now.lr},
                   {"seconds", seconds()}});
}

// If any rank has caught a signal, all ranks stop after the same step.
void Training::agree_to_stop() {
  if (seppo::ranks() == 1) return;
  std::array<double, NSIG> caught{};  // the number of ranks that caught each signal
  caught[static_cast<std::size_t>(interrupts_.signal())] = 1;
  seppo::add_over_ranks(caught);
  for (int signal = NSIG - 1; signal > 0; --signal)
    if (caught[static_cast<std::size_t>(signal)] > 0) agreed_signal_ = signal;
}

int Training::signal() const { return seppo::ranks() == 1 ? interrupts_.signal() : agreed_signal_; }

bool Training::is_over() const {
  const int most = run_.training.max_steps;
  return signal() || trainer_.steps() >= steps_ || (most > 0 && trainer_.steps() >= most);
}

bool Training::is_evaluation_due() const {
  return trainer_.steps() % sampler_.batches_per_epoch() == 0 && sampler_.epoch() % run_.training.eval_interval == 0;
}

// Evaluates the current parameters, which may be the mean of several models. A measure that is not finite ends the run;
// what was saved before is kept.
Evaluation Training::evaluate(std::size_t models) {
  kept_.reset();
  const Evaluation evaluation = task_.evaluate();
  json logged = evaluation.summary();
  if (models > 1) logged["mean_of"] = models;
  for (const auto& [key, value] : logged.items())
    if (value.is_number_float() && !std::isfinite(value.get<double>()))
      seppo::fail<seppo::NumericError>("evaluation after step ", trainer_.steps(), ": ", key, " is ",
                                       value.get<double>(), "; what was saved before is kept");
  progress_.note(text_of(models > 1 ? fmt::format("mean of {}", models) : fmt::format("epoch {:>4}", sampler_.epoch()),
                         evaluation));
  logged.update({{"epoch", sampler_.epoch()}, {"step", trainer_.steps()}});
  metrics_->write(logged);
  if (page_) page_->add_evaluation(trainer_.steps(), logged);
  return evaluation;
}

Best Training::rank(const Evaluation& evaluation) const {
  const std::string& by = run_.training.best;
  const auto score = [&] {
    if (by == "last") return static_cast<double>(trainer_.steps());
    if (by == "loss") return -evaluation.val_loss;
    const json& measure = evaluation.measures.at("val_" + by);
    return measure.is_null() ? 0 : measure.get<double>();
  };
  return {trainer_.steps(), score(), evaluation.val_loss};
}

void Training::evaluate_and_save() {
  const Evaluation evaluation = evaluate();
  const Best now = rank(evaluation);
  const bool is_best = now.is_above(best_);
  if (is_best) best_ = now;
  is_evaluated_ = true;
  if (run_.training.average > 1)
    folder_.save_last(now.step, static_cast<std::size_t>(run_.training.average),
                      [&](const auto& file) { seppo::save_checkpoint(file, parameters_, {}); });
  save_checkpoint();
  if (is_best) save_model(false), kept_ = evaluation;
  if (run_.report && !is_over()) write_report(evaluation, false);
}

void Training::save_checkpoint() {
  metrics_->check();  // a resumed run does not rewrite the lines before its checkpoint
  const json best = best_.step > 0 ? json{best_.step, best_.score, best_.loss} : json();
  folder_.save_checkpoint(trainer_.steps(), static_cast<std::size_t>(run_.keep), [&](const auto& file) {
    json state = {{"data", task_.digest}, {"best", best}};
    if (!is_evaluated_) state["is_evaluated"] = false;
    trainer_.save(file, {{seppo::kConfigKey, dumped(config_)}, {kRunKey, dumped(state)}});
  });
  saved_ = trainer_.steps();
}

void Training::save_model(bool is_at_the_end) {
  folder_.check_locked();
  const bool writes_config = !std::exchange(has_config_, true) && seppo::rank() == 0;
  const bool has_best = std::exchange(has_model_, true);  // otherwise, the model there may be an earlier run's
  const std::filesystem::path config_file = run_.out / "config.json";
  if (task_.save && seppo::rank() == 0) task_.save();
  if (writes_config) std::filesystem::remove(config_file);  // it must never describe another run's model
  folder_.save_model(
      [&](const auto& file) {
        seppo::save_checkpoint(file, parameters_, {{seppo::kConfigKey, dumped(config_)}});
      },
      is_at_the_end && has_best);
  if (writes_config)
    write_file_atomically(config_file, config_.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

// Reads parameters from files that the machines of other ranks may not have.
void Training::read_on_first_rank(const std::function<void()>& read) {
  if (seppo::rank() == 0) read();
  copy_from_first_rank(std::as_writable_bytes(parameters_.edit()));
}

void Training::write_report(const Evaluation& evaluation, bool is_over) {
  const std::vector<Sample> samples = task_.samples ? task_.samples() : std::vector<Sample>();
  folder_.check_locked();
  if (page_) page_->write(samples, evaluation.summary(), is_over);
}

// Keeps the best of: the models evaluated so far, the final parameters, and the mean of the last models.
Evaluation Training::finish() {
  if (!is_evaluation_due() || !has_model_) keep_if_better();
  const auto models = folder_.last_models(static_cast<std::size_t>(run_.training.average));
  const std::size_t count = of_first_rank(models.size());
  if (run_.training.average > 1 && count > 1) {
    read_on_first_rank([&] { load_average(models, parameters_); });
    if (keep_if_better(count)) progress_.note(fmt::format("the mean of the last {} models is better, and kept", count));
  }
  if (!kept_) {
    read_on_first_rank([&] { seppo::load_checkpoint(folder_.model(), parameters_); });
    if (!has_config_) save_model(/*is_at_the_end=*/false);  // the file has the options from before the run was resumed
    kept_ = task_.evaluate();
  }
  if (run_.report) write_report(*kept_, true);
  metrics_->close();
  return *kept_;
}

bool Training::keep_if_better(std::size_t models) {
  const Evaluation evaluation = evaluate(models);
  const Best now = rank(evaluation);
  if (has_model_ && !now.is_above(best_)) return false;
  best_ = now;
  save_model(/*is_at_the_end=*/true);
  kept_ = evaluation;
  return true;
}

}  // namespace examples
