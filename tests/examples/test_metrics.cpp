// metrics.jsonl reports what training really used: lr, loss, norm and accuracy of each line, and hence the parameters,
// follow from the examples of the steps by formulas independent of the library.
#include "app/run.h"
#include "support/program.h"

#include <seppo/autograd/ops.h>
#include <seppo/nn/modules/linear.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <map>
#include <mutex>
#include <numbers>

using namespace test;
using examples::Arguments;
using examples::CommandLine;
using nlohmann::json;

namespace {

constexpr int kOutputs = 3;
constexpr std::size_t kExamples = 50, kSize = 2 * kOutputs;  // weights and biases
using Values = std::vector<double>;

struct NoOptions {
  void fields(seppo::ConfigVisitor&) {}
};
struct Model {
  using Config = NoOptions;
  Model(const seppo::Scope& s, const NoOptions& c) : config(c), linear(s / "linear", 1, kOutputs) {}
  NoOptions config;
  seppo::Linear linear;
};

// An example's loss is the dot product of its coefficients and the parameters; it counts as 1 to 4, some of them right.
double coefficient(int row, std::size_t i) { return (row * 7 + static_cast<int>(i) * 5) % 17 / 4.0 - 2; }
double count(int row) { return 1 + row % 4; }
double correct(int row) { return row % 4 == 3 ? 2 : row % 2; }

struct Trained {
  std::map<std::uint32_t, std::vector<int>> rows = {};  // of each step
  std::vector<json> metrics = {};
  Values initial = {}, final = {};
};

Values values(const seppo::Parameters& parameters) {
  Values all;
  for (const auto& entry : parameters.entries())
    all.insert(all.end(), entry.tensor.values().begin(), entry.tensor.values().end());
  return all;
}

Trained train(const Arguments& options) {
  const Folder folder("metrics");
  const NoOptions config;
  examples::Run run{.out = folder.path / "m"};
  CommandLine line("tiny train", "About.");
  run.add_to(line);
  Arguments all = options;
  all.insert(all.end(), {"--log-format", "none", "--best", "last"});
  BOOST_REQUIRE(line.parse(all));
  seppo::Parameters parameters(run.seed());
  const Model model(parameters.root(), config);
  Trained trained{.initial = values(parameters)};
  std::mutex mutex;
  const auto loss = [&](std::span<const int> rows) {
    const std::scoped_lock lock(mutex);
    const std::uint32_t step = seppo::tape().random.step;
    if (step > 0) trained.rows[step].insert(trained.rows[step].end(), rows.begin(), rows.end());
    std::vector<seppo::real> sums(kSize);
    seppo::ShardLoss shard;
    for (const int row : rows) {
      for (std::size_t i = 0; i < kSize; ++i) sums[i] += static_cast<seppo::real>(coefficient(row, i));
      shard.count += count(row);
      shard.correct += correct(row);
    }
    const auto half = sums.begin() + kOutputs;
    shard.loss = sum(model.linear.weight * seppo::tensor({kOutputs, 1}, std::vector(sums.begin(), half))) +
                 sum(model.linear.bias * seppo::tensor({kOutputs}, std::vector(half, sums.end())));
    return shard;
  };
  const examples::Task task{
      .examples = kExamples, .loss = loss, .evaluate = [] { return examples::Evaluation{1}; }, .samples = nullptr};
  run.train(line, parameters, model, task);
  trained.final = values(parameters);
  std::ifstream stream(folder.path / "m/metrics.jsonl");
  for (std::string text; std::getline(stream, text);) trained.metrics.push_back(json::parse(text));
  return trained;
}

void check_close(const json& found, double expected, double tolerance, const std::string& what) {
  BOOST_REQUIRE_MESSAGE(found.is_number(), what << " is missing");
  BOOST_CHECK_MESSAGE(std::abs(found.get<double>() - expected) <= tolerance * std::max(1.0, std::abs(expected)),
                      what << ": " << found << ", expected " << expected);
}

}  // namespace

