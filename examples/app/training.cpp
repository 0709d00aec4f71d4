#include "app/training.h"

#include <seppo/autograd/ops.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/data/vocabulary.h>

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>

namespace examples {

using nlohmann::json;

void TrainingOptions::add_to(CommandLine& line) {
  line.section("Training");
  line.integer("epochs", &epochs, 1, 1'000'000, "passes over the training data, or parts of one: see --epoch-steps");
  line.integer("epoch-steps", &epoch_steps, 0, 1'000'000'000, "steps in an epoch; 0: a pass over the training data");
  line.integer("max-steps", &max_steps, 0, 2'000'000'000,
               "stop after so many steps, on the schedule of all epochs; 0: never");
  line.integer("batch-size", &batch_size, 1, 1'000'000, "examples in a step");
  line.flag("in-order", &in_order, "take the examples in the same order in each epoch");
  line.number("lr", &lr, 1e-12, 100, "peak learning rate");
  line.number("min-lr", &min_lr, 0, 100, "learning rate at the end of a cosine or linear schedule");
  line.integer("warmup-steps", &warmup_steps, 0, 1'000'000'000, "steps to reach the peak");
  line.choice("schedule", &schedule, {"cosine", "linear", "noam", "const"},
              "course of the learning rate after warm-up; noam falls as 1 / sqrt(step)");
  line.pair("adam-betas", &adam.beta1, &adam.beta2, 0, 0.999999999, "decay of Adam's moments");
  line.number("weight-decay", &adam.weight_decay, 0, 100, "decoupled decay of weight matrices (AdamW)");
  line.number("clip-norm", &clip_norm, 0, 1e9, "largest norm of the gradient; 0: no clipping");
  line.seed("seed", &seed, "of initial values, shuffling, dropout and drawn data");
  line.integer("threads", &threads, 0, 256, "threads; 0: one for each processor. Results do not depend on it");
  line.section("Output");
  line.path("out", &out, "folder for config.json, model.safetensors and metrics.jsonl");
  line.integer("eval-interval", &eval_interval, 1, 1'000'000, "epochs between evaluations");
  line.integer("log-interval", &log_interval, 1, 1'000'000'000, "steps between lines of plain progress and metrics");
  line.choice("log-format", &log_format, {"auto", "bar", "plain", "none"}, "progress: a bar on a terminal, else lines");
  line.flag("report", &report, "write report.html into the folder: curves, samples, attention; during training, too");
  line.flag("json", &json, "print the result as one JSON object, the last line of standard output");
}

void TrainingOptions::validate() const {
  if (schedule == "noam" && warmup_steps == 0) throw UsageError("--schedule: noam needs --warmup-steps of at least 1");
  if (min_lr > lr) throw UsageError(fmt::format("--min-lr: {} is above --lr {}", min_lr, lr));
}

json TrainingOptions::to_json() const {
  return {{"epochs", epochs},
          {"epoch_steps", epoch_steps},
          {"max_steps", max_steps},
          {"batch_size", batch_size},
          {"in_order", in_order},
          {"lr", lr},
          {"min_lr", min_lr},
          {"warmup_steps", warmup_steps},
          {"schedule", schedule},
          {"adam_betas", {adam.beta1, adam.beta2}},
          {"weight_decay", adam.weight_decay},
          {"clip_norm", clip_norm},
          {"seed", seed}};
}

namespace {

volatile std::sig_atomic_t interrupted = 0;

// The first Ctrl-C (or SIGTERM) asks the loop to stop; the second ends the program at once.
class CatchInterrupts {
 public:
  CatchInterrupts() {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
    ::sigaction(SIGINT, &action, &old_int_);
    ::sigaction(SIGTERM, &action, &old_term_);
  }
  ~CatchInterrupts() {
    ::sigaction(SIGINT, &old_int_, nullptr);
    ::sigaction(SIGTERM, &old_term_, nullptr);
  }
  CatchInterrupts(const CatchInterrupts&) = delete;
  CatchInterrupts& operator=(const CatchInterrupts&) = delete;

 private:
  struct sigaction old_int_ {
  }, old_term_{};
};

seppo::Schedule make_schedule(const TrainingOptions& o, std::int64_t steps) {
  if (o.schedule == "cosine") return seppo::cosine_schedule(o.lr, o.warmup_steps, steps, o.min_lr);
  if (o.schedule == "linear") return seppo::linear_schedule(o.lr, o.warmup_steps, steps, o.min_lr);
  // The paper's curve, scaled so that its peak is lr.
  if (o.schedule == "noam") return seppo::noam_schedule(1, o.warmup_steps, o.lr * std::sqrt(o.warmup_steps));
  return seppo::constant_schedule(o.lr, o.warmup_steps);
}

std::string evaluation_text(int epoch, const json& evaluation) {
  std::string text = fmt::format("epoch {:>4}", epoch);
  for (const auto& [key, value] : evaluation.items())
    if (value.is_number_float()) text += fmt::format(" | {} {:.4f}", key, value.get<double>());
  return text;
}

}  // namespace

namespace {

// The examples of an epoch, batch after batch, in an order drawn by seed and epoch. With lengths: drawn, then sorted
// within pools of many batches, whose order is drawn again; what does not fill a batch stays last.
std::vector<int> epoch_order(const Task& task, std::size_t batch, const TrainingOptions& options, int epoch) {
  const auto draw = [&](std::size_t n, std::uint64_t stream) {
    return seppo::random_permutation(static_cast<int>(n), {options.seed, seppo::Purpose::shuffle, stream});
  };
  if (options.in_order) {
    std::vector<int> order(task.examples);
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  std::vector<int> order = draw(task.examples, static_cast<std::uint64_t>(epoch));
  if (task.lengths.empty()) return order;
  const std::size_t batches = task.examples / batch, pool = 50 * batch;
  for (std::size_t first = 0; first < order.size(); first += pool)
    std::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(first),
                     order.begin() + static_cast<std::ptrdiff_t>(std::min(first + pool, order.size())),
                     [&](int a, int b) {
                       return task.lengths[static_cast<std::size_t>(a)] < task.lengths[static_cast<std::size_t>(b)];
                     });
  std::vector<int> mixed;
  for (const int b : draw(batches, (std::uint64_t{1} << 32) + static_cast<std::uint64_t>(epoch))) {
    const auto examples = std::span(order).subspan(static_cast<std::size_t>(b) * batch, batch);
    mixed.insert(mixed.end(), examples.begin(), examples.end());
  }
  mixed.insert(mixed.end(), order.begin() + static_cast<std::ptrdiff_t>(batches * batch), order.end());
  return mixed;
}

// The words this program was started with, quoted where a shell needs it.
std::string command_text() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text;
  for (std::string word; std::getline(file, word, '\0');) {
    const bool is_plain = !word.empty() && word.find_first_not_of(
                                               "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                               "0123456789-_=+./,:") == std::string::npos;
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
    text += (text.empty() ? "" : " ") + (is_plain ? word : quoted + "'");
  }
  return text;
}

}  // namespace

TrainingResult train(seppo::Parameters& parameters, const TrainingOptions& options, const Task& task) {
  const std::size_t batch = std::min<std::size_t>(static_cast<std::size_t>(options.batch_size), task.examples);
  // A last part of a batch waits for the next shuffle.
  const std::size_t in_a_pass = task.examples / batch, wanted = static_cast<std::size_t>(options.epoch_steps);
  const std::size_t batches = wanted > 0 ? std::min(wanted, in_a_pass) : in_a_pass;
  const std::int64_t steps = options.epochs * static_cast<std::int64_t>(batches);
  const seppo::Schedule schedule = make_schedule(options, steps);
  seppo::Adam adam(parameters, options.adam);
  seppo::DataParallel data_parallel(parameters);
  std::ofstream metrics(options.out / "metrics.jsonl");
  seppo::check<seppo::FileError>(metrics.good(), options.out.string(), "/metrics.jsonl: cannot write");
  const CatchInterrupts catch_interrupts;
  Progress progress(options.log_format, steps, options.log_interval);
  if (options.warmup_steps >= steps)
    progress.note(fmt::format("--warmup-steps: {} are as many as all steps, {}, or more: the peak is not passed",
                              options.warmup_steps, steps));
  TrainingResult result;
  std::optional<Report> report;
  if (options.report)
    report.emplace(options.out / "report.html", task.name, task.about, task.summary, command_text(), task.config);

  const auto ended = [&] { return interrupted || (options.max_steps > 0 && result.steps >= options.max_steps); };
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    const std::vector<int> order = epoch_order(task, batch, options, epoch);
    for (std::size_t b = 0; b < batches && !ended(); ++b) {
      const auto examples = std::span(order).subspan(b * batch, batch);
      const std::int64_t step = ++result.steps;
      const seppo::StepLoss sums = data_parallel.backward(
          batch, options.seed, static_cast<std::uint32_t>(step),
          [&](std::size_t first, std::size_t last) { return task.loss(examples.subspan(first, last - first)); });
      const double norm = seppo::gradient_norm(parameters) / sums.count;
      seppo::check<seppo::NumericError>(std::isfinite(sums.loss) && std::isfinite(norm), "step ", step, ": loss ",
                                        sums.loss, " or gradient norm ", norm, " is not finite; try a lower --lr");
      const double lr = schedule(step);
      adam.step(lr, seppo::clip_factor(norm, options.clip_norm) / sums.count);

      const StepReport now{step, sums.loss / sums.count, sums.correct / sums.count, norm, lr};
      progress.step(now);
      // Some 400 points make a curve.
      if (report && (step % std::max<std::int64_t>(1, steps / 400) == 0 || step == 1)) report->add_step(now);
      if (step % options.log_interval == 0 || step == steps)
        metrics << json{{"step", step},
                        {"epoch", epoch},
                        {"loss", now.loss},
                        {"accuracy", now.accuracy},
                        {"gradient_norm", norm},
                        {"lr", lr},
                        {"seconds", progress.seconds()}}
                << "\n";
    }
    const bool last = ended() || epoch == options.epochs;
    if (last || epoch % options.eval_interval == 0) {
      result.evaluation = task.evaluate();
      progress.note(evaluation_text(epoch, result.evaluation));
      json line = result.evaluation;
      line["epoch"] = epoch;
      line["step"] = result.steps;
      metrics << line << std::endl;
      task.save();
      if (report) {
        report->add_evaluation(result.steps, result.evaluation);
        report->write(task.samples ? task.samples() : std::vector<ReportSample>{}, last);
      }
    }
    if (last) break;
  }
  result.seconds = progress.seconds();
  result.interrupted = interrupted != 0;
  if (result.interrupted) progress.note(fmt::format("interrupted after step {}; saved", result.steps));
  return result;
}

seppo::ShardLoss classification_loss(const seppo::Tensor& logits, std::span<const int> targets,
                                     double label_smoothing) {
  const std::vector<int> best = argmax(logits);
  double correct = 0;
  for (std::size_t i = 0; i < best.size(); ++i) correct += best[i] == targets[i];
  return {
      .loss = cross_entropy(logits, targets, {.label_smoothing = label_smoothing, .reduction = seppo::Reduction::sum}),
      .count = static_cast<double>(targets.size()),
      .correct = correct};
}

void print_result(const TrainingResult& result, const TrainingOptions& options) {
  std::cout << fmt::format("{} steps in {:.1f} s; saved in {}\n", result.steps, result.seconds, options.out.string());
  if (!options.json) return;
  json summary = result.evaluation;
  summary.update({{"seconds", result.seconds}, {"steps", result.steps}, {"peak_rss_mb", peak_rss_mb()}});
  std::cout << summary.dump() << "\n";
}

void prepare_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error))
    throw UsageError(fmt::format("--out: '{}' is not a folder", seppo::printable(folder.string(), 120)));
  std::filesystem::create_directories(folder, error);
  if (error || ::access(folder.c_str(), W_OK | X_OK) != 0)
    throw UsageError(fmt::format("--out: cannot write to folder '{}'", seppo::printable(folder.string(), 120)));
}

void check_heads(int d_model, int n_heads) {
  if (d_model % n_heads != 0)
    throw UsageError(fmt::format("--d-model: {} is not a multiple of --heads {}", d_model, n_heads));
}

void use_threads(int threads) {
  const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  seppo::set_num_threads(threads > 0 ? threads : static_cast<int>(std::min(processors, 64u)));
}

double peak_rss_mb() {
  // Not getrusage's figure: Linux starts it at what the process that started this one had in memory.
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name; status.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    if (double kib = 0; name == "VmHWM:" && status >> kib) return kib / 1024;
  return 0;
}

}  // namespace examples
