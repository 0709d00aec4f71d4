// TrainingRun without a program: what it tells, keeps and refuses, and that it resumes to the same bytes from anywhere.
#include "nn/small_training.h"
#include "support/json.h"

#include <seppo/nn/optim/sgd.h>
#include <seppo/nn/run/data_digest.h>

#include <boost/test/unit_test.hpp>

#include <csignal>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace test::small_training;
using test::Folder;

BOOST_AUTO_TEST_CASE(resumed_anywhere_to_the_same_bytes) {
  const Folder folder("training-run");
  const Outcome whole = train(folder.path / "whole", false);
  BOOST_CHECK_EQUAL(whole.result.steps, 6);
  for (int stop = 1; stop < 6; ++stop) {
    const fs::path part = folder.path / std::to_string(stop);
    BOOST_CHECK_EQUAL(train(part, false, stop).result.steps, stop);
    const Outcome resumed = train(part, true);
    BOOST_CHECK(resumed.model == whole.model && resumed.state == whole.state);
    BOOST_CHECK_EQUAL(resumed.result.kept.val_loss, whole.result.kept.val_loss);
  }
}

// Time goes on from what the lines of the run so far say.
BOOST_AUTO_TEST_CASE(seconds_go_on_where_a_run_stopped) {
  const Folder folder("training-run");
  const fs::path metrics = folder.path / "run/metrics.jsonl";
  train(folder.path / "run", false, 3);
  std::string changed;
  for (const test::Json& read : test::json_lines(metrics)) {
    nlohmann::json line = nlohmann::json::parse(read.dump());
    if (line.contains("seconds")) line["seconds"] = 1000 * line["step"].get<double>();
    changed += line.dump() + "\n";
  }
  changed += "{\"step\": 1e300}\n{\"step\": \"1\"}\n{}\n[1]\n{\"step";  // no lines of a run
  folder.write("run/metrics.jsonl", changed);
  BOOST_CHECK_GT(train(folder.path / "run", true).result.seconds, 3000);
  int timed = 0;
  for (const test::Json& line : test::json_lines(metrics)) {
    BOOST_CHECK_LE(line["step"].number(), 6);
    if (!line.contains("seconds")) continue;
    BOOST_CHECK_GE(line["seconds"].number(), 1000 * std::min(line["step"].number(), 3.0));
    ++timed;
  }
  BOOST_CHECK_EQUAL(timed, 6);
}

// A run that is interrupted in an evaluation makes it when it goes on, and no other twice.
BOOST_AUTO_TEST_CASE(an_interrupted_evaluation_is_made_up_for) {
  const Folder folder("training-run");
  std::vector<std::int64_t> steps;
  const RunEvents events{.evaluated = [&](const RunEvents::Evaluated& e) { steps.push_back(e.line.at("step")); }};
  {
    Model model;
    TrainingTask task = task_of(model);
    task.evaluate = [&, usual = task.evaluate] {
      if (steps.size() == 1) throw Interrupted{SIGTERM};
      return usual();
    };
    TrainingRun run(model.parameters, config(), task, {.folder = folder.path / "run"});
    BOOST_CHECK_THROW(run.train(events), Interrupted);
  }
  train(folder.path / "run", true, 0, events);
  BOOST_CHECK(steps == (std::vector<std::int64_t>{2, 4, 6, 6}));  // the last is of the mean of two models
}

// With an optimiser and a schedule of the task's own.
BOOST_AUTO_TEST_CASE(a_run_takes_an_optimiser_and_a_schedule) {
  const Folder folder("training-run");
  const auto rate = [](std::int64_t step) { return 0.5 / static_cast<double>(step); };
  const auto state_after = [&](const fs::path& part, bool resume, int max_steps) {
    Model model;
    Sgd sgd(model.parameters, {.momentum = 0.5});
    TrainingConfig changed = config();
    changed.max_steps = max_steps;
    TrainingTask task = task_of(model);
    task.optimiser = sgd;
    task.schedule = rate;
    TrainingRun run(model.parameters, changed, task, {.folder = part, .resume = resume, .save_interval = 1});
    const RunResult result =
        run.train({.stepped = [&](const StepResult& now) { BOOST_CHECK_EQUAL(now.lr, rate(now.step)); }});
    return test::read(part / "checkpoints" / (std::to_string(result.steps) + ".safetensors"));
  };
  const std::string expected = state_after(folder.path / "whole", false, 0);
  BOOST_CHECK(expected.find("optimiser.velocity.layer.weight") != std::string::npos);
  for (int stop = 1; stop < 6; stop += 2) {
    const fs::path part = folder.path / std::to_string(stop);
    state_after(part, false, stop);
    BOOST_CHECK(state_after(part, true, 0) == expected);
  }
}

