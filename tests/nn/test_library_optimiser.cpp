// A trainer's own optimiser, which its config names, against the library's class given to a trainer; resumed anywhere.
// needs: precision: double single
#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/train/trainer.h>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

using namespace seppo;
namespace fs = std::filesystem;

namespace {

constexpr int kSteps = 12;

struct Model {
  Parameters parameters{1};
  Linear up{parameters.root() / "up", 3, 4}, down{parameters.root() / "down", 4, 2};

  ShardLoss loss(std::span<const int> rows) const {
    std::vector<real> inputs;
    for (const int row : rows)
      for (int i = 0; i < 3; ++i) inputs.push_back(static_cast<real>((row * 7 + i * 3) % 10 - 5));
    const auto count = static_cast<int>(rows.size());
    const Tensor y = down(dropout(tanh(up(tensor({count, 3}, inputs))), 0.2));
    return {.loss = sum(square(y)), .count = static_cast<double>(count)};
  }
};

void run_to(int steps, Trainer& trainer, const Model& model) {
  while (trainer.steps() < steps) {
    const int at = static_cast<int>(trainer.steps());
    const std::vector<int> batch{at, at + 1, at + 2, 2 * at};
    trainer.step(batch, [&](std::span<const int> rows) { return model.loss(rows); });
  }
}

TrainerConfig config_of(OptimizerKind kind) {
  return {.lr = 0.05,
          .optimizer = kind,
          .momentum = 0.8,
          .adam = {.betas = {0.8, 0.9}, .eps = 1e-3, .weight_decay = 0.1},
          .shards = 2,
          .seed = 3};
}

const ParameterGroups kGroups{{.prefix = "down.", .lr = 0.5, .weight_decay = 0.02}};
constexpr OptimizerKind kKinds[] = {OptimizerKind::adam, OptimizerKind::sgd, OptimizerKind::adagrad};

// The kind's own class, with the settings that the config stands for.
template <class Optimiser, class Config>
std::vector<real> trained_by(OptimizerKind kind, const Config& settings) {
  Model model;
  Optimiser optimiser(model.parameters, settings, kGroups);
  Trainer trainer(model.parameters, optimiser, config_of(kind));
  run_to(kSteps, trainer, model);
  return {model.parameters.values().begin(), model.parameters.values().end()};
}

std::vector<real> trained_by_class(OptimizerKind kind) {
  if (kind == OptimizerKind::sgd) return trained_by<Sgd>(kind, SgdConfig{.momentum = 0.8, .weight_decay = 0.1});
  if (kind == OptimizerKind::adagrad) return trained_by<Adagrad>(kind, AdagradConfig{.weight_decay = 0.1});
  return trained_by<Adam>(kind, config_of(kind).adam);
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct TemporaryFile {
  fs::path path = fs::temp_directory_path() / ("seppo-library-optimiser-" + std::to_string(::getpid()));
  ~TemporaryFile() { fs::remove(path); }
};

const char* name_of(OptimizerKind kind) { return enum_names(kind)[static_cast<std::size_t>(kind)]; }

}  // namespace

BOOST_AUTO_TEST_CASE(a_kind_is_the_class_of_its_name) {
  std::vector<std::vector<real>> all;
  for (const OptimizerKind kind : kKinds) BOOST_TEST_CONTEXT(name_of(kind)) {
      Model model;
      Trainer trainer(model.parameters, config_of(kind), kGroups);
      run_to(kSteps, trainer, model);
      BOOST_CHECK(std::ranges::equal(model.parameters.values(), trained_by_class(kind)));
      BOOST_CHECK(std::ranges::find(all, trained_by_class(kind)) == all.end());
      all.push_back(trained_by_class(kind));
    }
}

BOOST_AUTO_TEST_CASE(every_kind_resumes_to_the_same_bytes) {
  const TemporaryFile file;
  for (const OptimizerKind kind : kKinds) {
    Model whole;
    Trainer never_stopped(whole.parameters, config_of(kind));
    run_to(kSteps, never_stopped, whole);
    never_stopped.save(file.path);
    const std::string expected = bytes_of(file.path);
    for (int cut = 0; cut <= kSteps; ++cut) {
      Model first, second;
      Trainer before(first.parameters, config_of(kind)), after(second.parameters, config_of(kind));
      run_to(cut, before, first);
      before.save(file.path);
      after.load(file.path);
      run_to(kSteps, after, second);
      after.save(file.path);
      BOOST_CHECK_MESSAGE(bytes_of(file.path) == expected, name_of(kind) << ", cut after step " << cut);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_another_kind_is_refused) {
  const TemporaryFile file;
  for (const OptimizerKind kind : kKinds)
    for (const OptimizerKind other : kKinds) {
      if (kind == other) continue;
      Model model;
      Trainer trainer(model.parameters, config_of(kind)), others(model.parameters, config_of(other));
      run_to(2, trainer, model);
      trainer.save(file.path);
      BOOST_CHECK_THROW(others.load(file.path), FormatError);
    }
}

// In files: by name, refused if unknown, and Adam in those of earlier versions.
BOOST_AUTO_TEST_CASE(the_kind_is_a_field) {
  nlohmann::json object = to_json_object(config_of(OptimizerKind::adagrad));
  BOOST_CHECK_EQUAL(object["optimizer"], "adagrad");
  BOOST_CHECK(from_json_object<TrainerConfig>(object).optimizer == OptimizerKind::adagrad);
  object["optimizer"] = "rmsprop";
  BOOST_CHECK_EXCEPTION(from_json_object<TrainerConfig>(object), FormatError, [](const FormatError& e) {
    return std::string(e.what()).find("optimizer") != std::string::npos;
  });
  object.erase("optimizer");
  object.erase("momentum");
  BOOST_CHECK(from_json_object<TrainerConfig>(object).optimizer == OptimizerKind::adam);
  for (const double momentum : {-0.1, 1.0}) {
    Model model;
    BOOST_CHECK_THROW(Trainer(model.parameters, {.momentum = momentum}), ArgumentError);
  }
}

// A variant of the three, for loops of one's own.
BOOST_AUTO_TEST_CASE(made_by_name) {
  Model model;
  LibraryOptimiser sgd = make_optimiser(model.parameters, OptimizerKind::sgd, {.momentum = 0.5});
  BOOST_CHECK(std::holds_alternative<Sgd>(sgd));
  BOOST_CHECK_EQUAL(any_optimiser(sgd).state()[0].prefix, "optimiser.velocity");
  BOOST_CHECK_THROW(make_optimiser(model.parameters, OptimizerKind::sgd, {.momentum = 1}), ArgumentError);
}
