// A training goes on while its files are flushed to the disk, which they reach in the order that RunFolder documents;
// what fails there ends the run, and loses nothing that was saved before.
#include <seppo/nn/run/training_run.h>

#include "support/recorded_files.h"
#include "support/run_files.h"

#include <seppo/autograd/ops.h>

#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace seppo;
using test::FileEvent;
using test::writing;
namespace fs = std::filesystem;

namespace {

fs::path checkpoint(const fs::path& folder, int step) {
  return folder / "checkpoints" / (std::to_string(step) + ".safetensors");
}

// Of a run that keeps one checkpoint, and models for the mean of two.
void save(RunFolder& folder, int step) {
  folder.save_last(step, 2, writing("last"));
  folder.save_checkpoint(step, 1, writing("state " + std::to_string(step)));
  folder.save_model(writing("model " + std::to_string(step)));
}

void save_later(RunFolder& folder, int step) {
  folder.save_in_background([&] { save(folder, step); });
}

// What happened, without the names of temporary files.
std::vector<std::string> lines(const std::vector<FileEvent>& events, const fs::path& root) {
  std::vector<std::string> all;
  for (const FileEvent& e : events) {
    const fs::path& path = e.what == "rename" ? e.to : e.path;
    std::string name = path == root ? "." : path.lexically_relative(root).string();
    name = name.substr(0, name.find(".tmp-"));
    const std::string line = e.what + " " + name;
    if (all.empty() || all.back() != line) all.push_back(line);
  }
  return all;
}

bool has_temporary_files(const fs::path& folder) {
  return std::ranges::any_of(fs::recursive_directory_iterator(folder), [](const fs::directory_entry& entry) {
    return entry.path().string().find(".tmp-") != std::string::npos;
  });
}

// Three epochs, of two steps unless there are more examples.
struct Run {
  Parameters parameters{1};
  Tensor w = parameters.root().parameter("w", {2}, init_ones());
  TrainingRun run;

  explicit Run(const fs::path& folder, bool resume = false, int save_interval = 1, std::size_t examples = 8)
      : run(parameters, {.epochs = 3, .average = 2, .sampler = {.batch_size = 4}, .trainer = {.lr = 0.1}},
            {.examples = examples,
             .digest = "1234",
             .loss = [this](std::span<const int> some) { return loss(some); },
             .evaluate = [this] { return Evaluation{.val_loss = static_cast<double>(w.values()[0])}; }},
            {.folder = folder, .resume = resume, .save_interval = save_interval}) {}