BOOST_AUTO_TEST_CASE(metrics_are_what_was_used) {
  constexpr double kLr = 0.2, kMinLr = 0.05, kEps = 0.3, kDecay = 0.1, kClip = 0.4, kBetas[] = {0.8, 0.9};
  constexpr int kWarmup = 3, kSteps = 18;  // three epochs of 50 examples in batches of 8, or in twice as many of 4
  const Arguments all{"--epochs",   "3",      "--lr",           "0.2", "--min-lr",     "0.05",
                      "--schedule", "linear", "--warmup-steps", "3",   "--adam-betas", "0.8,0.9",
                      "--adam-eps", "0.3",    "--weight-decay", "0.1", "--clip-norm",  "0.4"};
  for (const Arguments& parts : {Arguments{"--batch-size", "8", "--log-interval", "1"},
                                 {"--batch-size", "4", "--accumulate", "2", "--log-interval", "1", "--threads", "2"},
                                 {"--batch-size", "8", "--log-interval", "5", "--shards", "3", "--seed", "9"}}) {
    Arguments options = all;
    options.insert(options.end(), parts.begin(), parts.end());
    const Trained trained = train(options);
    BOOST_REQUIRE_EQUAL(trained.rows.size(), kSteps);
    std::map<int, json> logged;
    for (const json& line : trained.metrics)
      if (line.contains("loss")) BOOST_CHECK(logged.emplace(line["step"].get<int>(), line).second);
    BOOST_CHECK_EQUAL(logged.size(), parts[3] == "5" ? 4 : kSteps);  // the last step is always logged

    int clipped = 0;
    Values w = trained.initial, m(kSize), v(kSize);
    for (const auto& [step, rows] : trained.rows) {
      BOOST_CHECK_EQUAL(rows.size(), 8);
      double loss = 0, counted = 0, right = 0, squares = 0;
      Values gradient(kSize);
      for (const int row : rows) {
        for (std::size_t i = 0; i < kSize; ++i) gradient[i] += coefficient(row, i);
        counted += count(row);
        right += correct(row);
      }
      for (std::size_t i = 0; i < kSize; ++i) {
        loss += gradient[i] * w[i] / counted;
        squares += gradient[i] * gradient[i] / (counted * counted);
      }
      const double norm = std::sqrt(squares), factor = std::min(1.0, kClip / norm) / counted;
      clipped += norm > kClip;
      const double t = step,
                   lr = t <= kWarmup ? kLr * t / kWarmup : kLr + (kMinLr - kLr) * (t - kWarmup) / (kSteps - kWarmup);
      if (const auto found = logged.find(static_cast<int>(step)); found != logged.end()) {
        const std::string what = "step " + std::to_string(step) + " ";
        check_close(found->second["loss"], loss, 2e-6, what + "loss");
        check_close(found->second["accuracy"], right / counted, 1e-12, what + "accuracy");
        check_close(found->second["gradient_norm"], norm, 1e-6, what + "gradient_norm");
        check_close(found->second["lr"], lr, 1e-12, what + "lr");
        check_close(found->second["epoch"], (step - 1) / 6 + 1, 0, what + "epoch");
      }
      for (std::size_t i = 0; i < kSize; ++i) {
        const double g = gradient[i] * factor;
        m[i] = kBetas[0] * m[i] + (1 - kBetas[0]) * g;
        v[i] = kBetas[1] * v[i] + (1 - kBetas[1]) * g * g;
        const double m_hat = m[i] / (1 - std::pow(kBetas[0], t)), v_hat = v[i] / (1 - std::pow(kBetas[1], t));
        const double decay = i < kOutputs ? kDecay : 0;  // weights only
        w[i] -= lr * (m_hat / (std::sqrt(v_hat) + kEps) + decay * w[i]);
      }
    }
    BOOST_CHECK(clipped > 3 && clipped < kSteps - 3);
    for (std::size_t i = 0; i < kSize; ++i) check_close(trained.final[i], w[i], 3e-6, "parameter " + std::to_string(i));
  }
}
