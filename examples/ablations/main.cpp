// ablations: the same small Transformer is trained whole and with one part left out or exchanged.
#include "ablations/model.h"
#include "app/command_line.h"
#include "app/run.h"

#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace ablations {
namespace {

using nlohmann::json;

struct Row {
  const char* group;
  const char* what;
  Parts parts;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::vector<Row>& all_rows() {
  static const std::vector<Row> rows{
      {"scale", "width 32", {}},
      {"scale", "width 32, scores not divided by sqrt(d)", {.divides_scores = false}},
      {"scale", "width 64", {.width = 64}},
      {"scale", "width 64, scores not divided", {.width = 64, .divides_scores = false}},
      {"scale", "width 256", {.width = 256}},
      {"scale", "width 256, scores not divided", {.width = 256, .divides_scores = false}},
      {"residuals", "1 layer", {}},
      {"residuals", "1 layer, no residual connections", {.residuals = false}},
      {"residuals", "2 layers", {.layers = 2}},
      {"residuals", "2 layers, no residual connections", {.layers = 2, .residuals = false}},
      {"residuals", "4 layers", {.layers = 4}},
      {"residuals", "4 layers, no residual connections", {.layers = 4, .residuals = false}},
      {"projections", "1 layer", {}},
      {"projections", "1 layer, one projection for Q and K", {.separate_keys = false}},
      {"projections", "2 layers, one projection for Q and K", {.layers = 2, .separate_keys = false}},
      {"norms", "4 layers, layer norm", {.layers = 4}},
      {"norms", "4 layers, batch norm", {.layers = 4, .norm = WhichNorm::batch}},
      {"norms", "4 layers, no norm", {.layers = 4, .norm = WhichNorm::none}},
      {"positions", "sinusoidal positions", {}},
      {"positions", "no positions", {.positions = false}},
      {"heads", "2 layers, 4 heads", {.layers = 2, .heads = 4}},
      {"heads", "2 layers, 1 head", {.layers = 2}},
      {"optimizers", "2 layers, Adam, lr 0.001", {.layers = 2}},
      {"optimizers", "2 layers, SGD with momentum 0.9, lr 0.001", {.layers = 2, .sgd = true}},
      {"optimizers", "2 layers, SGD with momentum 0.9, lr 0.1", {.layers = 2, .sgd = true, .lr = 0.1}},
      {"dropout", "2 layers", {.layers = 2}},
      {"dropout", "2 layers, 10 % of the attention weights dropped", {.layers = 2, .attention_dropout = 0.1}},
      {"masks", "decoder, masked weights are 0", {.layers = 2, .masked_score = -kInfinity}},
      {"masks", "decoder, masked scores are -1e9", {.layers = 2, .masked_score = -1e9}},
      {"masks", "decoder, masked scores are -1e-9", {.layers = 2, .masked_score = -1e-9}},
      {"masks", "decoder, masked scores are 0", {.layers = 2, .masked_score = 0}},
  };
  return rows;
}

std::vector<std::string> groups() {
  std::vector<std::string> names{"all"};
  for (const Row& row : all_rows())
    if (names.back() != row.group) names.push_back(row.group);
  return names;
}

struct Spread {
  double mean = 0, deviation = 0;  // of a sample: over n - 1
};

Spread spread_of(const std::vector<double>& x) {
  const double n = static_cast<double>(x.size());
  Spread s{.mean = std::accumulate(x.begin(), x.end(), 0.0) / n};
  for (const double v : x) s.deviation += (v - s.mean) * (v - s.mean);
  s.deviation = x.size() > 1 ? std::sqrt(s.deviation / (n - 1)) : 0;
  return s;
}

std::string heading(int steps, int seeds) {
  std::string text = fmt::format(
      "Digits that are right, in percent, in 640 new sequences of 16 digits to be reversed, after {} steps.\n"
      "Guessing gives 10. Masks: a decoder writes the digits one after another.\n\n{:<50}",
      steps, "");
  for (int seed = 0; seed < seeds; ++seed) text += fmt::format(" seed {}", seed);
  return text + (seeds > 1 ? "   mean  deviation\n" : "\n");
}

json measure(const Row& row, int seeds, int steps) {
  std::vector<double> percent;
  std::cout << fmt::format("{:<50}", row.what) << std::flush;
  for (int seed = 0; seed < seeds; ++seed) {
    percent.push_back(100 * accuracy_of(row.parts, static_cast<std::uint64_t>(seed), steps));
    std::cout << fmt::format(" {:>6.1f}", percent.back()) << std::flush;
  }
  const Spread spread = spread_of(percent);
  if (seeds > 1) std::cout << fmt::format(" {:>6.1f} {:>10.1f}", spread.mean, spread.deviation);
  std::cout << "\n";
  return {{"group", row.group},
          {"what", row.what},
          {"percent", percent},
          {"mean", spread.mean},
          {"deviation", spread.deviation}};
}

int run(const examples::Arguments& arguments) {
  int seeds = 1, steps = 800, threads = 0;
  std::string group = "all";
  bool as_json = false;
  examples::CommandLine line("ablations [options]",
                             "Trains the same small Transformer whole and with one part left out or exchanged, and "
                             "prints how many digits are right in new sequences, for each seed.");
  line("seeds", seeds, {1, 100}, "trainings of each model, with seeds from 0");
  line("steps", steps, {2, 1e6}, "steps of each training, of 64 sequences");
  line("group", group, "rows to measure: all, or those of one group");
  line.one_of("group", groups());
  line("threads", threads, {0, 256}, examples::kThreadsHelp);
  line("json", as_json, examples::kJsonHelp);
  if (!line.parse(arguments)) return 0;
  examples::use_threads(threads);

  json results = json::array();
  std::cout << heading(steps, seeds);
  std::string last;
  for (const Row& row : all_rows()) {
    if (group != "all" && group != row.group) continue;
    if (last != row.group) std::cout << (last.empty() ? "" : "\n") << row.group << "\n";
    last = row.group;
    results.push_back(measure(row, seeds, steps));
  }
  if (as_json) std::cout << json{{"steps", steps}, {"seeds", seeds}, {"rows", results}}.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace ablations

int main(int argc, char** argv) { return examples::run_command(argc, argv, ablations::run); }
