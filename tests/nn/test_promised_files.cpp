// The files of tests/nn/files load for ever: a model, and the checkpoint of each optimiser, with averages and without.
// A change to what is written adds files there, and leaves these. SEPPO_NEW_FILES=FOLDER writes those of today.
#include <seppo/autograd/ops.h>
#include <seppo/models/language_model.h>
#include <seppo/nn/io/model_file.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/optim/adagrad.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/sgd.h>
#include <seppo/nn/run/run_state.h>
#include <seppo/nn/train/trainer.h>

#include "support/paths.h"
#include "support/program.h"
#include "support/stored.h"

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

using namespace seppo;
using namespace test;

namespace {

const fs::path kFiles = fs::path(source_folder()) / "tests/nn/files";

// Numbers that every processor computes alike: 1/64 to 37/64, each block with its own first.
void fill(std::span<real> values, int first) {
  for (real& value : values) value = static_cast<real>(first++ % 37 + 1) / 64;
}

bool is_filled(std::span<const real> values, int first) {
  std::vector<real> expected(values.size());
  fill(expected, first);
  return std::ranges::equal(values, expected);
}

constexpr int kParameters = 0, kState = 5, kAverages = 20;  // the first number of each block

template <class Chosen>
struct Training {
  explicit Training(bool has_averages)
      : a(parameters.root() / "a", 3, 2),
        b(parameters.root() / "b", 2, 2),
        optimiser(freeze_b(parameters)),
        trainer(parameters, optimiser, {.clip_norm = 0, .ema_decay = has_averages ? 0.5 : 0}) {}
  static Parameters& freeze_b(Parameters& parameters) {
    parameters.freeze("b.");
    return parameters;
  }

  // All that a checkpoint has, but for the steps.
  void fill_all() {
    fill_each(parameters.edit(), kParameters, /*trained_only=*/false);
    int first = kState;
    for (const OptimizerBlock& block : optimiser.state()) fill_each(block.values, first++, true);
    if (trainer.config().ema_decay > 0) fill_each(trainer.averages().averages(), kAverages, true);
  }
  bool all_filled() {
    bool filled = each_filled(parameters.values(), kParameters, false);
    int first = kState;
    for (const OptimizerBlock& block : optimiser.state()) filled = filled && each_filled(block.values, first++, true);
    return filled && (trainer.config().ema_decay == 0 || each_filled(trainer.averages().averages(), kAverages, true));
  }
  void step() {
    trainer.step(std::vector<int>{0, 1}, [&](std::span<const int> some) -> ShardLoss {
      const auto n = static_cast<int>(some.size());
      const Tensor y = b(a(full({n, 3}, 1)));
      return {sum(square(y)), n};
    });
  }

  Parameters parameters{1};
  Linear a, b;
  Chosen optimiser;
  Trainer trainer;

