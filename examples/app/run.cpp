// The options of a training run, the checks before it, and the summary after it.
#include "app/run.h"

#include "app/invocation.h"
#include "app/memory.h"
#include "app/paths.h"
#include "app/printable.h"
#include "app/processors.h"
#include "app/snapshots.h"
#include "app/training.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/run/run_folder.h>
#include <seppo/nn/train/ranks.h>

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <iostream>

namespace examples {

using nlohmann::json;
using seppo::check;
using seppo::printable_path;

namespace {

namespace fs = std::filesystem;

constexpr const char* kFiles[] = {"model.safetensors", "config.json", "metrics.jsonl", "report.html",
                                  kSnapshotsFile};  // in --out

// Checks that `folder`, or its nearest existing ancestor, is writable, and that no folder or pipe has the name of an
// output file. Creates nothing.
void check_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error))
    throw UsageError(fmt::format("--out: '{}' is not a folder", printable_path(folder)));
  fs::path nearest = fs::absolute(folder);
  while (!fs::exists(nearest, error) && nearest.has_relative_path()) nearest = nearest.parent_path();
  if (!fs::is_directory(nearest, error) || ::access(nearest.c_str(), W_OK | X_OK) != 0)
    throw UsageError(fmt::format("--out: cannot write to folder '{}'", printable_path(folder)));
  for (const char* name : kFiles)
    if (fs::exists(folder / name, error) && !fs::is_regular_file(folder / name, error))
      throw UsageError(fmt::format("--out: '{}' is in the way: it is not a file", printable_path(folder / name)));
}

// The newest checkpoint that can be read; empty if there is none at all. Tells which ones are passed over, and why.
// Throws FormatError if none of them can be read.
std::optional<fs::path> usable_checkpoint(const char* option, const fs::path& folder, const std::string& program) {
  std::vector<std::string> reasons;
  const auto newest = seppo::newest_checkpoint(folder, [&](const seppo::Error& e) { reasons.push_back(e.what()); });
  check<seppo::FormatError>(newest || reasons.empty(), option, ": no checkpoint in '", printable_path(folder),
                            "' can be read (", reasons.size(), " tried): ", reasons.empty() ? "" : reasons[0]);
  for (const std::string& reason : reasons) std::cerr << fmt::format("{}: passed over: {}\n", program, reason);
  return newest;
}

// The config of the run saved in this folder, for resuming it.
json config_to_resume(const std::string& program, const std::string& folder) {
  const auto newest = usable_checkpoint("--resume", folder, program);
  if (!newest)
    throw UsageError(fmt::format("--resume: there is no checkpoint in '{}'", printable_path(fs::path(folder))));
  const json config = seppo::read_model_config(seppo::SafeTensorsFile(*newest));
  if (config.value("program", json()) != program)
    throw UsageError(fmt::format("--resume: '{}' is not of {}", printable_path(*newest), program));
  return config;
}

}  // namespace

void Run::add_to(CommandLine& line) {
  measures.insert(measures.end(), {"loss", "last"});
  line.fields("training", training);
  line.one_of("best", measures);
  line("threads", threads, {0, 256}, kThreadsHelp);
  if (seppo::ranks() > 1)
    line("rank_timeout", rank_timeout, {0.1, 1e9}, "seconds that a rank waits for another before it ends them all");
  line.section("Output");
  line("out", out, "folder for model.safetensors, checkpoints, config.json and metrics.jsonl");
  line("overwrite", overwrite, "replace what an earlier training saved in --out");
  line("resume", resume, "resume the training run saved in this folder, with its own options");
  line.take_all_from(
      "resume", [program = line.program()](const std::string& folder) { return config_to_resume(program, folder); },
      {"max-steps", "epochs", "threads", "rank-timeout", "out", "overwrite", "resume", "save-interval", "keep",
       "log-interval", "log-format", "report", "json"});
  line("save_interval", save_interval, {0, 1e9}, "steps between checkpoints, besides those after evaluations; 0: none");
  line("keep", keep, {1, 1000}, "checkpoints to keep");
  line("log_interval", log_interval, {1, 1e9}, "steps between lines of plain progress and of metrics.jsonl");
  line("log_format", log_format, "format of the progress; auto is a bar on a terminal and plain lines elsewhere");
  line("report", report, "write report.html with curves, samples and attention, also while training runs");
  line("json", json, kJsonHelp);
  line.show({"epochs", "batch-size", "lr", "seed", "threads", "out", "overwrite", "resume", "report"});
  line.check([this, &line] {
    if (!resume.empty()) {
      if (!line.typed("out")) return;
      const std::string from = (fs::canonical(resume) / "").string(), to = (fs::weakly_canonical(out) / "").string();
      if (to != from && to.starts_with(from))
        throw UsageError(fmt::format("--out: '{}' is within the folder to resume", printable_path(out)));
      for (const char* part : {"checkpoints", "last"})
        if (from.starts_with((fs::weakly_canonical(out / part) / "").string()))
          throw UsageError(fmt::format("--out: the folder to resume is a part of '{}'", printable_path(out)));
      return;
    }
    check_folder(out);
    for (const char* name : kFiles)
      for (const fs::path& input : line.inputs()) check_distinct("out", out / name, input);
    if (!fs::is_directory(out)) return;
    const seppo::RunFolder folder(out);
    if (!overwrite && folder.is_used()) throw UsageError(used_folder(out));
    folder.check_own();
  });
}

