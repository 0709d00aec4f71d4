// The training loop as a program shows it, and what comes before and after it.
#include "app/run.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/data/text.h>
#include <seppo/nn/summary.h>

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <fstream>
#include <iostream>
#include <limits>
#include <optional>
#include <thread>

namespace examples {

using nlohmann::json;
using seppo::check;
using seppo::FileError;
using seppo::printable_path;

namespace {

volatile std::sig_atomic_t interrupted = 0;

// The first signal asks the loop to stop, the second ends the program. Lost listeners of the progress do not end it.
class CatchInterrupts {
 public:
  CatchInterrupts() {
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      if (interrupted) ::_exit(128 + signal);
      interrupted = 1;
    };
    action.sa_flags = SA_RESTART;
    interrupted = 0;
    for (std::size_t i = 0; i < std::size(kSignals); ++i) {
      if (kSignals[i] == SIGPIPE) action.sa_handler = SIG_IGN;
      ::sigaction(kSignals[i], &action, &old_[i]);
    }
  }
  ~CatchInterrupts() {
    for (std::size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &old_[i], nullptr);
  }
  CatchInterrupts(const CatchInterrupts&) = delete;
  CatchInterrupts& operator=(const CatchInterrupts&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  struct sigaction old_[std::size(kSignals)]{};
};

// Checks that `folder` can be made and written before any work is done.
void prepare_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error))
    throw UsageError(fmt::format("--out: '{}' is not a folder", printable_path(folder)));
  std::filesystem::create_directories(folder, error);
  if (error || ::access(folder.c_str(), W_OK | X_OK) != 0)
    throw UsageError(fmt::format("--out: cannot write to folder '{}'", printable_path(folder)));
}

// metrics.jsonl: a line for each --log-interval steps and each evaluation.
class Metrics {
 public:
  explicit Metrics(const std::filesystem::path& file) : name_(printable_path(file)), stream_(file) { flush(); }
  void write(const json& line) { stream_ << line << "\n"; }
  void flush() { check<FileError>(stream_.flush().good(), name_, ": cannot write"); }

 private:
  std::string name_;
  std::ofstream stream_;
};

json summary_of(const Evaluation& e) {
  json summary = e.measures.is_object() ? e.measures : json::object();
  summary["val_loss"] = e.val_loss;
  return summary;
}

std::string text_of(std::int64_t epoch, const Evaluation& e) {
  std::string text = fmt::format("epoch {:>4} | val_loss {:#.4g}", epoch, e.val_loss);
  for (const auto& [key, value] : e.measures.items())
    if (value.is_number_float()) text += fmt::format(" | {} {:#.4g}", key, value.get<double>());
  return text;
}

}  // namespace

double peak_rss_mb() {
  // Not getrusage's figure: Linux starts it at what the process that started this one had in memory.
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name; status.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    if (double kib = 0; name == "VmHWM:" && status >> kib) return kib / 1024;
  return 0;
}

void TrainingConfig::fields(seppo::ConfigVisitor& v) {
  v("epochs", epochs, {1, 1e6}, "passes over the training data, or parts of one: see --epoch-steps");
  v("max_steps", max_steps, {0, 2e9}, "stop after this many steps, on the schedule of all epochs; 0 for never");
  sampler.fields(v);
  trainer.fields(v);
  v("eval_interval", eval_interval, {1, 1e6}, "epochs between evaluations, after each of which the model is saved");
}

void TrainingConfig::validate() const {
  seppo::TrainerConfig complete = trainer;
  complete.steps = 1;
  complete.validate();
}

void Run::add_to(CommandLine& line) {
  line.fields("training", training);
  line("threads", threads, {0, 256}, kThreadsHelp);
  line.section("Output");
  line("out", out, "folder for config.json, model.safetensors and metrics.jsonl");
  line("log_interval", log_interval, {1, 1e9}, "steps between lines of plain progress and of metrics.jsonl");
  line("log_format", log_format, "format of the progress; auto is a bar on a terminal and plain lines elsewhere");
  line("report", report, "write report.html with curves, samples and attention, also while training runs");
  line("json", json, kJsonHelp);
}

