// Measures of models, computed from their scores by plain loops in double precision, and a program's training records.
#pragma once

#include "app/run.h"
#include "support/program.h"

#include <nlohmann/json.hpp>

#include <seppo/nn/data/sampler.h>
#include <seppo/nn/io/model_file.h>
#include <seppo/nn/train/metrics.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace test {

// Sums over rows of scores: -log softmax of the target, and whether the target has the largest score.
struct Sums {
  double nats = 0;
  int right = 0, count = 0;

  bool add(std::span<const seppo::real> scores, int target) {
    double sum = 0;
    bool is_best = true;
    const auto at = static_cast<double>(scores[static_cast<std::size_t>(target)]);
    for (const seppo::real score : scores) {
      sum += std::exp(static_cast<double>(score) - at);
      is_best &= static_cast<double>(score) <= at;
    }
    nats += std::log(sum), right += is_best, ++count;
    return is_best;
  }
  double loss() const { return nats / count; }
  double accuracy() const { return static_cast<double>(right) / count; }
};

inline std::span<const seppo::real> row_of(const seppo::Tensor& scores, std::size_t row) {
  const auto columns = static_cast<std::size_t>(scores.size(-1));
  return scores.values().subspan(row * columns, columns);
}

// What a program told, as Json or nlohmann::json, equals what was found up to float rounding.
template <class Value>
void check_near(const Value& told, double found) {
  BOOST_CHECK_SMALL(told.template get<double>() - found, 2e-6 * (1 + std::abs(found)));
}

// A training run of a program that logged every step and kept every checkpoint, and the records it left in `out`.
struct Finished {
  nlohmann::json summary;                          // with --json
  std::vector<nlohmann::json> steps, evaluations;  // from metrics.jsonl
  examples::TrainingConfig training;
};

inline Finished run_training(const Folder& folder, std::vector<std::string> command, const std::string& out) {
  command.insert(command.end(),
                 {"--log-interval", "1", "--keep", "1000", "--log-format", "none", "--json", "--out", out});
  const Result result = folder.run(command);
  BOOST_REQUIRE_MESSAGE(result.code == 0, result.err);
  Finished finished{
      .summary = nlohmann::json::parse(last_line(result.out).dump()), .steps = {}, .evaluations = {}, .training = {}};
  std::ifstream file(folder.path / out / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    nlohmann::json metrics = nlohmann::json::parse(line);
    (metrics.contains("val_loss") ? finished.evaluations : finished.steps).push_back(std::move(metrics));
  }
  const nlohmann::json config = nlohmann::json::parse(read(folder.path / out / "config.json"));
  finished.training = examples::config_part<examples::TrainingConfig>(config, "training");
  return finished;
}

// Indices of the examples in the first batch.
inline std::vector<int> first_batch(std::size_t examples, const Finished& finished, std::vector<int> lengths = {}) {
  const examples::TrainingConfig& c = finished.training;
  seppo::Sampler sampler(examples,
                         {.batch_size = c.sampler.batch_size,
                          .epoch_steps = c.sampler.epoch_steps,
                          .in_order = c.sampler.in_order,
                          .seed = c.trainer.seed},
                         std::move(lengths));
  const std::span<const int> batch = sampler.next();
  return {batch.begin(), batch.end()};
}

// Every evaluation during training was of the model at its step: measures_of(model) gives all of its measures again,
// by the names that metrics.jsonl has. The model that is kept is the best of them by the measure of --best.
template <class Model, class F>
void check_evaluations(const Folder& folder, const Finished& r, const std::string& out, const F& measures_of) {
  const std::string best = "val_" + r.training.best;
  const double sign = best == "val_loss" ? -1 : 1;
  double highest = -std::numeric_limits<double>::infinity();
  BOOST_CHECK_GT(r.evaluations.size(), 1u);
  for (const nlohmann::json& line : r.evaluations) {
    const fs::path file = folder.path / out / "checkpoints" / (line["step"].dump() + ".safetensors");
    const std::map<std::string, double> found = measures_of(seppo::load_model<Model>(file).model);
    for (const auto& [name, value] : line.items())
      if (name.starts_with("val_")) check_near(value, found.at(name));
    highest = std::max(highest, sign * line[best].template get<double>());
  }
  check_near(r.summary[best], sign * highest);
}

template <class Model>
struct Fresh {
  seppo::Parameters parameters;
  Model model;
  Fresh(std::uint64_t seed, const typename Model::Config& config)
      : parameters(seed), model(parameters.root(), config) {}
};

}  // namespace test