 private:
  void fill_each(std::span<real> block, int first, bool trained_only) {
    for (const auto& entry : parameters.entries())
      if (entry.trained || !trained_only) fill(block.subspan(entry.offset, entry.size()), first);
  }
  bool each_filled(std::span<const real> block, int first, bool trained_only) {
    bool filled = true;
    for (const auto& entry : parameters.entries())
      if (entry.trained || !trained_only)
        filled = filled && is_filled(block.subspan(entry.offset, entry.size()), first);
    return filled;
  }
};

const std::map<std::string, std::string> kMetadata{
    {kRunKey, text_of({.data = "0123456789abcdef", .best = {.step = 4, .score = 0.5, .loss = 0.25}})}};

// The checkpoint after seven steps, of which the last was skipped.
template <class Chosen>
void write_today(const fs::path& path, bool has_averages) {
  Training<Chosen> training(has_averages);
  training.fill_all();
  training.trainer.set_lr(0.125);
  training.trainer.save(path);
  Stored content = read_stored(path);
  content.metadata["seppo.steps"] = "7";
  content.metadata["seppo.moves"] = "6";
  for (const char* own : {"seppo.format", "seppo.digest"}) content.metadata.erase(own);
  write_stored(path, content);
  training.trainer.load(path);
  training.trainer.save(path, kMetadata);
}

template <class Chosen>
void check_promised(const std::string& name, bool has_averages) {
  const Folder folder("promised-files");
  const char* const chosen = std::getenv("SEPPO_NEW_FILES");
  const fs::path written = (chosen ? fs::path(chosen) : folder.path) / name;
  write_today<Chosen>(written, has_averages);
  const fs::path promised = kFiles / name;
  Training<Chosen> training(has_averages);
  training.trainer.load(promised);
  BOOST_TEST_INFO(name);
  BOOST_CHECK(training.all_filled());
  BOOST_CHECK_EQUAL(training.trainer.steps(), 7);
  BOOST_CHECK_EQUAL(training.trainer.lr(), 0.125);
  const RunState state = read_run_state(SafeTensorsFile(promised));
  BOOST_CHECK(state.data == "0123456789abcdef" && state.best.step == 4 && state.is_evaluated);
  training.step();
  BOOST_CHECK_EQUAL(training.trainer.steps(), 8);
  BOOST_CHECK(!training.all_filled());
  // Programs of other versions read these bytes: they do not change unnoticed.
  BOOST_CHECK_MESSAGE(read(written) == read(promised), name << " is written otherwise today");
}

const LanguageModelConfig kConfig{
    .vocabulary = 5, .layer = {.d_model = 4, .n_heads = 2, .d_ff = 4}, .n_layers = 1, .max_length = 3};

void check_model(const fs::path& path) {
  const auto saved = load_model<LanguageModel>(path);
  for (const auto& entry : saved.parameters->entries())
    BOOST_CHECK_MESSAGE(is_filled(saved.parameters->values().subspan(entry.offset, entry.size()), kParameters),
                        path.filename() << ": " << entry.name);
  BOOST_CHECK_EQUAL(saved.config.at("program"), "charlm");
  BOOST_CHECK_EQUAL(saved.model.config.layer.n_heads, 2);
  const Inference inference;
  BOOST_CHECK_EQUAL(saved.model(Ragged{{1, 2, 4}, {0, 3}}).shape()[1], 5);
}

}  // namespace

BOOST_AUTO_TEST_CASE(checkpoints_of_each_optimiser) {
  for (const bool has_averages : {false, true}) {
    const std::string end = has_averages ? "-averages.safetensors" : ".safetensors";
    check_promised<Adam>("adam" + end, has_averages);
    check_promised<Sgd>("sgd" + end, has_averages);
    check_promised<Adagrad>("adagrad" + end, has_averages);
  }
}

// Not its bytes: a new field of the config adds to them.
BOOST_AUTO_TEST_CASE(a_model_and_its_config) {
  const Folder folder("promised-files");
  const char* const chosen = std::getenv("SEPPO_NEW_FILES");
  const fs::path written = (chosen ? fs::path(chosen) : folder.path) / "model.safetensors";
  Parameters parameters(1);
  const LanguageModel model(parameters.root(), kConfig);
  const std::span<real> values = parameters.edit();
  for (const auto& entry : parameters.entries()) fill(values.subspan(entry.offset, entry.size()), kParameters);
  save_model(written, parameters, model, {{"program", "charlm"}});
  check_model(written);
  check_model(kFiles / "model.safetensors");
}

// Written before each tensor had a digest.
BOOST_AUTO_TEST_CASE(a_model_of_format_1) {
  check_model(kFiles / "format-1.safetensors");
  BOOST_CHECK_EQUAL(SafeTensorsFile(kFiles / "format-1.safetensors").metadata().at("seppo.format"), "1");
}

// No file of the folder is left out, and together they stay small.
BOOST_AUTO_TEST_CASE(the_files_are_few_and_small) {
  int files = 0;
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(kFiles)) {
    ++files;
    bytes += entry.file_size();
  }
  BOOST_CHECK_EQUAL(files, 8);
  BOOST_CHECK_LT(bytes, 20'000u);
}
