// Training runs that resume from a checkpoint, and runs that encounter NaN.
#include <seppo/autograd/core/parallel.h>
#include <seppo/autograd/core/region.h>
#include <seppo/autograd/ops.h>
#include <seppo/nn/data/sampler.h>
#include <seppo/nn/modules/layer_norm.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include "support/stored.h"

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <utility>

using namespace seppo;
namespace fs = std::filesystem;

namespace {

struct TemporaryFile {
  fs::path path = fs::temp_directory_path() / ("seppo-resume-" + std::to_string(::getpid()));
  ~TemporaryFile() { fs::remove(path); }
};

// A network with every kind of state: parameters, a frozen one, a buffer, moments, dropout, a schedule, a shuffled
// order that drops the last, incomplete batch of an epoch.
struct Training {
  static constexpr int kSteps = 40;

  explicit Training(std::uint64_t seed = 1, int width = 5)
      : parameters(seed),
        up(parameters.root() / "up", 3, width),
        norm(parameters.root() / "norm", width),
        down(parameters.root() / "down", width, 2),
        scale(parameters.root().buffer("scale", {3}, init_normal(1))),
        trainer(parameters, {.lr = 0.1,
                             .schedule = ScheduleKind::cosine,
                             .warmup_steps = 7,
                             .steps = kSteps,
                             .adam = {.weight_decay = 0.1},
                             .accumulate = 2,
                             .ema_decay = 0.9,
                             .on_nan = OnNan::skip,
                             .seed = 3}),
        sampler(50, {.batch_size = 8, .seed = 4}) {
    parameters.freeze("down.weight");
  }

  void run_to(int steps) {
    sampler.seek(trainer.steps());
    while (trainer.steps() < steps) {
      const bool is_broken = trainer.steps() % 9 == 5;  // a step that is skipped
      trainer.step(sampler.next(), [&](std::span<const int> rows) {
        std::vector<real> inputs;
        std::vector<int> targets;
        for (const int row : rows) {
          for (int i = 0; i < 3; ++i) inputs.push_back(static_cast<real>((row * 7 + i * 3) % 10));
          targets.push_back(row % 2);
        }
        const Tensor x = tensor({static_cast<int>(rows.size()), 3}, inputs);
        ShardLoss loss = classification_loss(down(dropout(norm(up(x * scale)), 0.3)), targets);
        if (is_broken) loss.loss = loss.loss * std::numeric_limits<real>::infinity();
        return loss;
      });
    }
  }
  std::vector<real> state() const {
    std::vector<real> all(parameters.values().begin(), parameters.values().end());
    return all;
  }

