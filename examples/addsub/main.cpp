// addsub: a Transformer that learns two-digit addition and subtraction.
#include "addsub/model.h"
#include "app/run.h"

#include <seppo/nn/data/text.h>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <set>

namespace addsub {
namespace {

using examples::Arguments;
using examples::CommandLine;
using examples::UsageError;
using nlohmann::json;

constexpr const char* kTask =
    "The task: \"BOS NEGATIVE 30 subtract NEGATIVE 34 EOS\" -> \"BOS POSITIVE 04 EOS\", operands -49..49, 19,602 "
    "expressions in all. Exact match counts whole answers, decoded greedily; token accuracy counts single tokens "
    "predicted from the right ones before them, and flatters.";

// Where the expressions come from and which of them are for validation.
struct DataConfig {
  std::filesystem::path file;  // none: drawn by seed
  std::string split = "course";

  void fields(seppo::ConfigVisitor& v) {
    v("data", file, "the course's JSON file; without it, 5,000 expressions are drawn by seed");
    v("split", split, "which tenth is for validation: \"course\", the course's own, or a seed");
  }
  void validate() const try { split_dataset(10, split); } catch (const seppo::ArgumentError& e) {
    throw UsageError(fmt::format("--{}", e.what()));
  }
  Dataset load(std::uint64_t seed) const { return file.empty() ? drawn_dataset(seed) : read_dataset(file); }
};

// What is learned of them.
struct ObjectiveConfig {
  bool overfit = false;
  double label_smoothing = 0;
  Smoothing smoothing_over = Smoothing::all;

  void fields(seppo::ConfigVisitor& v) {
    v("overfit", overfit, "train on 4 expressions alone, 200 epochs without dropout; fails unless it reaches 100 %");
    v("label_smoothing", label_smoothing, {0, 0.9}, "share of each target spread over tokens");
    v("smoothing_over", smoothing_over,
      "over all tokens, as PyTorch does, or those that are not right, as the course does");
  }
};

enum class Preset { lab, large, course };
std::span<const char* const> enum_names(Preset) {
  static constexpr const char* kNames[] = {"lab", "large", "course"};
  return kNames;
}

struct Recipe {
  ModelConfig model;
  examples::TrainingConfig training;
};

Recipe recipe_of(Preset preset, bool overfit) {
  Recipe r{.model = {},
           .training = {.epochs = 300,
                        .eval_interval = 10,
                        .trainer = {.lr = 3e-3,
                                    .schedule = seppo::ScheduleKind::cosine,
                                    .warmup_steps = 2000,
                                    .adam = {.betas = {0.9, 0.98}, .eps = 1e-9, .weight_decay = 0.3}}}};
  seppo::LayerConfig& layer = r.model.transformer.layer;
  if (preset == Preset::large) {
    layer.d_model = 256, layer.n_heads = 8, layer.d_ff = 512;
    r.training.epochs = 60;
    r.training.trainer.lr = 5e-4;
    r.training.trainer.warmup_steps = 200;
    r.training.trainer.adam.weight_decay = 0.05;
  }
  if (preset == Preset::course) {  // what its notebook is handed out with
    layer.dropout = 0.2;
    r.model.positions = examples::Positions::floor_sinusoid;
    r.model.dropout_place = DropoutPlace::norm;
    r.training = {.epochs = 10,
                  .sampler = {.batch_size = 256, .in_order = true},
                  .trainer = {.lr = 1e-3, .adam = {.betas = {0.9, 0.995}, .eps = 1e-9}, .clip_norm = 0}};
  }
  if (overfit) {
    layer.dropout = 0;
    r.training.epochs = 200;
    r.training.eval_interval = 50;
    r.training.trainer.warmup_steps = 20;
  }
  return r;
}

std::set<int> expressions_of(const Dataset& data, std::span<const int> rows) {
  std::set<int> seen;
  for (const int row : rows) seen.insert(data.rows[static_cast<std::size_t>(row)].index());
  return seen;
}

// The score of `rows`, and of those whose expression is not among the seen ones.
struct Scores {
  Score all;
  std::size_t fresh = 0;
  double fresh_exact = 0;

  Scores(const Model& model, const Dataset& data, std::span<const int> rows, const std::set<int>& seen)
      : all(score(model, data, rows)) {
    const auto is_fresh = [&](int row) { return !seen.contains(data.rows[static_cast<std::size_t>(row)].index()); };
    fresh = static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), is_fresh));
    const auto wrong = std::count_if(all.wrong.begin(), all.wrong.end(), is_fresh);
    if (fresh > 0) fresh_exact = 1 - static_cast<double>(wrong) / static_cast<double>(fresh);
  }

  void print(const char* name, const char* fresh_name) const {
    std::cout << fmt::format("{:<12} exact match {:8.4f} %  token accuracy {:8.4f} %  loss {:#.4g}  ({} expressions)\n",
                             name, 100 * all.exact_match(), 100 * all.token_accuracy(), all.loss, all.examples);
    if (fresh > 0)
      std::cout << fmt::format("  {:<22} {:8.4f} %  ({} expressions)\n", fresh_name, 100 * fresh_exact, fresh);
  }
};

