// Which model is kept: the best by each measure of those that were evaluated, even after a resume, or the mean of the
// last models if it is better.
// needs: programs: all
#include <seppo/nn/run/run_folder.h>
#include "app/run.h"
#include "support/measures.h"

#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <map>

using namespace test;
using examples::Evaluation;
using Values = std::vector<seppo::real>;

namespace {

struct ModelConfig {
  int outputs = 3;
  void fields(seppo::ConfigVisitor& v) { v("outputs", outputs, {1, 9}, "outputs"); }
};

struct Model {
  using Config = ModelConfig;
  Model(const seppo::Scope& s, const ModelConfig& c) : config(c), linear(s / "linear", 1, c.outputs) {}
  ModelConfig config;
  seppo::Linear linear;
};

Evaluation evaluation(double loss, double exact, double accuracy = 0) {
  return {loss, {{"val_exact", exact}, {"val_token_accuracy", accuracy}}};
}

// A training run whose models get the evaluations in `script`, in the order in which they are first evaluated. An
// epoch has two steps, and each step moves all parameters.
struct Scripted {
  Folder folder{"best"};
  std::vector<Evaluation> script;
  std::vector<Values> models = {};  // the parameters at each evaluation
  Values kept = {};                 // at the end
  nlohmann::json summary = {};

