// The framework of the training programs: how options reach the sampler and trainer, how often it evaluates, what it
// writes.
#include "app/run.h"
#include "support/program.h"

#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>
#include <seppo/nn/train/interrupts.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <csignal>
#include <mutex>
#include <sstream>

using namespace test;
using examples::Arguments;
using examples::CommandLine;
using nlohmann::json;

namespace {

enum class Colour { red, green };
std::span<const char* const> enum_names(Colour) {
  static constexpr const char* kNames[] = {"red", "green"};
  return kNames;
}

struct ModelConfig {
  int n_outputs = 1, vocabulary = 0;
  Colour colour = Colour::red;
  void fields(seppo::ConfigVisitor& v) {
    v("n_outputs", n_outputs, {1, 9}, "outputs");
    v("vocabulary", vocabulary, {1, 100}, "words", {.source = seppo::Source::data});
    v("colour", colour, "colour");
  }
  void validate() const {
    seppo::check<seppo::ArgumentError>(n_outputs != 7, "model: n_outputs 7 does not go with colour");
  }
};

struct Model {
  using Config = ModelConfig;
  Model(const seppo::Scope& s, const ModelConfig& c) : config(c), linear(s / "linear", 1, c.n_outputs) {}
  ModelConfig config;
  seppo::Linear linear;
};

// A training run as seen by its task.
struct Trained {
  std::vector<std::vector<int>> batches;  // the examples of each step
  int evaluations = 0, samples = 0;
  examples::Result result;
  std::string printed;
};

Trained train(const Folder& folder, const Arguments& options, std::size_t examples, std::vector<int> lengths = {},
              int interrupted_by = 0) {
  ModelConfig config;
  examples::Run run{.out = folder.path / "m"};
  CommandLine line("tiny train", "About.");
  line.fields("model", config);
  run.add_to(line);
  Arguments all = options;
  all.insert(all.end(), {"--log-format", "none", "--overwrite"});
  BOOST_REQUIRE(line.parse(all));
  config.vocabulary = 5;
  seppo::Parameters parameters(run.seed());
  const Model model(parameters.root(), config);
  Trained trained;
  std::mutex mutex;
  std::vector<int> seen;
  examples::Task task{
      .example = "predict 1 2",
      .examples = examples,
      .lengths = std::move(lengths),
      .loss =
          [&](std::span<const int> rows) {
            const std::scoped_lock lock(mutex);
            // Steps count from 1; step 0 is the trial run that predicts memory.
            if (seppo::tape().random.step > 0) seen.insert(seen.end(), rows.begin(), rows.end());
            const auto count = static_cast<int>(rows.size());
            return seppo::ShardLoss{sum(model.linear(seppo::full({count, 1}, 1))), 1.0 * count};
          },
      .evaluate =
          [&] {
            if (interrupted_by) std::raise(interrupted_by);
            return examples::Evaluation{1e-7, {{"val_right", 0.5}, {"val_at", {1, 2}}}};
          },
      .samples =
          [&] {
            ++trained.samples;
            return std::vector<examples::Sample>{{.input = "a", .expected = "b", .output = "</script>"}};
          },
      .extra = {{"vocabulary", {"x", "y"}}}};
  const auto evaluate = task.evaluate;
  task.evaluate = [&, evaluate] { return ++trained.evaluations, evaluate(); };
  trained.result = run.train(line, parameters, model, task);
  std::ostringstream printed;
  std::streambuf* const before = std::cout.rdbuf(printed.rdbuf());
  run.finish(line, task, trained.result);
  std::cout.rdbuf(before);
  trained.printed = printed.str();
  const auto batch =
      static_cast<std::size_t>(std::min<int>(run.training.sampler.batch_size, static_cast<int>(examples)));
  for (std::size_t i = 0; i < seen.size(); i += batch) {
    trained.batches.emplace_back(seen.begin() + static_cast<std::ptrdiff_t>(i),
                                 seen.begin() + static_cast<std::ptrdiff_t>(i + batch));
    // Threads take the shards of a step in any order.
    std::sort(trained.batches.back().begin(), trained.batches.back().end());
  }
  return trained;
}

std::vector<json> lines(const fs::path& file) {
  std::vector<json> all;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) all.push_back(json::parse(line));
  return all;
}

const Arguments kTwoEpochs{"--epochs", "2", "--batch-size", "8"};

}  // namespace

