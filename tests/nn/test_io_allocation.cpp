// Every allocation in saving, loading, training and generation fails in turn: std::bad_alloc reaches the caller, files
// are unchanged, nothing leaks, and all objects still work.
// needs: environment: OPENBLAS_NUM_THREADS=1
#include <seppo/models/decoding/generate.h>
#include <seppo/models/language_model.h>
#include <seppo/nn/io/model_file.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include "support/failing_allocation.h"

#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <utility>

using namespace seppo;
using test::fail_each_allocation;
using test::live;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("seppo-io-allocation-" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::ptrdiff_t files() const { return std::distance(fs::directory_iterator(path), fs::directory_iterator()); }
};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Training {
  StepResult step() {
    const std::vector<int> rows{0, 1, 2};
    return trainer.step(rows, [&](std::span<const int> some) { return loss(some); });
  }
  ShardLoss loss(std::span<const int> rows) const {
    Ragged input;
    std::vector<int> next;
    for (const int row : rows) {
      input.add(std::vector<int>{row, 1, 2, 3});
      next.insert(next.end(), {1, 2, 3, row});
    }
    return classification_loss(model(input), next);
  }
  std::vector<real> values() const { return {parameters.values().begin(), parameters.values().end()}; }

  Parameters parameters{1};
  LanguageModel model{parameters.root(),
                      {.vocabulary = 7,
                       .layer = {.d_model = 8, .n_heads = 2, .d_ff = 16, .dropout = 0.1},
                       .n_layers = 1,
                       .max_length = 6}};
  Trainer trainer{parameters, {.schedule = ScheduleKind::constant, .warmup_steps = 0}};
};

std::ptrdiff_t open_files() { return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()); }

// Each attempt runs in a process of its own, whose files are examined. The JSON library allocates in destructors, which
// cannot throw: if failures persist, the process may end in std::terminate.
template <class F, class Check>
void fail_each_allocation_apart(const F& f, const Check& check, bool failures_last) {
  int points = 0;
  for (bool is_done = false; !is_done; ++points) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGABRT, SIG_DFL);
      std::set_terminate([] { std::abort(); });
      const long before = live;
      const std::ptrdiff_t open = open_files();
      test::failures_last = failures_last;
      test::has_failed = false;
      test::countdown = points;
      try {
        f();
        test::countdown = -1;
        ::_exit(test::has_failed ? 1 : 42);  // 1: a failure was swallowed
      } catch (const std::bad_alloc&) {
        test::countdown = -1;
      }
      ::_exit(open_files() != open ? 2 : live != before ? 3 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    is_done = WIFEXITED(status) && WEXITSTATUS(status) == 42;
    const bool is_aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    BOOST_CHECK_MESSAGE(is_done || status == 0 || (failures_last && is_aborted),
                        "allocation " << points
                                      << (is_aborted                 ? " aborts"
                                          : WEXITSTATUS(status) == 3 ? " leaks"
                                                                     : " fails otherwise"));
    if (!is_done) check();
  }
  BOOST_CHECK_GT(points, 50);
}

}  // namespace

BOOST_AUTO_TEST_CASE(saving_leaves_the_old_file) {
  const Folder folder;
  const fs::path file = folder.path / "f";
  Training training;
  const auto check_saving = [&](const auto& save) {
    save();
    const std::string old = read(file);
    training.step();
    for (const bool failures_last : {false, true}) {
      std::ofstream(file, std::ios::binary) << old;
      const auto check = [&] {
        BOOST_CHECK_LE(folder.files(), failures_last ? 2 : 1);  // an aborted process may leave a temporary file
        BOOST_CHECK(read(file) == old);
        for (const auto& entry : fs::directory_iterator(folder.path))
          if (entry.path().filename().string().starts_with("f.tmp-")) fs::remove(entry.path());
      };
      fail_each_allocation_apart(save, check, failures_last);
    }
    BOOST_CHECK(read(file) != old);
    SafeTensorsFile(file).verify();
  };
  const nlohmann::json extra = {{"program", "p"}, {"list", {1, {2, 3}}}};
  check_saving([&] { save_model(file, training.parameters, training.model, extra); });
  check_saving([&] { training.trainer.save(file, {{"key", "value"}}); });
}