Result Run::train(const CommandLine& line, seppo::Parameters& parameters, const Task& task,
                  const std::function<void()>& save) const {
  use_threads(threads);
  prepare_folder(out);
  seppo::SamplerConfig sampler_config = training.sampler;
  sampler_config.seed = seed();
  seppo::Sampler sampler(task.examples, sampler_config, task.lengths);
  seppo::TrainerConfig trainer_config = training.trainer;
  trainer_config.steps = training.epochs * sampler.batches_per_epoch();
  seppo::Trainer trainer(parameters, trainer_config);
  const std::int64_t steps = trainer_config.steps;

  Metrics metrics(out / "metrics.jsonl");
  const CatchInterrupts catch_interrupts;
  Progress progress(log_format, steps, log_interval);
  progress.note(fmt::format("{}: {} parameters, {}, {} threads", line.program(), parameters.count(), task.data,
                            seppo::num_threads()));
  if (trainer_config.warmup_steps >= steps)
    progress.note(fmt::format("--warmup-steps: {} are as many as all steps, {}, or more: the peak is not passed",
                              trainer_config.warmup_steps, steps));
  std::optional<Report> page;
  if (report) {
    const int first = 0;
    page.emplace(out / "report.html", Report::Facts{task.title, task.about,
                                                    seppo::summary(parameters,
                                                                   [&] {
                                                                     task.loss({&first, 1});
                                                                   }),
                                                    line.config(), steps});
  }

  Result result;
  const auto is_over = [&] {
    return interrupted || trainer.steps() == steps || (training.max_steps > 0 && trainer.steps() >= training.max_steps);
  };
  do {
    const seppo::StepResult now = trainer.step(sampler.next(), task.loss);
    progress.step(now);
    if (page) page->add_step(now);
    const bool is_last = is_over(), ends_epoch = now.step % sampler.batches_per_epoch() == 0;
    if (now.step % log_interval == 0 || is_last)
      metrics.write({{"step", now.step},
                     {"epoch", sampler.epoch()},
                     {"loss", now.loss},
                     {"accuracy", now.accuracy},
                     {"gradient_norm", now.gradient_norm},
                     {"lr", now.lr},
                     {"seconds", progress.seconds()}});
    if (!is_last && !(ends_epoch && sampler.epoch() % training.eval_interval == 0)) continue;
    const Evaluation evaluation = task.evaluate();
    progress.note(text_of(sampler.epoch(), evaluation));
    result.summary = summary_of(evaluation);
    nlohmann::json logged = result.summary;
    logged.update({{"epoch", sampler.epoch()}, {"step", now.step}});
    metrics.write(logged);
    task.save ? task.save(evaluation) : save();
    metrics.flush();
    if (page) {
      page->add_evaluation(now.step, result.summary);
      page->write(task.samples ? task.samples() : std::vector<Sample>(), is_over());
    }
  } while (!is_over());
  result.steps = trainer.steps();
  result.seconds = progress.seconds();
  result.is_interrupted = interrupted;
  if (interrupted) progress.note(fmt::format("interrupted after step {}; saved", result.steps));
  return result;
}

void Run::finish(const CommandLine& line, const Task& task, const Result& result) const {
  const std::string folder = printable_path(out);
  std::cout << fmt::format("{} steps in {:.1f} s; saved in {}\n", result.steps, result.seconds, folder);
  if (report) std::cout << fmt::format("report: {}/report.html\n", folder);
  if (!task.example.empty()) {
    const std::size_t blank = std::min(task.example.find(' '), task.example.size());
    const std::string model = out == "runs/" + line.program() ? "" : " --model " + folder;
    std::cout << fmt::format("next:   {} {}{}{}\n", line.program(), task.example.substr(0, blank), model,
                             task.example.substr(blank));
  }
  if (!json) return;
  nlohmann::json summary = result.summary;
  summary.update({{"seconds", result.seconds}, {"steps", result.steps}, {"peak_rss_mb", peak_rss_mb()}});
  std::cout << summary.dump() << "\n";
}

void Run::write_config(const nlohmann::json& config) const {
  seppo::write_file_atomically(out / "config.json",
                               config.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void Trained::fields(seppo::ConfigVisitor& v) {
  v("model", path, ("folder or file that `" + program + " train` saved").c_str());
  v("threads", threads, {0, 256}, kThreadsHelp);
}

std::filesystem::path Trained::file() const {
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "model.safetensors" : path;
  if (!std::filesystem::exists(file))
    throw UsageError(
        fmt::format("--model: there is no model '{}'; train one first: {} train", printable_path(path), program));
  const json config = seppo::read_model_config(file);
  const json saved_by = config.value("program", json("another program"));
  check<seppo::FormatError>(saved_by == program, printable_path(file), ": was saved by ",
                            seppo::printable(saved_by.is_string() ? saved_by.get<std::string>() : saved_by.dump()),
                            ", not by ", program);
  return file;
}

void use_threads(int threads) {
  const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  seppo::set_num_threads(threads > 0 ? threads : static_cast<int>(std::min(processors, 64u)));
}

}  // namespace examples