  Parameters parameters;
  Linear up;
  LayerNorm norm;
  Linear down;
  Tensor scale;
  Trainer trainer;
  Sampler sampler;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

// Wherever it is interrupted, and whatever number of threads it resumes with.
BOOST_AUTO_TEST_CASE(a_resumed_training_cannot_be_told_from_one_that_never_stopped) {
  const TemporaryFile file;
  Training whole;
  whole.run_to(Training::kSteps);
  whole.trainer.save(file.path, {{"k", "v"}});
  const std::string expected = bytes_of(file.path);
  for (int cut = 0; cut <= Training::kSteps; ++cut) {
    set_num_threads(1 + cut % 4);
    Training first;
    first.run_to(cut);
    first.trainer.save(file.path);
    Training second(99);  // has other values, all to be replaced
    second.trainer.load(file.path);
    BOOST_CHECK_EQUAL(second.trainer.steps(), cut);
    second.run_to(Training::kSteps);
    second.trainer.save(file.path, {{"k", "v"}});
    BOOST_CHECK_MESSAGE(bytes_of(file.path) == expected, "cut after step " << cut);
  }
  set_num_threads(1);
}

// Without its moments or its step count, a checkpoint could not resume the same run.
BOOST_AUTO_TEST_CASE(what_is_no_checkpoint_of_this_training_is_refused) {
  const TemporaryFile file;
  Training training;
  training.run_to(10);
  training.trainer.save(file.path);
  const std::string before = bytes_of(file.path);
  const auto message = [&](Training& t) -> std::string {
    try {
      t.trainer.load(file.path);
    } catch (const FormatError& e) {
      return e.what();
    }
    return "accepted";
  };
  save_checkpoint(file.path, training.parameters, {});
  BOOST_CHECK_NE(message(training).find("no checkpoint of a trainer"), std::string::npos);
  training.trainer.save(file.path);
  for (const char* key : {"seppo.steps", "seppo.moves"})
    for (const char* steps :
         {"", "-1", "1.5", "1e3", "99999999999999999999", "9223372036854775807", "4294967296", "x"}) {
      training.trainer.save(file.path);
      test::Stored content = test::read_stored(file.path);
      content.metadata[key] = steps;
      test::write_stored(file.path, content);
      BOOST_CHECK_NE(message(training).find("no checkpoint of a trainer"), std::string::npos);
    }
  training.trainer.save(file.path);
  test::Stored content = test::read_stored(file.path);
  std::erase_if(content.tensors, [](const auto& t) { return t.name == "adam.v.up.bias"; });
  test::write_stored(file.path, content);
  BOOST_CHECK_NE(message(training).find("the file has no adam.v.up.bias"), std::string::npos);
  training.trainer.save(file.path);
  Training wider(1, 6);
  BOOST_CHECK_NE(message(wider).find("up.weight is [5,3] in the file, [6,3] in the model"), std::string::npos);
  Training thawed;
  thawed.parameters.freeze("down.", false);
  BOOST_CHECK_NE(message(thawed).find("the file has no adam.m.down.weight"), std::string::npos);
  // Nothing is taken from a later checkpoint whose last tensor, an average, is not finite.
  Training later;
  later.run_to(12);
  later.trainer.save(file.path);
  test::Stored broken = test::read_stored(file.path);
  const real nan = std::numeric_limits<real>::quiet_NaN();
  std::memcpy(broken.tensors.back().bytes.data(), &nan, sizeof nan);
  BOOST_CHECK(broken.tensors.back().name.starts_with("adam.average."));
  test::write_stored(file.path, broken);
  BOOST_CHECK_NE(message(training).find("not finite"), std::string::npos);
  training.trainer.save(file.path);
  BOOST_CHECK(bytes_of(file.path) == before);
}

// Nothing of a file is dropped without a word.
BOOST_AUTO_TEST_CASE(state_that_the_trainer_has_not_is_refused) {
  const TemporaryFile file;
  Parameters averaged(1), plain(1);
  for (Parameters* parameters : {&averaged, &plain}) parameters->root().parameter("w", {3}, init_ones());
  Trainer with(averaged, {.ema_decay = 0.9});
  Trainer without(plain);
  const auto message = [&]() -> std::string {
    try {
      without.load(file.path);
    } catch (const FormatError& e) {
      return e.what();
    }
    return "accepted";
  };
  with.save(file.path);
  BOOST_CHECK_NE(message().find("has averages of the parameters, but the trainer keeps none: set ema_decay"),
                 std::string::npos);
  without.save(file.path);
  BOOST_CHECK_EQUAL(message(), "accepted");
  BOOST_CHECK_THROW(with.load(file.path), FormatError);
  test::Stored more = test::read_stored(file.path);
  more.tensors.push_back(more.tensors.back());
  more.tensors.back().name = "adam.z.w";
  test::write_stored(file.path, more);
  BOOST_CHECK_NE(message().find("the model has no adam.z.w"), std::string::npos);
}

// A GAN is saved while its critic is frozen: the critic's moments and averages must not be lost.
BOOST_AUTO_TEST_CASE(moments_from_before_freezing_are_resumed) {
  const TemporaryFile file;
  const auto thawed = [](std::uint64_t seed) {
    auto training = std::make_unique<Training>(seed);
    training->parameters.freeze("down.", false);
    return training;
  };
  const auto saved_bytes = [&](const Training& t) {
    t.trainer.save(file.path);
    return bytes_of(file.path);
  };
  const auto whole = thawed(1), part = thawed(1), resumed = thawed(2);
  for (Training* t : {whole.get(), part.get()}) {
    t->run_to(4);
    t->parameters.freeze("up.");
    t->run_to(8);
  }
  part->trainer.save(file.path);
  resumed->run_to(3);  // leaves other moments behind
  resumed->parameters.freeze("up.");
  resumed->trainer.load(file.path);
  for (Training* t : {whole.get(), resumed.get()}) {
    t->parameters.freeze("up.", false);
    t->run_to(12);
  }
  BOOST_CHECK(saved_bytes(*whole) == saved_bytes(*resumed));
  // Parameters that were never trained have no moments in the file; those of the loading trainer become zero.
  Training never;
  never.run_to(4);
  const std::string saved = saved_bytes(never);
  BOOST_CHECK_EQUAL(saved.find("adam.m.down.weight"), std::string::npos);
  resumed->parameters.freeze("down.weight");
  resumed->trainer.load(file.path);
  BOOST_CHECK(saved_bytes(*resumed) == saved);
}

// A checkpoint with a digest of what is frozen is resumed as the whole one is, beside the same frozen values.
BOOST_AUTO_TEST_CASE(frozen_values_may_come_from_elsewhere) {
  const TemporaryFile file;
  const std::string frozen = "down.weight";
  Training whole;
  whole.run_to(20);
  whole.trainer.save(file.path);
  const std::string expected = bytes_of(file.path);
  Training first, second;
  first.run_to(10);
  first.trainer.save(file.path, {}, FrozenValues::digested);
  const SafeTensorsFile saved(file.path);
  BOOST_CHECK(std::ranges::find(saved.tensors(), frozen, &TensorInfo::name) == saved.tensors().end());
  second.run_to(3);
  second.trainer.load(file.path);
  second.run_to(20);
  second.trainer.save(file.path);
  BOOST_CHECK(bytes_of(file.path) == expected);

  first.trainer.save(file.path, {}, FrozenValues::digested);
  const auto is_of_others = [](const FormatError& e) {
    return std::string(e.what()).find("the frozen values here are not those that it was trained with") !=
           std::string::npos;
  };
  const std::vector<real> before = second.state();
  for (const char* other : {"up.weight", "down.bias"}) {
    second.parameters.freeze(other);
    BOOST_CHECK_EXCEPTION(second.trainer.load(file.path), FormatError, is_of_others);
    second.parameters.freeze(other, false);
  }
  second.parameters.freeze(frozen, false);
  BOOST_CHECK_EXCEPTION(load_checkpoint(file.path, second.parameters), FormatError, is_of_others);
  second.parameters.freeze(frozen);
  real& value = second.parameters.edit()[second.parameters.find(frozen)->offset];
  const real right = std::exchange(value, value + 1);
  BOOST_CHECK_EXCEPTION(second.trainer.load(file.path), FormatError, is_of_others);
  value = right;
  BOOST_CHECK(second.state() == before);
  second.trainer.load(file.path);
  BOOST_CHECK(second.state() == first.state());
}

// If a file cannot be written or read, neither the file nor the trainer changes.
BOOST_AUTO_TEST_CASE(failures_of_files_change_nothing) {
  const TemporaryFile file;
  Training training;
  training.run_to(3);
  training.trainer.save(file.path);
  const std::string saved = bytes_of(file.path);
  const fs::path nowhere = file.path / "no" / "file";
  BOOST_CHECK_THROW(training.trainer.save(nowhere), FileError);
  BOOST_CHECK_THROW(training.trainer.load(nowhere), FileError);
  BOOST_CHECK_EQUAL(training.trainer.steps(), 3);
  training.parameters.edit()[1] = std::numeric_limits<real>::infinity();
  BOOST_CHECK_THROW(training.trainer.save(file.path), NumericError);
  BOOST_CHECK(bytes_of(file.path) == saved);
}

// The optimiser's tensors are not parameters: a model is read from a checkpoint as from any other file.
BOOST_AUTO_TEST_CASE(a_checkpoint_is_a_model_file_too) {
  const TemporaryFile file;
  Training training, other(7);
  training.run_to(10);
  training.trainer.save(file.path);
  load_checkpoint(file.path, other.parameters);
  BOOST_CHECK(other.state() == training.state());
}

BOOST_AUTO_TEST_CASE(a_step_that_is_not_finite_is_named) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {4}, init_ones());
  Trainer trainer(parameters);
  const std::vector<int> rows(10);
  const auto message = [&](FunctionRef<ShardLoss(std::span<const int>)> loss) -> std::string {
    try {
      trainer.step(rows, loss);
    } catch (const NumericError& e) {
      return e.what();
    }
    return "accepted";
  };
  std::string text = message([&](std::span<const int>) {
    const RegionName name("encoder.0.ffn");
    const Region region(name);
    return ShardLoss{sum(log(dropout(w, 0.5) * real{0})), 1};
  });
  for (const char* part : {"step 1", "log: forward made -inf at [0] of [4], from finite inputs", "(in encoder.0.ffn)"})
    BOOST_CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  text = message([&](std::span<const int>) { return ShardLoss{sum(sqrt(w * real{0})), 1}; });
  BOOST_CHECK_MESSAGE(text.find("sqrt: backward made") != std::string::npos, text);
  parameters.edit()[2] = std::numeric_limits<real>::quiet_NaN();
  text = message([&](std::span<const int>) { return ShardLoss{w.values().empty() ? sum(w) : mean(w), 1}; });
  BOOST_CHECK_MESSAGE(text.find("parameter w was not finite before it") != std::string::npos, text);
  BOOST_CHECK_EQUAL(trainer.steps(), 0);
}