examples::Evaluation evaluation_of(const Scores& s) {
  json measures = {{"val_exact", s.all.exact_match()},
                   {"val_token_accuracy", s.all.token_accuracy()},
                   {"val_accuracy_at", json::array()},
                   {"val_examples", s.all.examples},
                   {"val_examples_not_in_train", s.fresh}};
  for (std::size_t place = 0; place < s.all.correct.size(); ++place)
    measures["val_accuracy_at"].push_back(s.all.accuracy_at(place));
  if (s.fresh > 0) measures["val_exact_not_in_train"] = s.fresh_exact;
  return {s.all.loss, measures};
}

void print_validation(const Scores& s) {
  s.print("validation", "not in train");
  std::cout << fmt::format("  by place               sign {:.2f} %  tens {:.2f} %  units {:.2f} %  end {:.2f} %\n",
                           100 * s.all.accuracy_at(0), 100 * s.all.accuracy_at(1), 100 * s.all.accuracy_at(2),
                           100 * s.all.accuracy_at(3));
  // The expressions trained on say nothing of a course's grade.
  if (s.fresh > 0)
    std::cout << fmt::format("  course tier            {} of {} (token accuracy of {} %)\n",
                             course_tier(s.all.token_accuracy()), kTiers.size(), fmt::join(kTiers, ", "));
}

int train(const Arguments& arguments) {
  Preset preset = examples::option_in(arguments, "preset", Preset::lab);
  const bool overfits = std::find(arguments.begin(), arguments.end(), "--overfit") != arguments.end();
  auto [config, training] = recipe_of(preset, overfits);
  examples::Run run{.out = "runs/addsub", .training = training};
  DataConfig data_config;
  ObjectiveConfig objective;
  CommandLine line("addsub train [options]", kTask);
  line("preset", preset, "model and recipe: lab is the course's model trained well, course its own training as well");
  line.fields("data", data_config);
  line.must_exist("data");
  line.fields("model", config);
  line.fields("objective", objective);
  run.add_to(line);
  if (!line.parse(arguments)) return 0;

  const Dataset data = data_config.load(run.seed());
  Split split = split_dataset(data.rows.size(), data_config.split);
  if (objective.overfit) {
    const std::vector<int>& all = split.train;
    split.train = {all[0], all[all.size() / 3], all[2 * all.size() / 3], all.back()};
    split.validation = split.train;
  }
  seppo::Parameters parameters(run.seed());
  const Model model(parameters.root(), config);
  const double smoothing = smoothing_over_all(objective.label_smoothing, objective.smoothing_over);
  const std::set<int> seen = expressions_of(data, split.train);
  std::optional<Scores> scores;
  const examples::Task task{
      .title = "seppo: two-digit addition and subtraction",
      .about = kTask,
      .data = fmt::format("{} training and {} validation expressions", split.train.size(), split.validation.size()),
      .example = "predict --attention \"48 - 27\"",
      .examples = split.train.size(),
      .loss =
          [&](std::span<const int> picks) {
            std::vector<int> rows;
            for (const int pick : picks) rows.push_back(split.train[static_cast<std::size_t>(pick)]);
            return loss(model, data, rows, smoothing);
          },
      .evaluate = [&] { return evaluation_of(scores.emplace(model, data, split.validation, seen)); },
      .samples =
          [&] {
            std::vector<examples::Sample> samples;
            for (std::size_t i = 0; i < std::min<std::size_t>(split.validation.size(), 8); ++i) {
              const auto row = static_cast<std::size_t>(split.validation[i]);
              samples.push_back(explain(model, data.rows[row], answer(model, data.rows[row])));
              samples.back().expected = token_text(data.target[row].subspan(1));
            }
            return samples;
          }};
  const examples::Result result = run.train(line, parameters, model, task);
  print_validation(*scores);
  run.finish(line, task, result);
  const bool is_whole = !result.is_interrupted && run.training.max_steps == 0;
  if (objective.overfit && is_whole && !scores->all.wrong.empty())
    throw std::runtime_error(fmt::format("--overfit: {} of the {} expressions trained on are not learned",
                                         scores->all.wrong.size(), scores->all.examples));
  return 0;
}

// All 19,602 expressions, and those of them that the data does not hold.
json all_scores(const Model& model, const Dataset& data) {
  const Dataset every = all_expressions();
  std::vector<int> rows(every.rows.size()), of_data(data.rows.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::iota(of_data.begin(), of_data.end(), 0);
  const Scores s(model, every, rows, expressions_of(data, of_data));
  s.print("all", "never in the data");
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < std::min(s.all.wrong.size(), kShown); ++i) {
    const Expression e = Expression::of(s.all.wrong[i]);
    std::cout << fmt::format("  wrong: {} = {}, got {}\n", e.arithmetic(), e.result(), token_text(answer(model, e)));
  }
  if (s.all.wrong.size() > kShown) std::cout << fmt::format("  ... and {} more\n", s.all.wrong.size() - kShown);
  return {{"all_exact", s.all.exact_match()},
          {"unseen_exact", s.fresh_exact},
          {"all_token_accuracy", s.all.token_accuracy()},
          {"all_examples", s.all.examples},
          {"unseen_examples", s.fresh}};
}