BOOST_AUTO_TEST_CASE(loading_a_model) {
  const Folder folder;
  const fs::path file = folder.path / "f";
  const Training training;
  save_model(file, training.parameters, training.model, {{"program", "p"}, {"list", {1, {2, 3}}}});
  { const auto warm = load_model<LanguageModel>(file); }  // one-time allocations
  const auto load = [&] {
    auto loaded = load_model<LanguageModel>(file);
    JsonTree::clear(loaded.config);
  };
  for (const bool failures_last : {false, true})
    fail_each_allocation_apart(
        load, [] {}, failures_last);
}

BOOST_AUTO_TEST_CASE(loading_a_state_changes_all_or_nothing) {
  const Folder folder;
  Training training, other;
  training.step();
  training.trainer.save(folder.path / "f");
  const std::vector<real> before = other.values(), loaded = training.values();
  const SafeTensorsFile file(folder.path / "f");
  bool is_first = true;
  fail_each_allocation([&] {
    if (!std::exchange(is_first, false)) {
      const test::Unfailing guard;
      BOOST_CHECK(other.values() == before && other.trainer.steps() == 0);
    }
    other.trainer.load(file);
  });
  BOOST_CHECK(other.values() == loaded);
  training.step(), other.step();
  BOOST_CHECK(other.values() == training.values());
}

BOOST_AUTO_TEST_CASE(a_step_that_failed_is_taken_again) {
  Training whole, broken;
  for (int i = 0; i < 3; ++i) {
    whole.step();
    BOOST_CHECK_GE(fail_each_allocation([&] { broken.step(); }), 1);
    BOOST_CHECK(broken.values() == whole.values());
    BOOST_CHECK_EQUAL(broken.trainer.steps(), i + 1);
  }
}

BOOST_AUTO_TEST_CASE(generating) {
  const Training training;
  Ragged prompts;
  prompts.add(std::vector<int>{1, 2});
  prompts.add(std::vector<int>{3});
  const auto expected = generate(training.model, prompts, {.max_tokens = 9, .seed = 4});
  const long before = live;
  BOOST_CHECK_GT(fail_each_allocation([&] { generate(training.model, prompts, {.max_tokens = 9, .seed = 4}); }), 50);
  BOOST_CHECK_EQUAL(live, before);
  BOOST_CHECK(generate(training.model, prompts, {.max_tokens = 9, .seed = 4}) == expected);
}

// The digest of a file is computed piece by piece, however long it is.
BOOST_AUTO_TEST_CASE(verifying_takes_little_memory) {
  const Folder folder;
  const std::vector<std::byte> bytes(20'000'001, std::byte{7});
  const std::vector<std::int64_t> shape{20'000'001};
  const TensorView views[] = {{"w", "U8", shape, bytes}};
  write_safetensors(folder.path / "f", {}, views);
  const SafeTensorsFile file(folder.path / "f");
  test::largest = 0;
  file.verify();
  BOOST_CHECK_LE(test::largest, std::size_t{1} << 21);
  // Damage is found in every piece, even the last.
  for (const std::int64_t place : {20'000'000, 10'000'000, 0}) {
    std::fstream changed(folder.path / "f", std::ios::in | std::ios::out | std::ios::binary);
    changed.seekp(-1 - place, std::ios::end).put(8);
    changed.close();
    BOOST_CHECK_THROW(file.verify(), FormatError);
    std::fstream(folder.path / "f", std::ios::in | std::ios::out | std::ios::binary)
        .seekp(-1 - place, std::ios::end)
        .put(7);
    BOOST_CHECK_NO_THROW(file.verify());
  }
}