  ShardLoss loss(std::span<const int> some) const {
    const auto count = static_cast<double>(some.size());
    return {.loss = sum(w * w), .count = count};
  }
};

// False at the beginning of a run.
bool can_resume(const fs::path& folder) {
  return newest_checkpoint(folder, [](const Error&) {}).has_value();
}

struct Outcome {
  std::string model, state;
};

Outcome files(const fs::path& folder) {
  return {test::read(folder / "model.safetensors"), test::read(checkpoint(folder, 6))};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_save_returns_before_its_files_are_flushed) {
  const test::PlainFolder base("background-saves");
  RunFolder folder(base.path);
  save(folder, 1);
  const std::vector<FileEvent> events = test::record_files([&] {
    {
      const test::HeldFlushes held;
      save_later(folder, 2);
      BOOST_CHECK_EQUAL(test::read(folder.model()), "model 1");
      BOOST_CHECK(!fs::exists(checkpoint(base.path, 2)));
      BOOST_CHECK(fs::exists(checkpoint(base.path, 1)));
      folder.check_background();
    }
    folder.finish();
    BOOST_CHECK_EQUAL(test::read(folder.model()), "model 2");
    BOOST_CHECK_EQUAL(test::read(checkpoint(base.path, 2)), "state 2");
    BOOST_CHECK(!fs::exists(checkpoint(base.path, 1)));
  });
  const std::vector<std::string> order = lines(events, base.path);
  const std::vector<std::string> expected{"write last/2.safetensors",
                                          "write checkpoints/2.safetensors",
                                          "write model.safetensors",
                                          "fsync last/2.safetensors",
                                          "rename last/2.safetensors",
                                          "fsync last",
                                          "fsync checkpoints/2.safetensors",
                                          "rename checkpoints/2.safetensors",
                                          "fsync checkpoints",
                                          "remove checkpoints/1.safetensors",
                                          "fsync model.safetensors",
                                          "rename model.safetensors",
                                          "fsync ."};
  BOOST_CHECK_EQUAL_COLLECTIONS(order.begin(), order.end(), expected.begin(), expected.end());
}

// Whatever is done next with the folder, it finds the files that were saved.
BOOST_AUTO_TEST_CASE(what_comes_next_waits) {
  const auto after = [](const auto& next) {
    const test::PlainFolder base("background-saves");
    {
      RunFolder folder(base.path);
      save(folder, 1);
      std::future<void> release;
      test::record_files([&] {
        std::optional<test::HeldFlushes> held(std::in_place);
        save_later(folder, 2);
        release = std::async(std::launch::async, [&] { held.reset(); });
        next(folder);
        release.get();
      });
    }
    BOOST_CHECK(!has_temporary_files(base.path));
    return std::pair(test::read(base.path / "model.safetensors"), fs::exists(checkpoint(base.path, 2)));
  };
  BOOST_CHECK(after([](RunFolder&) {}) == std::pair(std::string("model 2"), true));
  BOOST_CHECK(after([](RunFolder& f) { f.save_model(writing("end"), true); }) == std::pair(std::string("end"), true));
  BOOST_CHECK(after([](RunFolder& f) { save(f, 3); }) == std::pair(std::string("model 3"), false));
  BOOST_CHECK(after([](RunFolder& f) { save_later(f, 3); }) == std::pair(std::string("model 3"), false));
  BOOST_CHECK(after([](RunFolder& f) { f.go_on_from(1); }) == std::pair(std::string("model 2"), false));
  BOOST_CHECK(after([](RunFolder& f) { f.clear(); }) == std::pair(std::string("model 2"), false));
}

BOOST_AUTO_TEST_CASE(the_first_files_of_a_run_are_saved_at_once) {
  const test::PlainFolder base("background-saves");
  { RunFolder(base.path).save_checkpoint(9, 1, writing("earlier run")); }
  RunFolder folder(base.path);
  save_later(folder, 1);
  BOOST_CHECK_EQUAL(test::read(checkpoint(base.path, 1)), "state 1");
  BOOST_CHECK(!fs::exists(checkpoint(base.path, 9)));
}

// Whichever call fails, the next call of the folder says so, and each file is the old or the new one.
BOOST_AUTO_TEST_CASE(what_fails_in_the_background_is_told) {
  const test::PlainFolder base("background-saves");
  RunFolder folder(base.path);
  save(folder, 1);
  int step = 2;
  const auto save_all = [&] {
    save_later(folder, step);
    folder.finish();
  };
  const std::size_t calls = test::record_files(save_all).size();
  for (std::size_t at = 0; at < calls; ++at) {
    ++step;
    BOOST_CHECK_THROW(test::record_files(save_all, static_cast<int>(at)), FileError);
    BOOST_CHECK(!has_temporary_files(base.path));
    const bool has_new = fs::exists(checkpoint(base.path, step));
    BOOST_CHECK(has_new || fs::exists(checkpoint(base.path, step - 1)));
    const std::string model = test::read(folder.model());
    BOOST_CHECK(model == "model " + std::to_string(step - 1) || (has_new && model == "model " + std::to_string(step)));
    save(folder, step);  // the folder is usable
  }
}

// What was written before a write fails is given up with it.
BOOST_AUTO_TEST_CASE(a_save_that_cannot_be_written_leaves_nothing) {
  const test::PlainFolder base("background-saves");
  RunFolder folder(base.path);
  save(folder, 1);
  const auto failing = [](const fs::path&) { throw std::runtime_error("no more"); };
  BOOST_CHECK_THROW(folder.save_in_background([&] {
    folder.save_checkpoint(2, 1, writing("state 2"));
    folder.save_model(failing);
  }),
                    std::runtime_error);
  folder.finish();
  BOOST_CHECK(!fs::exists(checkpoint(base.path, 2)));
  BOOST_CHECK(!has_temporary_files(base.path));
  save_later(folder, 3);
  folder.finish();
  BOOST_CHECK_EQUAL(test::read(folder.model()), "model 3");
}

BOOST_AUTO_TEST_CASE(steps_go_on_while_files_are_flushed) {
  const test::PlainFolder base("background-saves");
  Run(base.path / "whole").run.train();
  std::optional<test::HeldFlushes> held;  // from the evaluation of the second epoch until the step after it
  bool is_on_disk = true;
  const RunEvents events{.stepped =
                             [&](const StepResult& now) {
                               if (now.step != 5) return;
                               is_on_disk = fs::exists(checkpoint(base.path / "run", 4));
                               held.reset();
                             },
                         .evaluated =
                             [&](const RunEvents::Evaluated& now) {
                               if (now.line.at("step") == 4) held.emplace();
                             }};
  test::record_files([&] { Run(base.path / "run", /*resume=*/false, /*save_interval=*/0).run.train(events); });
  BOOST_CHECK(!is_on_disk);
  BOOST_CHECK(files(base.path / "run").model == files(base.path / "whole").model);
  BOOST_CHECK(files(base.path / "run").state == files(base.path / "whole").state);
}

// A run whose flush fails, anywhere, ends with what failed, and goes on to the same bytes.
BOOST_AUTO_TEST_CASE(a_run_whose_disk_fails_is_resumed) {
  const test::PlainFolder base("background-saves");
  const fs::path whole = base.path / "whole";
  const std::vector<FileEvent> events = test::record_files([&] { Run(whole).run.train(); });
  for (std::size_t at = 0; at < events.size(); ++at) {
    if (events[at].what != "fsync") continue;
    const fs::path folder = base.path / std::to_string(at);
    try {
      test::record_files([&] { Run(folder).run.train(); }, static_cast<int>(at));
      BOOST_ERROR("call " << at << " failed and nobody was told");
    } catch (const FileError&) {
    }
    BOOST_CHECK(!has_temporary_files(folder));
    Run(folder, can_resume(folder)).run.train();
    BOOST_CHECK(files(folder).model == files(whole).model && files(folder).state == files(whole).state);
  }
}

// What failed is told at the next step, not when a file is saved again, perhaps hours later.
BOOST_AUTO_TEST_CASE(a_run_ends_at_the_step_after_a_failure) {
  const test::PlainFolder base("background-saves");
  constexpr int kExamples = 40, kSaved = 20, kSaveInterval = 0;  // saved after evaluations alone: every ten steps
  const fs::path whole = base.path / "whole", folder = base.path / "run";
  const std::vector<FileEvent> events =
      test::record_files([&] { Run(whole, false, kSaveInterval, kExamples).run.train(); });
  const auto failing = std::ranges::find_if(events, [](const FileEvent& e) {
    return e.what == "fsync" && e.path.string().find("/checkpoints/" + std::to_string(kSaved)) != std::string::npos;
  });
  BOOST_REQUIRE(failing != events.end());
  std::int64_t last = 0;
  const RunEvents told{.stepped = [&](const StepResult& now) {
    last = now.step;
    for (int i = 0; now.step == kSaved + 1 && has_temporary_files(folder) && i < 10'000; ++i) ::usleep(1000);
  }};
  const auto train = [&] { Run(folder, false, kSaveInterval, kExamples).run.train(told); };
  BOOST_CHECK_THROW(test::record_files(train, static_cast<int>(failing - events.begin())), FileError);
  BOOST_CHECK_EQUAL(last, kSaved + 1);
}

// A run that is killed at any call, also one of the background, is resumed to the same bytes.
BOOST_AUTO_TEST_CASE(a_run_that_is_killed_anywhere_is_resumed, *boost::unit_test::precondition(test::ends_in_time)) {
  const test::PlainFolder base("background-saves");
  const fs::path whole = base.path / "whole";
  const std::size_t calls = test::record_files([&] { Run(whole).run.train(); }).size();
  for (std::size_t at = 0; at < calls; ++at) {
    const fs::path folder = base.path / std::to_string(at);
    const pid_t child = ::fork();
    if (child == 0) {
      test::record_files([&] { Run(folder).run.train(); }, static_cast<int>(at), test::kKilled);
      ::_exit(0);
    }
    int status = 0;
    BOOST_REQUIRE_EQUAL(::waitpid(child, &status, 0), child);
    BOOST_CHECK_MESSAGE(WIFEXITED(status) && WEXITSTATUS(status) == 137, "call " << at << " was not reached");
    const bool resume = can_resume(folder);
    BOOST_CHECK(resume || !fs::exists(folder / "model.safetensors"));
    Run(folder, resume).run.train();
    BOOST_CHECK(!has_temporary_files(folder));
    BOOST_CHECK(files(folder).model == files(whole).model && files(folder).state == files(whole).state);
  }
}