int eval(const Arguments& arguments) {
  examples::Trained trained{.program = "addsub"};
  DataConfig given{.file = "", .split = ""};
  bool all = false, as_json = false;
  CommandLine line("addsub eval [options]", kTask);
  trained.fields(line);
  line("data", given.file, "data to score instead of that of the training");
  line.must_exist("data");
  line("split", given.split, "split of the data instead of that of the training: \"course\" or a seed");
  line("all", all, "also score all 19,602 expressions, and those that the data does not hold");
  line("json", as_json, examples::kJsonHelp);
  if (!line.parse(arguments)) return 0;
  if (!given.split.empty()) given.validate();

  const auto saved = trained.load<Model>();
  DataConfig config = examples::config_part<DataConfig>(saved.config, "data");
  if (!given.split.empty()) config.split = given.split;
  if (!given.file.empty()) config.file = given.file;
  if (!config.file.empty() && !std::filesystem::exists(config.file))
    throw UsageError(
        fmt::format("--data: the model's data '{}' is not here; name it", seppo::printable_path(config.file)));
  const Dataset data =
      config.load(examples::config_part<examples::TrainingConfig>(saved.config, "training").trainer.seed);
  const Split split = split_dataset(data.rows.size(), config.split);
  const Scores scores(saved.model, data, split.validation, expressions_of(data, split.train));
  print_validation(scores);
  const examples::Evaluation evaluation = evaluation_of(scores);
  json summary = evaluation.measures;
  summary["val_loss"] = evaluation.val_loss;
  if (all) summary.update(all_scores(saved.model, data));
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

int predict(const Arguments& arguments) {
  examples::Trained trained{.program = "addsub"};
  examples::AttentionOutput attention;
  Arguments words;
  CommandLine line("addsub predict [options] [EXPRESSION ...]",
                   "Prints the model's answer to each expression, given as arithmetic or tokens:\n"
                   "  addsub predict \"-30 - -34\" \"12 + 7\"\n"
                   "  addsub predict \"BOS NEGATIVE 30 subtract NEGATIVE 34 EOS\"\n"
                   "Without expressions it reads them from standard input, one a line.");
  trained.fields(line);
  attention.fields(line);
  line.words(&words);
  if (!line.parse(arguments)) return 0;

  // `predict -30 - -34`, without quotes, is one expression.
  const bool quoted =
      std::any_of(words.begin(), words.end(), [](const std::string& w) { return w.find(' ') != std::string::npos; });
  if (words.size() > 1 && !quoted) words = {fmt::format("{}", fmt::join(words, " "))};
  const auto saved = trained.load<Model>();
  examples::for_each_text(words, [&](const std::string& text) {
    const Expression e = parse_expression(text);
    const std::vector<int> tokens = answer(saved.model, e);
    const std::optional<int> value = parse_result(tokens);
    if (value && text.find("BOS") == std::string::npos)
      std::cout << e.arithmetic() << " = " << *value << std::endl;
    else
      std::cout << "BOS " << token_text(tokens) << std::endl;
    if (attention.is_wanted()) attention.show(explain(saved.model, e, tokens));
  });
  return 0;
}

int show_data(const Arguments& arguments) {
  DataConfig config;
  std::uint64_t seed = 0;
  int head = 10;
  CommandLine line("addsub data [options]",
                   "Prints the first rows of the data as arithmetic, as text and as token ids.");
  line("data", config.file, "the course's JSON file; without it, 5,000 expressions are drawn by seed");
  line.must_exist("data");
  line("seed", seed, "random seed for drawn data");
  line("head", head, {1, 1e6}, "rows to print");
  if (!line.parse(arguments)) return 0;
  const Dataset data = config.load(seed);
  const auto shown = std::min<std::size_t>(data.rows.size(), static_cast<std::size_t>(head));
  for (std::size_t i = 0; i < shown; ++i)
    std::cout << fmt::format("{} = {}\n  {}  ->  {}\n  {}  ->  {}\n", data.rows[i].arithmetic(),
                             parse_result(data.target[i].subspan(1)).value(), token_text(data.source[i]),
                             token_text(data.target[i]), fmt::join(data.source[i], " "),
                             fmt::join(data.target[i], " "));
  std::cout << fmt::format("{} of {} rows; the ids:", shown, data.rows.size());
  for (int id = 0; id < vocabulary().size(); ++id) std::cout << fmt::format(" {} {}", id, vocabulary().token(id));
  std::cout << "\n";
  return 0;
}

}  // namespace
}  // namespace addsub

int main(int argc, char** argv) {
  return examples::run_commands(argc, argv, "addsub: a Transformer learns two-digit addition and subtraction.",
                                {{"train", "train a model and save it", addsub::train},
                                 {"eval", "score a saved model", addsub::eval},
                                 {"predict", "answer expressions, and show the attention", addsub::predict},
                                 {"data", "print the first rows of the data", addsub::show_data}});
}
