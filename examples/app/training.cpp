// Listens to a training run: prints what happens, and draws the report page.
#include "app/training.h"

#include "app/arithmetic.h"
#include "app/head_needs.h"
#include "app/invocation.h"
#include "app/memory.h"
#include "app/paths.h"
#include "app/printable.h"
#include "app/summary.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/train/ranks.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

namespace examples {

using nlohmann::json;
using seppo::printable_path;

namespace {

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

seppo::TrainingTask task_of(const Task& task, const json& config) {
  return {.examples = task.examples,
          .digest = task.digest,
          .lengths = task.lengths,
          .loss = task.loss,
          .evaluate = task.evaluate,
          .save = task.save,
          .config = config,
          .frozen = task.frozen};
}

// A folder that is used is refused in the words of a command line (see Training's constructor).
seppo::RunOptions options_of(const Run& run) {
  return {.folder = run.out,
          .resume = !run.resume.empty(),
          .overwrite = true,
          .log_interval = run.log_interval,
          .save_interval = run.save_interval,
          .keep = run.keep,
          .catch_signals = true};
}

// How many of these, in order, a batch of at most so many tokens has.
std::size_t fitting(std::span<const int> examples, std::span<const int> lengths, std::int64_t tokens) {
  std::size_t count = 0;
  for (const int example : examples) {
    tokens -= lengths[static_cast<std::size_t>(example)];
    if (count > 0 && tokens < 0) break;
    ++count;
  }
  return count;
}

}  // namespace

std::string used_folder(const std::filesystem::path& folder) {
  return fmt::format("--out: an earlier training is in '{}'; --overwrite replaces it, --resume {} goes on with it",
                     printable_path(folder), shown_line(shell_word(folder.string())));
}

Training::Training(const Run& run, const std::string& program, seppo::Parameters& parameters, const json& config,
                   const Task& task)
    : run_(run),
      program_(program),
      parameters_(parameters),
      config_(config),
      task_(task),
      training_(parameters, run.training, task_of(task, config), options_of(run)),
      progress_(seppo::rank() == 0 ? run.log_format : LogFormat::none, training_.steps(), run.log_interval) {
  if (seppo::ranks() > 1) seppo::check_equal_over_ranks("the arithmetic of the processor", arithmetic());
  if (run_.resume.empty() && !run_.overwrite && training_.folder().is_used()) throw UsageError(used_folder(run_.out));
  tell_memory();
  tell_warm_up();
}

void Training::tell_memory() {
  const std::vector<int> batch = large_batch();
  const MemoryNeed need = predict_memory(parameters_, batch, task_.evaluated, task_.loss, training_.trainer().config());
  check_memory(need, batch.size());
  constexpr double kMargin = 1.25;  // of address space, since pages that are not used cost nothing
  training_.reserve(static_cast<std::size_t>(kMargin * need.shard));
  progress_.note(fmt::format("{}: {} parameters, {}, {} threads, about {:.0f} MB of memory", program_,
                             parameters_.count(), task_.data, seppo::num_threads(),
                             (resident_memory() + need.total()) / 1048576));
  if (seppo::ranks() > 1) tell_traffic(batch.size());
}

void Training::tell_warm_up() {
  if (run_.training.trainer.warmup_steps < training_.steps()) return;
  progress_.note(fmt::format("{}: warm-up takes {} steps and the run has {}: the learning rate never reaches its peak",
                             program_, run_.training.trainer.warmup_steps, training_.steps()));
}

// The least is the lower bound for any all-reduce (Patarasuk and Yuan 2009).
void Training::tell_traffic(std::size_t batch) {
  const seppo::TrainerConfig& c = training_.trainer().config();
  const auto shards = static_cast<std::size_t>(c.shards), rounds = static_cast<std::size_t>(c.accumulate);
  const std::size_t used = seppo::DataParallel(parameters_, shards, rounds).shard_sizes(batch).size();
  const double size = static_cast<double>(parameters_.count() * sizeof(seppo::real)), ranks = seppo::ranks();
  progress_.note(fmt::format(
      "{} ranks share {} shards; in a step each sends at most {:.3f} MB of gradients, where {:.3f} MB is the least",
      seppo::ranks(), used, most_sent(parameters_.count(), used) / 1e6, 2 * (ranks - 1) / ranks * size / 1e6));
}

// A batch that needs as much memory as any: the longest examples, shuffled so that the first few are typical of all.
std::vector<int> Training::large_batch() const {
  const seppo::SamplerConfig config = run_.training.complete_sampler();
  seppo::Sampler sampler(task_.examples, config, task_.lengths);
  const std::span<const int> first = sampler.next();
  if (task_.lengths.empty()) return {first.begin(), first.end()};
  std::vector<int> all(task_.examples);
  std::iota(all.begin(), all.end(), 0);
  const auto length = [&](int example) { return task_.lengths[static_cast<std::size_t>(example)]; };
  std::ranges::stable_sort(all, std::greater<>(), length);
  all.resize(config.batch_tokens > 0 ? fitting(all, task_.lengths, config.batch_tokens) : first.size());
  std::ranges::shuffle(all, std::minstd_rand(1));
  return all;
}

Result Training::run() {
  try {
    const seppo::RunResult result = training_.train(
        {.begun = [this](const std::vector<json>& earlier) { begin(earlier); },
         .stepped = [this](const seppo::StepResult& now) { step(now); },
         .evaluated = [this](const seppo::RunEvents::Evaluated& now) { evaluated(now); },
         .saved = [this](const Evaluation& now, bool is_over) { write_report(now, is_over); },
         .kept_mean =
             [this](std::size_t models) {
               progress_.note(fmt::format("the mean of the last {} models is better, and kept", models));
             }});
    return {result.steps, result.seconds, result.kept.summary()};
  } catch (const seppo::Interrupted& e) {
    progress_.note(how_it_was_interrupted(e.signal));
    throw;
  }
}

std::string Training::how_it_was_interrupted(int signal) const {
  const std::int64_t steps = training_.trainer().steps();
  if (steps == 0) return fmt::format("{} before the first step; nothing was saved", ::strsignal(signal));
  return fmt::format("{}: interrupted after step {}; saved. To go on: {} train --resume {}", ::strsignal(signal), steps,
                     program_as_typed(program_), shown_line(shell_word(run_.out.string())));
}

void Training::begin(const std::vector<json>& earlier) {
  const std::int64_t step = training_.trainer().steps();
  if (!run_.resume.empty()) progress_.note(fmt::format("{}: goes on after step {}", program_, step));
  progress_.start_at(step);
  if (const std::int64_t most = run_.training.max_steps; most > 0) progress_.end_at(std::min(most, training_.steps()));
  if (run_.report && seppo::rank() == 0) begin_report(earlier);
}

void Training::begin_report(const std::vector<json>& earlier) {
  const int first = 0;
  const std::string model = examples::summary(parameters_, [&] { task_.loss({&first, 1}); });
  page_.emplace(run_.out / "report.html",
                Report::Facts{task_.title, task_.about, model, task_.data, config_, training_.steps()});
  for (const json& line : earlier) {
    const auto is_number = [&](const char* key) { return line.contains(key) && line[key].is_number(); };
    if (line.contains("val_loss"))
      page_->add_evaluation(line["step"], line);
    else if (std::ranges::all_of(std::array{"loss", "accuracy", "gradient_norm", "lr"}, is_number))  // not skipped
      page_->add_step({line["step"], line["loss"], line["accuracy"], line["gradient_norm"], line["lr"]});
  }
}

void Training::step(const seppo::StepResult& now) {
  progress_.step(now);
  if (now.is_skipped) progress_.note(fmt::format("step {}: loss or gradient is not finite; left out", now.step));
  if (page_) page_->add_step(now);
}

void Training::evaluated(const seppo::RunEvents::Evaluated& now) {
  const std::string what =
      now.models > 1 ? fmt::format("mean of {}", now.models) : fmt::format("epoch {:>4}", now.epoch);
  progress_.note(text_of(what, now.evaluation));
  if (!page_) return;
  page_->add_evaluation(training_.trainer().steps(), now.line);
  if (task_.network && now.models == 1) snapshots_.add(training_.trainer().steps(), parameters_);
}

void Training::write_report(const Evaluation& evaluation, bool is_over) {
  if (!run_.report) return;
  const std::vector<Sample> samples = task_.samples ? task_.samples() : std::vector<Sample>();
  training_.folder().check_locked();
  const json network = network_on_page(is_over);
  if (!page_) return;
  if (!network.is_null() && !snapshots_.empty()) snapshots_.write(run_.out / kSnapshotsFile);
  page_->write(samples, evaluation.summary(), is_over, network);
}

// Null if the page cannot compute with it. At the end it tells what the network does without each of its heads.
json Training::network_on_page(bool is_over) {
  const std::optional<PageNetwork> network = task_.network ? task_.network() : std::nullopt;
  json on_page = network ? to_json(*network, parameters_) : json();
  if (on_page.is_null()) return on_page;
  on_page["snapshots"] = snapshots_.steps();
  if (!is_over) return on_page;
  on_page["heads"] = scores_without_heads(parameters_, network->config.at("n_heads"), task_.measure.score);
  on_page["heads"].update({{"measure", task_.measure.name}, {"examples", task_.measure.examples}});
  return on_page;
}

}  // namespace examples