BOOST_AUTO_TEST_CASE(observers_are_told_in_order) {
  const Folder folder("training-run");
  std::string told;
  const auto listen = [&] {
    return RunEvents{.begun = [&](const auto& earlier) { told += "begun " + std::to_string(earlier.size()) + "\n"; },
                     .stepped = [&](const StepResult& now) { told += "step " + std::to_string(now.step) + "\n"; },
                     .evaluated =
                         [&](const RunEvents::Evaluated& now) {
                           BOOST_CHECK_EQUAL(now.line["val_loss"].get<double>(), now.evaluation.val_loss);
                           told += "evaluated " + std::to_string(now.epoch) + " " + std::to_string(now.models) + "\n";
                         },
                     .saved = [&](const Evaluation&, bool is_over) { told += is_over ? "over\n" : "saved\n"; }};
  };
  train(folder.path, false, 3, listen());
  BOOST_CHECK_EQUAL(told, "begun 0\nstep 1\nstep 2\nevaluated 1 1\nsaved\nstep 3\nevaluated 2 1\nover\n");
  told.clear();
  train(folder.path, true, 0, listen());  // of the five lines, the last is an evaluation after step 3
  BOOST_CHECK(
      told.starts_with("begun 5\nstep 4\nevaluated 2 1\nsaved\nstep 5\nstep 6\nevaluated 3 1\nevaluated 3 2\n"));
  BOOST_CHECK(told.ends_with("over\n"));
}

BOOST_AUTO_TEST_CASE(runs_that_cannot_be) {
  const Folder folder("training-run");
  const Model model;
  Parameters parameters(1);
  parameters.root().parameter("w", {1}, init_ones());
  const auto make = [&](const TrainingConfig& how, const TrainingTask& task, const RunOptions& options) {
    TrainingRun(parameters, how, task, options);
  };
  const RunOptions options{.folder = folder.path / "run"};
  const TrainingTask task = task_of(model);
  TrainingConfig wrong = config();
  wrong.epochs = 0;
  BOOST_CHECK_EXCEPTION(make(wrong, task, options), ArgumentError, says("training: epochs 0 is not in 1"));
  TrainingTask part = task;
  part.evaluate = nullptr;
  BOOST_CHECK_EXCEPTION(make(config(), part, options), ArgumentError, says("the task has no evaluation"));
  part.loss = nullptr;
  BOOST_CHECK_EXCEPTION(make(config(), part, options), ArgumentError, says("the task has no loss"));
  const auto with = [&](const auto& change) {
    RunOptions changed = options;
    change(changed);
    return changed;
  };
  BOOST_CHECK_EXCEPTION(make(config(), task, with([](auto& o) { o.log_interval = 0; })), ArgumentError,
                        says("log_interval 0"));
  BOOST_CHECK_EXCEPTION(make(config(), task, with([](auto& o) { o.save_interval = -1; })), ArgumentError,
                        says("save_interval -1"));
  BOOST_CHECK_EXCEPTION(make(config(), task, with([](auto& o) { o.keep = 0; })), ArgumentError, says("keep 0"));
  BOOST_CHECK(!fs::exists(options.folder));  // none of them has left a trace
}

BOOST_AUTO_TEST_CASE(a_used_folder_and_other_data_are_refused) {
  const Folder folder("training-run");
  train(folder.path, false, 1);
  const std::string model = test::read(folder.path / "model.safetensors");
  BOOST_CHECK_EXCEPTION(train(folder.path, false), StateError, says("an earlier training is in"));
  Model other;
  TrainingTask task = task_of(other);
  task.digest = "5678";
  const RunOptions options{.folder = folder.path, .resume = true};
  BOOST_CHECK_EXCEPTION(TrainingRun(other.parameters, config(), task, options).train(), FormatError,
                        says("the data have changed: their digest was 1234, and is 5678"));
  BOOST_CHECK_EXCEPTION(train(folder.path / "none", true), FormatError, says("has no checkpoint to go on from"));
  BOOST_CHECK(test::read(folder.path / "model.safetensors") == model);
  const TrainingRun holder(other.parameters, config(), task, options);
  BOOST_CHECK_EXCEPTION(train(folder.path, true), FileError, says("another training is writing"));
}

// Nothing is caught unless asked for, and then only while the run lives.
BOOST_AUTO_TEST_CASE(signals_are_caught_if_asked_for) {
  const Folder folder("training-run");
  const auto handler = [] {
    struct sigaction now {};
    ::sigaction(SIGTERM, nullptr, &now);
    return now.sa_handler;
  };
  const auto before = handler();
  train(folder.path / "plain", false, 0, {.stepped = [&](const StepResult&) { BOOST_CHECK(handler() == before); }});
  {
    Model model;
    TrainingRun run(model.parameters, config(), task_of(model),
                    {.folder = folder.path / "caught", .catch_signals = true});
    const RunEvents events{.stepped = [](const StepResult& now) {
      if (now.step == 3) ::raise(SIGTERM);
    }};
    BOOST_CHECK_EXCEPTION(run.train(events), Interrupted, [](const Interrupted& e) { return e.signal == SIGTERM; });
  }
  BOOST_CHECK(handler() == before);
  BOOST_CHECK(fs::exists(folder.path / "caught/checkpoints/3.safetensors"));
  BOOST_CHECK(train(folder.path / "caught", true).model == test::read(folder.path / "plain/model.safetensors"));
}