Result Run::train(const CommandLine& line, seppo::Parameters& parameters, const nlohmann::json& config,
                  const Task& task) {
  use_threads(threads);
  seppo::set_matmul_precision(training.trainer.matmul_precision);
  seppo::set_rank_timeout(rank_timeout);
  if (!resume.empty() && !line.typed("out")) out = resume;
  if (seppo::rank() == 0) {
    check_folder(out);
    prepare_folder("out", out);
  }
  if (seppo::rank() == 0 && !resume.empty() && !fs::equivalent(out, resume)) copy_run();
  return Training(*this, line.program(), parameters, config, task).run();
}

// --resume with another --out: the original run is left unchanged.
void Run::copy_run() const {
  seppo::RunFolder copy(out);
  if (!overwrite && copy.is_used()) throw UsageError(used_folder(out));
  copy.copy_from(resume);
}

void Run::finish(const CommandLine& line, const Task& task, const Result& result) const {
  const std::string folder = printable_path(out);
  std::cout << fmt::format("{} steps in {:.1f} s; saved in {}\n", result.steps, result.seconds, folder);
  if (report) std::cout << fmt::format("report: {}/report.html\n", folder);
  if (!task.example.empty()) {
    const std::size_t blank = std::min(task.example.find(' '), task.example.size());
    const bool is_default = out == "runs/" + line.program();
    const std::string model = is_default ? "" : " --model " + shown_line(shell_word(out.string()));
    std::cout << fmt::format("next:   {} {}{}{}\n", program_as_typed(line.program()), task.example.substr(0, blank),
                             model, task.example.substr(blank));
  }
  if (!json) return;
  nlohmann::json summary = result.summary;
  summary.update({{"seconds", result.seconds}, {"steps", result.steps}, {"peak_rss_mb", peak_rss_mb()}});
  std::cout << summary.dump() << "\n";
}

void Trained::fields(seppo::ConfigVisitor& v) {
  v("model", path, "folder or file that `" + program + " train` saved");
  v("threads", threads, {0, 256}, kThreadsHelp);
}

void Trained::weights_field(seppo::ConfigVisitor& v) { v("weights", weights, kWeightsHelp); }

std::filesystem::path Trained::file() const {
  fs::path file = fs::is_directory(path) ? path / "model.safetensors" : path;
  if (!fs::exists(file) && fs::is_directory(path))  // not evaluated yet: the newest checkpoint is used
    file = usable_checkpoint("--model", path, program).value_or(file);
  if (!fs::exists(file))
    throw UsageError(fmt::format("--model: there is no model '{}'; train one first: {} train", printable_path(path),
                                 program_as_typed(program)));
  const json config = seppo::read_model_config(seppo::SafeTensorsFile(file));
  const json saved_by = config.value("program", json("another program"));
  check<seppo::FormatError>(saved_by == program, printable_path(file), ": was saved by ",
                            seppo::printable(saved_by.is_string() ? saved_by.get<std::string>() : saved_by.dump()),
                            ", not by ", program);
  return file;
}

void use_threads(int threads) {
  constexpr int kMost = 64;
  seppo::set_num_threads(threads > 0 ? threads : std::min(available_processors(), kMost));
}

}  // namespace examples