BOOST_AUTO_TEST_CASE(options_reach_the_sampler) {
  const Folder folder("training");
  const Trained r = train(folder, with(kTwoEpochs, {"--in-order"}), 24);
  BOOST_REQUIRE_EQUAL(r.batches.size(), 6);
  for (std::size_t b = 0; b < 6; ++b)
    for (int i = 0; i < 8; ++i)
      BOOST_CHECK_EQUAL(r.batches[b][static_cast<std::size_t>(i)], static_cast<int>(b % 3) * 8 + i);
  const auto shuffled = train(folder, kTwoEpochs, 800).batches;
  BOOST_CHECK(shuffled == train(folder, kTwoEpochs, 800).batches);
  BOOST_CHECK(shuffled != train(folder, with(kTwoEpochs, {"--seed", "1"}), 800).batches);
  std::vector<int> lengths;
  for (int i = 0; i < 800; ++i) lengths.push_back(i * 37 % 100);
  double spread = 0;
  for (const auto& batch : train(folder, kTwoEpochs, 800, lengths).batches) {
    int low = 100, high = 0;
    for (const int i : batch) {
      low = std::min(low, lengths[static_cast<std::size_t>(i)]);
      high = std::max(high, lengths[static_cast<std::size_t>(i)]);
    }
    spread += (high - low) / 200.0;
  }
  BOOST_CHECK_LT(spread, 5);  // random batches give about 75
}

BOOST_AUTO_TEST_CASE(how_many_steps_and_evaluations) {
  const Folder folder("training");
  BOOST_CHECK_EQUAL(train(folder, kTwoEpochs, 5).result.steps, 2);  // fewer examples than fit into a batch
  Trained r = train(folder, with(kTwoEpochs, {"--epoch-steps", "2"}), 80);
  BOOST_CHECK_EQUAL(r.result.steps, 4);
  BOOST_CHECK_EQUAL(r.evaluations, 3);  // of equal models the first is kept, and evaluated once more at the end
  r = train(folder, with(kTwoEpochs, {"--max-steps", "13"}), 80);
  BOOST_CHECK_EQUAL(r.result.steps, 13);
  BOOST_CHECK_EQUAL(r.evaluations, 3);
  r = train(folder, {"--epochs", "7", "--batch-size", "8", "--eval-interval", "3"}, 16);
  BOOST_CHECK_EQUAL(r.result.steps, 14);
  BOOST_CHECK_EQUAL(r.evaluations, 4);                  // after epochs 3, 6 and 7
  const auto as_it_was = std::signal(SIGHUP, SIG_DFL);  // these tests may run within nohup
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    BOOST_CHECK_EXCEPTION(train(folder, kTwoEpochs, 80, {}, signal), seppo::Interrupted,
                          [&](const seppo::Interrupted& e) { return e.signal == signal; });
    BOOST_CHECK(fs::exists(folder.path / "m/checkpoints/10.safetensors"));
  }
  std::signal(SIGHUP, as_it_was);
}

// When a terminal closes, its shell and then the kernel send SIGHUP; a run that nohup has started goes on.
BOOST_AUTO_TEST_CASE(a_terminal_that_closes) {
  const auto as_it_was = std::signal(SIGHUP, SIG_DFL);
  {
    const seppo::CatchInterrupts interrupts;
    for (int time = 0; time < 3; ++time) std::raise(SIGHUP);
    BOOST_CHECK_EQUAL(interrupts.signal(), SIGHUP);
  }
  std::signal(SIGHUP, SIG_IGN);
  {
    const seppo::CatchInterrupts interrupts;
    std::raise(SIGHUP);
    BOOST_CHECK_EQUAL(interrupts.signal(), 0);
  }
  BOOST_CHECK(std::signal(SIGHUP, as_it_was) == SIG_IGN);
}