  void train(Words options) {
    ModelConfig config;
    examples::Run run{.out = folder.path / "m", .measures = {"exact", "token_accuracy"}};
    examples::CommandLine line("tiny train", "About.");
    line.fields("model", config);
    run.add_to(line);
    options.insert(options.end(), {"--log-format", "none"});
    if (std::ranges::find(options, "--resume") == options.end())
      options.insert(options.end(), {"--batch-size", "8", "--lr", "0.25", "--clip-norm", "0", "--schedule", "cosine"});
    BOOST_REQUIRE(line.parse(options));
    seppo::Parameters parameters(run.seed());
    const Model model(parameters.root(), config);
    const auto now = [&] {
      const auto values = parameters.values();
      return Values(values.begin(), values.end());
    };
    const examples::Task task{.examples = 16,
                              .loss =
                                  [&](std::span<const int> rows) {
                                    const auto count = static_cast<int>(rows.size());
                                    return seppo::ShardLoss{sum(model.linear(seppo::full({count, 1}, 1))), 1.0 * count};
                                  },
                              .evaluate =
                                  [&] {
                                    const auto found = std::ranges::find(models, now());
                                    const auto at = static_cast<std::size_t>(found - models.begin());
                                    if (found == models.end()) models.push_back(now());
                                    return script.at(at);
                                  },
                              .samples = {}};
    summary = run.train(line, parameters, model, task).summary;
    kept = now();
    const auto saved = seppo::load_model<Model>(folder.path / "m/model.safetensors");
    const auto values = saved.parameters->values();
    BOOST_CHECK(std::ranges::equal(values, kept));
  }
  // The kept model is number `expected` of the evaluated ones, and the summary is that of its evaluation.
  void check(std::size_t expected) {
    BOOST_REQUIRE_LT(expected, models.size());
    const auto place = std::ranges::find(models, kept) - models.begin();
    BOOST_CHECK_EQUAL(static_cast<std::size_t>(place), expected);
    BOOST_CHECK(summary == script[expected].summary());
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_best_by_each_measure) {
  const std::vector<Evaluation> script{evaluation(5, 0.2, 0.9), evaluation(3, 0.4, 0.1), evaluation(1, 0.3, 0.2),
                                       evaluation(2, 0.4, 0.3), evaluation(4, 0.1, 0.4)};
  for (const auto& [best, expected] : {std::pair("loss", 2), {"exact", 3}, {"token_accuracy", 0}, {"last", 4}}) {
    Scripted run{.script = script};
    run.train({"--epochs", "5", "--best", best});
    BOOST_TEST_CONTEXT(best) run.check(static_cast<std::size_t>(expected));
    // Stop at this step, then resume.
    for (const char* cut : {"2", "5", "8"}) {
      Scripted again{.script = script};
      again.train({"--epochs", "5", "--best", best, "--max-steps", cut});
      if (cut == std::string("5")) again.models.pop_back();  // the resumed run skips the model from mid-epoch
      again.train({"--resume", (again.folder.path / "m").string(), "--max-steps", "0"});
      if (cut != std::string("5"))
        BOOST_TEST_CONTEXT(best << " after " << cut) again.check(static_cast<std::size_t>(expected));
      BOOST_CHECK(again.kept == run.kept);
    }
  }
  // Of models with equal score and equal loss, the first is kept.
  Scripted run{.script = {evaluation(2, 0.5), evaluation(1, 0.5), evaluation(1, 0.5)}};
  run.train({"--epochs", "3", "--best", "exact"});
  run.check(1);
}

// The final parameters are evaluated as well, and evaluations are as frequent as requested.
BOOST_AUTO_TEST_CASE(the_last_steps_count) {
  for (const double last_loss : {0.5, 9.}) {
    Scripted run{.script = {evaluation(2, 0), evaluation(1, 0), evaluation(last_loss, 0)}};
    run.train({"--epochs", "9", "--eval-interval", "2", "--max-steps", "9", "--best", "loss"});
    BOOST_CHECK_EQUAL(run.models.size(), 3);
    run.check(last_loss < 1 ? 2 : 1);
  }
}

BOOST_AUTO_TEST_CASE(an_average_is_of_what_it_says) {
  for (const int count : {2, 3, 4, 9})
    for (const bool is_better : {true, false}) {
      Scripted run{.script = {evaluation(5, 0), evaluation(2, 0), evaluation(3, 0), evaluation(4, 0)}};
      run.script.push_back(evaluation(is_better ? 1 : 6, 0));  // of the mean
      run.train({"--epochs", "4", "--best", "loss", "--average", std::to_string(count)});
      BOOST_REQUIRE_EQUAL(run.models.size(), 5);
      run.check(is_better ? 4 : 1);
      const std::size_t averaged = std::min<std::size_t>(static_cast<std::size_t>(count), 4);
      Values mean;
      for (std::size_t i = 0; i < run.kept.size(); ++i) {
        double sum = 0;
        for (std::size_t m = 4 - averaged; m < 4; ++m) sum += static_cast<double>(run.models[m][i]);
        mean.push_back(static_cast<seppo::real>(sum / static_cast<double>(averaged)));
      }
      BOOST_CHECK(run.models[4] == mean);
    }
  Scripted one{.script = {evaluation(5, 0), evaluation(2, 0)}};
  one.train({"--epochs", "2", "--average", "1"});
  BOOST_CHECK_EQUAL(one.models.size(), 2);  // a mean of one model is not evaluated
}

// A run killed after saving a model for the mean, but before the checkpoint, resumes with the models from before.
BOOST_AUTO_TEST_CASE(a_killed_training_has_all_for_its_mean) {
  const Folder folder("best");
  const auto write = [](const fs::path& file) { std::ofstream(file) << "x"; };
  {
    seppo::RunFolder run(folder.path);
    for (int step = 1; step <= 4; ++step) {
      run.save_last(step, 2, write);
      run.save_checkpoint(step, 2, write);
    }
    run.save_last(5, 2, write);
  }
  seppo::RunFolder again(folder.path);
  again.go_on_from(4);
  const auto models = again.last_models(2);
  BOOST_REQUIRE_EQUAL(models.size(), 2);
  BOOST_CHECK(models[0].stem() == "3" && models[1].stem() == "4");
  BOOST_CHECK_EQUAL(again.last_models(1)[0].stem(), "4");
}

// Each program by each of its measures, at a learning rate that makes them rise and fall.
BOOST_AUTO_TEST_CASE(programs_keep_the_best_of_what_they_measured,
                     *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("best");
  std::string text;
  for (int i = 0; i < 80; ++i) text += "A fox saw a crow. The crow sang. ";
  seppo::RandomStream random(1, seppo::Purpose::test);  // the longer training runs, the worse the end is predicted
  for (int i = 0; i < 300; ++i) text += "AfoxTh. "[random.below(8)];
  folder.write("t", text);
  folder.write(
      "p",
      "a b c d\td c b a\nc d a b\tb a d c\na c b d\td b c a\nb d c a\ta c d b\nc b a d\td a b c\nd a b c\tc b a d\n");
  const Words quick{"--epochs",   "6",     "--epoch-steps",  "4", "--lr",         "0.3",
                    "--schedule", "const", "--warmup-steps", "0", "--batch-size", "16"};
  struct Case {
    Words command, measures;
  };
  const std::vector<Case> cases{
      {{"addsub", "train", "--enc-layers", "1", "--dec-layers", "1", "--d-ff", "8"}, {"exact", "token_accuracy"}},
      {{"reverse", "train"}, {"exact", "token_accuracy"}},
      {{"count", "train"}, {"accuracy"}},
      {{"odd_one", "train", "--d-model", "8", "--heads", "2", "--layers", "1"}, {"accuracy"}},
      {{"translate",    "train", "--pairs",      "p", "--val-pairs", "p", "--d-model", "16", "--heads",          "2",
        "--enc-layers", "1",     "--dec-layers", "1", "--average",   "1", "--beam",    "1",  "--length-penalty", "0"},
       {"bleu", "exact", "token_accuracy"}},
      {{"charlm", "train", "--data", "t", "--block", "8", "--d-model", "8", "--heads", "2", "--layers", "1"}, {}},
      {{"llm", "train", "--data", "t", "--max-length", "8", "--d-model", "8", "--heads", "2", "--layers", "1"}, {}}};
  std::map<std::string, int> moved;  // by program: number of measures whose best model is not the last
  for (const Case& c : cases) {
    Words measures = c.measures;
    measures.insert(measures.end(), {"loss", "last"});
    for (const std::string& best : measures) {
      Words command = c.command;
      command.insert(command.end(), quick.begin(), quick.end());
      command.insert(command.end(), {"--best", best, "--overwrite", "--eval-interval", "1"});
      const Finished r = run_training(folder, command, c.command[0]);
      BOOST_REQUIRE_EQUAL(r.evaluations.size(), 6);
      const std::string key = best == "last" ? "val_loss" : "val_" + best;
      double expected = r.evaluations.back()[key].get<double>();
      for (const nlohmann::json& e : r.evaluations) {
        const double value = e[key].get<double>();
        if (best != "last" && (best == "loss" ? value < expected : value > expected))
          expected = value, ++moved[c.command[0]];
      }
      BOOST_CHECK_MESSAGE(r.summary[key].get<double>() == expected,
                          c.command[0] << " by " << best << ": kept " << r.summary[key] << ", not " << expected);
    }
  }
  BOOST_CHECK(moved.contains("charlm") && moved.contains("llm") && moved.size() > 3);
}