// Before each model that is kept, so that the files that belong to it are there when it is.
BOOST_AUTO_TEST_CASE(what_belongs_to_a_model_is_saved_before_it) {
  const Folder folder("training-run");
  Model model;
  TrainingTask task = task_of(model);
  int saves = 0;
  task.save = [&] { BOOST_CHECK_EQUAL(fs::exists(folder.path / "model.safetensors"), saves++ > 0); };
  TrainingRun(model.parameters, config(), task, {.folder = folder.path}).train();
  BOOST_CHECK_GE(saves, 1);
}

// A run that replaces another, and is killed before it has saved anything, has not taken the other's metrics.
BOOST_AUTO_TEST_CASE(metrics_go_with_the_checkpoints) {
  const Folder folder("training-run");
  const fs::path run = folder.path / "run", metrics = run / "metrics.jsonl";
  train(run, false, 3);
  const std::string earlier = test::read(metrics);
  struct Killed {};
  const auto replace = [&](RunEvents events) {
    Model model;
    TrainingRun(model.parameters, config(), task_of(model), {.folder = run, .overwrite = true, .log_interval = 1})
        .train(std::move(events));
  };
  const RunEvents killed{.stepped = [](const StepResult& step) {
    if (step.step == 2) throw Killed{};
  }};
  for (int time = 0; time < 2; ++time) {
    BOOST_CHECK_THROW(replace(killed), Killed);
    BOOST_CHECK_NE(test::read(metrics), earlier);
  }
  train(run, true, 3);
  BOOST_CHECK_EQUAL(test::read(metrics), earlier);
  BOOST_CHECK_THROW(replace(killed), Killed);
  replace({});
  BOOST_CHECK_EQUAL(test::json_lines(metrics).front()["step"].number(), 1);
  BOOST_CHECK(!fs::exists(run / "checkpoints/metrics.jsonl"));
}

// A measure may be a text that a model wrote.
BOOST_AUTO_TEST_CASE(a_measure_that_is_not_utf8_is_written) {
  const Folder folder("training-run");
  Model model;
  TrainingTask task = task_of(model);
  task.evaluate = [] { return Evaluation{.val_loss = 1, .measures = {{"val_sample", "a\xc3"}}}; };
  TrainingRun(model.parameters, config(), task, {.folder = folder.path, .log_interval = 1}).train();
  BOOST_CHECK_EQUAL(test::json_lines(folder.path / "metrics.jsonl").back()["val_sample"].text(), "a\xef\xbf\xbd");
}

// After so many steps, after evaluations, and at the end.
BOOST_AUTO_TEST_CASE(checkpoints_are_saved_as_often_as_asked) {
  for (const int interval : {0, 1, 2, 4, 5, 7})
    for (const int eval_interval : {1, 3}) {
      const Folder folder("training-run");
      Model model;
      TrainingConfig changed = config();
      changed.eval_interval = eval_interval;
      const RunOptions options{.folder = folder.path, .save_interval = interval, .keep = 100};
      TrainingRun(model.parameters, changed, task_of(model), options).train();
      std::set<int> expected{6}, found;
      for (int step = 1; step <= 6; ++step)
        if ((interval > 0 && step % interval == 0) || step % (2 * eval_interval) == 0) expected.insert(step);
      for (int step = 0; step <= 7; ++step)
        if (fs::exists(folder.path / "checkpoints" / (std::to_string(step) + ".safetensors"))) found.insert(step);
      BOOST_TEST(found == expected, boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(a_measure_that_is_not_finite_ends_the_run) {
  const Folder folder("training-run");
  Model model;
  TrainingTask task = task_of(model);
  task.evaluate = [] { return Evaluation{.val_loss = std::numeric_limits<double>::quiet_NaN()}; };
  TrainingRun run(model.parameters, config(), task, {.folder = folder.path});
  BOOST_CHECK_EXCEPTION(run.train(), NumericError, says("evaluation after step 2: val_loss is nan"));
}

// Evaluations compute in the memory of the steps.
BOOST_AUTO_TEST_CASE(an_evaluation_takes_no_memory_of_its_own) {
  const Folder folder("training-run");
  constexpr std::size_t kReserved = std::size_t{1} << 21;
  Model model;
  TrainingTask task = task_of(model);
  std::size_t least = std::numeric_limits<std::size_t>::max();
  task.evaluate = [&] {
    const std::vector<int> one{1};
    return Evaluation{.val_loss = evaluate(one, [&](auto some) {
                                    least = std::min(least, tape().capacity());
                                    return model.loss(some);
                                  }).mean("loss")};
  };
  TrainingRun run(model.parameters, config(), task, {.folder = folder.path / "run"});
  run.reserve(kReserved);
  run.train();
  BOOST_CHECK_GE(least, kReserved);
}