BOOST_AUTO_TEST_CASE(what_a_run_leaves) {
  const Folder folder("training");
  const Trained r = train(
      folder, with(kTwoEpochs, {"--log-interval", "10", "--outputs", "3", "--lr", "0.25", "--report", "--json"}), 80);
  const std::vector<json> metrics = lines(folder.path / "m/metrics.jsonl");
  BOOST_REQUIRE_EQUAL(metrics.size(), 4);
  for (const std::size_t at : {0u, 2u})
    for (const char* key : {"step", "epoch", "loss", "accuracy", "gradient_norm", "lr", "seconds"})
      BOOST_CHECK_MESSAGE(metrics[at].contains(key), key);
  for (const std::size_t at : {1u, 3u}) {
    BOOST_CHECK_EQUAL(metrics[at]["val_loss"].get<double>(), 1e-7);
    BOOST_CHECK_EQUAL(metrics[at]["val_right"].get<double>(), 0.5);
    BOOST_CHECK_EQUAL(metrics[at]["step"].get<int>(), at == 1 ? 10 : 20);
    BOOST_CHECK_EQUAL(metrics[at]["epoch"].get<int>(), at == 1 ? 1 : 2);
  }
  for (const char* key : {"val_loss", "val_right", "seconds", "steps", "peak_rss_mb"})
    BOOST_CHECK_MESSAGE(last_line(r.printed).contains(key), key);
  BOOST_CHECK(r.printed.find("tiny predict --model " + (folder.path / "m").string() + " 1 2\n") != std::string::npos);
  BOOST_CHECK(r.printed.find("m/report.html\n") != std::string::npos);

  const json config = json::parse(read(folder.path / "m/config.json"));
  BOOST_CHECK_EQUAL(config["program"], "tiny");
  BOOST_CHECK_EQUAL(config["model"]["n_outputs"], 3);
  BOOST_CHECK_EQUAL(config["model"]["vocabulary"], 5);
  BOOST_CHECK_EQUAL(config["training"]["lr"], 0.25);
  BOOST_CHECK_EQUAL(config["vocabulary"].size(), 2);
  const auto saved = seppo::load_model<Model>(folder.path / "m/model.safetensors");
  BOOST_CHECK(saved.config == config);
  BOOST_CHECK_EQUAL(saved.model.config.n_outputs, 3);

  BOOST_CHECK_EQUAL(r.samples, 2);
  const std::string page = read(folder.path / "m/report.html");
  BOOST_CHECK(page.ends_with("</html>\n") && page.find("\"finished\":true") != std::string::npos);
  BOOST_CHECK(page.find("\"</script>") == std::string::npos);
}

// --config reads back what --dump-config prints, and options take precedence over the file.
BOOST_AUTO_TEST_CASE(a_config_is_read_again) {
  const Folder folder("training");
  const auto dumped = [](const Arguments& options) {
    ModelConfig config;
    examples::TrainingConfig training;
    CommandLine line("tiny train", "About.");
    line.fields("model", config);
    line.fields("training", training);
    BOOST_REQUIRE(line.parse(options));
    return line.config();
  };
  const std::string file = (folder.path / "c.json").string();
  const json changed = dumped({"--n-outputs", "4", "--colour", "green", "--in-order", "--adam-betas", "0.5,0.25",
                               "--lr", "1e-7", "--seed", "18446744073709551615"});
  BOOST_CHECK(changed != dumped({}));
  std::ofstream(file) << changed;
  BOOST_CHECK(dumped({"--config", file}) == changed);
  const json other = dumped({"--outputs=2", "--config=" + file, "--no-in-order"});
  BOOST_CHECK_EQUAL(other["model"]["n_outputs"], 2);
  BOOST_CHECK_EQUAL(other["model"]["colour"], "green");
  BOOST_CHECK_EQUAL(other["training"]["in_order"], false);
  for (const char* text :
       {"", "[]", "{\"program\":\"other\"}", "{\"model\":{\"depth\":1}}", "{\"model\":{\"n_outputs\":10}}",
        "{\"model\":{\"n_outputs\":null}}", "{\"model\":{\"colour\":[1,2]}}", "{\"trainng\":{\"epochs\":1}}"}) {
    std::ofstream(file) << text;
    BOOST_CHECK_THROW(dumped({"--config", file}), examples::UsageError);
  }
}

// Rules between fields are reported in terms of the command line's options.
BOOST_AUTO_TEST_CASE(rules_name_options) {
  const Folder folder("training");
  for (const auto& [options, text] : {std::pair{Arguments{"--outputs", "7"}, "--outputs 7 does not go with --colour"},
                                      {{"--min-lr", "1", "--lr", "0.1"}, "--min-lr 1 is above --lr 0.1"},
                                      {{"--schedule", "noam"}, "--schedule needs --warmup-steps"}})
    BOOST_CHECK_EXCEPTION(train(folder, options, 8), examples::UsageError, [part = text](const auto& e) {
      return std::string(e.what()).find(part) != std::string::npos;
    });
  BOOST_CHECK(!fs::exists(folder.path / "m"));
}