// A skipped step counts but moves nothing; too many skipped steps in a row end the run.
BOOST_AUTO_TEST_CASE(steps_may_be_skipped_but_not_all) {
  Parameters parameters(1);
  const Tensor w = parameters.root().parameter("w", {4}, init_ones());
  Trainer trainer(parameters, {.on_nan = OnNan::skip});
  const std::vector<int> rows(3);
  const auto broken = [&](std::span<const int>) { return ShardLoss{sum(log(w * real{0})), 1}; };
  const auto good = [&](std::span<const int>) { return ShardLoss{sum(w), 1}; };
  for (int step = 1; step < 100; ++step) {
    const StepResult r = trainer.step(rows, broken);
    BOOST_CHECK(r.is_skipped && r.step == step && w.values()[0] == 1);
  }
  BOOST_CHECK(!trainer.step(rows, good).is_skipped);
  const real moved = w.values()[0];
  // Adam's first update is one learning rate, however many steps were skipped before it.
  BOOST_CHECK_CLOSE(static_cast<double>(1 - moved), 1e-3, 0.1);
  for (int step = 1; step < 100; ++step) trainer.step(rows, broken);
  const TemporaryFile file;
  trainer.save(file.path);
  for (int again = 0; again < 3; ++again) BOOST_CHECK_THROW(trainer.step(rows, broken), NumericError);
  BOOST_CHECK_EQUAL(w.values()[0], moved);
  BOOST_CHECK_EQUAL(trainer.steps(), 199);
  trainer.load(file.path);  // counts from here, as another trainer would
  for (int step = 1; step < 100; ++step) BOOST_CHECK(trainer.step(rows, broken).is_skipped);
  BOOST_CHECK_THROW(trainer.step(rows, broken), NumericError);
}
