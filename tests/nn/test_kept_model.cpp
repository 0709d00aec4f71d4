// Which model a TrainingRun keeps: the best of its evaluations, also if it was killed and goes on.
#include "nn/small_training.h"

#include <seppo/nn/io/checkpoint.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace test::small_training;
using test::Folder;

BOOST_AUTO_TEST_CASE(evaluations_have_scores) {
  const Evaluation evaluation{.val_loss = 2, .measures = {{"val_exact", 0.5}, {"val_bleu", nullptr}, {"val_at", {1}}}};
  BOOST_CHECK_EQUAL(best_by("loss", evaluation, 7).score, -2);
  BOOST_CHECK_EQUAL(best_by("last", evaluation, 7).score, 7);
  BOOST_CHECK_EQUAL(best_by("exact", evaluation, 7).score, 0.5);
  BOOST_CHECK_EQUAL(best_by("bleu", evaluation, 7).score, 0);
  for (const char* missing : {"at", "none"})
    BOOST_CHECK_EXCEPTION(best_by(missing, evaluation, 7), ArgumentError, says("the evaluation has no number 'val_"));
  const Best best{.step = 1, .score = 0.5, .loss = 2};
  BOOST_CHECK(!best.is_above(best));
  BOOST_CHECK((Best{.step = 2, .score = 0.5, .loss = 1}.is_above(best)));
  BOOST_CHECK(!(Best{.step = 2, .score = 0.4, .loss = 1}.is_above(best)));
  BOOST_CHECK(best.is_above({}));
}

// Of equal evaluations; of equal scores, that of the lower loss. So it is for the final parameters and for a mean too.
BOOST_AUTO_TEST_CASE(of_equal_models_the_first_is_kept) {
  for (const int max_steps : {0, 5})
    for (const int average : {1, 2})
      for (const double rise : {0.0, 1.0}) {
        const Folder folder("training-run");
        Model model, kept;
        std::vector<real> first;
        int evaluations = 0;
        TrainingTask task = task_of(model);
        task.evaluate = [&] {
          const std::span<const real> values = model.parameters.values();
          if (evaluations == 0) first.assign(values.begin(), values.end());
          return Evaluation{.val_loss = 1 + rise * evaluations++, .measures = {{"val_exact", 0.5}}};
        };
        TrainingConfig changed = config();
        changed.max_steps = max_steps;
        changed.average = average;
        changed.best = "exact";
        TrainingRun run(model.parameters, changed, task, {.folder = folder.path});
        run.train();
        BOOST_CHECK_EQUAL(evaluations, 4 + (average > 1));  // the kept one is measured again
        load_checkpoint(run.folder().model(), kept.parameters);
        BOOST_CHECK(std::ranges::equal(kept.parameters.values(), first));
      }
}

// Whichever that is: the first, the last, or the mean of two.
BOOST_AUTO_TEST_CASE(a_run_ends_with_the_parameters_that_it_keeps) {
  const std::vector<std::vector<double>> losses{{1, 2, 3, 4, 1}, {3, 2, 1, 4, 1}, {3, 2, 1, 0.5}};
  for (const std::vector<double>& one : losses) {
    const Folder folder("training-run");
    Model model, kept;
    std::size_t evaluations = 0;
    TrainingTask task = task_of(model);
    task.evaluate = [&] { return Evaluation{.val_loss = one.at(evaluations++)}; };
    TrainingRun run(model.parameters, config(), task, {.folder = folder.path});
    const RunResult result = run.train();
    BOOST_CHECK_EQUAL(evaluations, one.size());
    BOOST_CHECK_EQUAL(result.kept.val_loss, std::ranges::min(one));
    load_checkpoint(run.folder().model(), kept.parameters);
    BOOST_CHECK(std::ranges::equal(model.parameters.values(), kept.parameters.values()));
  }
}

namespace {

// The model that a run to `max_steps`, or to the end from where it was, has kept.
std::string kept_model(const fs::path& folder, int max_steps, const std::string& best,
                       std::function<Evaluation()> evaluate) {
  Model model;
  TrainingTask task = task_of(model);
  task.evaluate = std::move(evaluate);
  TrainingConfig changed = config();
  changed.max_steps = max_steps;
  changed.best = best;
  TrainingRun run(model.parameters, changed, task, {.folder = folder, .resume = max_steps == 0});
  run.train();
  return test::read(run.folder().model());
}

}  // namespace

// A run that is killed behind a checkpoint and before its best model writes that model when it goes on.
BOOST_AUTO_TEST_CASE(a_best_model_that_was_not_written_is_made_up_for) {
  const Folder folder("training-run");
  const auto first = kept_model(folder.path, 2, "loss", [] { return Evaluation{.val_loss = 1}; });
  fs::remove(folder.path / "model.safetensors");
  const auto worse = [] { return Evaluation{.val_loss = 2}; };
  BOOST_CHECK(kept_model(folder.path, 0, "loss", worse) == first);
}

// Of equal scores the lower loss decides, also if the other model was evaluated before the run was resumed.
BOOST_AUTO_TEST_CASE(a_tie_is_decided_after_a_resumption) {
  const Folder folder("training-run");
  const auto with_loss = [](double loss) {
    return [=] { return Evaluation{.val_loss = loss, .measures = {{"val_exact", 0.5}}}; };
  };
  const auto first = kept_model(folder.path, 2, "exact", with_loss(5));
  BOOST_CHECK(kept_model(folder.path, 0, "exact", with_loss(3)) != first);
}
