// addsub: a Transformer that learns two-digit addition and subtraction.
#include "addsub/model.h"
#include "app/checkpoint_config.h"
#include "app/command_line.h"
#include "app/training.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/summary.h>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <set>

namespace addsub {
namespace {

using examples::CommandLine;
using examples::UsageError;
using nlohmann::json;

constexpr const char* kTask =
    "The task: \"BOS NEGATIVE 30 subtract NEGATIVE 34 EOS\" -> \"BOS POSITIVE 04 EOS\", operands -49..49,\n"
    "19,602 expressions in all. Exact match counts whole answers, decoded greedily; token accuracy counts\n"
    "single tokens predicted from the right ones before them, and flatters.";

// Where the expressions come from and which of them are for validation.
struct DataOptions {
  std::filesystem::path file;  // none: drawn by seed
  std::string split = "course";
  std::uint64_t seed = 0;

  Dataset load() const { return file.empty() ? drawn_dataset(seed) : read_dataset(file); }
  json to_json() const { return {{"file", file.string()}, {"split", split}, {"seed", seed}}; }
};

void check_split(const std::string& split) { split_dataset(10, split); }

bool is_fresh(const std::set<int>& seen, const Dataset& data, int row) {
  return !seen.contains(data.rows[static_cast<std::size_t>(row)].index());
}

std::set<int> expressions_of(const Dataset& data, std::span<const int> rows) {
  std::set<int> seen;
  for (const int row : rows) seen.insert(data.rows[static_cast<std::size_t>(row)].index());
  return seen;
}

// Validation, with and without the rows whose expression also stands among the training rows.
json validation_scores(const seppo::Transformer& model, const Dataset& data, const Split& split) {
  const std::set<int> seen = expressions_of(data, split.train);
  const Score all = score(model, data, split.validation);
  std::size_t fresh = 0, fresh_wrong = 0;
  for (const int row : split.validation) fresh += is_fresh(seen, data, row);
  for (const int row : all.wrong) fresh_wrong += is_fresh(seen, data, row);
  const double fresh_exact = fresh ? 1 - static_cast<double>(fresh_wrong) / static_cast<double>(fresh) : 0;
  return {{"val_exact", all.exact_match()},
          {"val_exact_not_in_train", fresh_exact},
          {"val_token_accuracy", all.token_accuracy()},
          {"val_accuracy_at", {all.accuracy_at(0), all.accuracy_at(1), all.accuracy_at(2), all.accuracy_at(3)}},
          {"val_examples", all.examples},
          {"val_examples_not_in_train", fresh}};
}

void print_validation(const json& v) {
  std::cout << fmt::format("validation   exact match {:8.4f} %  token accuracy {:8.4f} %   ({} expressions)\n",
                           100 * v["val_exact"].get<double>(), 100 * v["val_token_accuracy"].get<double>(),
                           v["val_examples"].get<int>())
            << fmt::format("  not in train           {:8.4f} %                             ({} expressions)\n",
                           100 * v["val_exact_not_in_train"].get<double>(), v["val_examples_not_in_train"].get<int>());
  const auto places = v["val_accuracy_at"].get<std::vector<double>>();
  std::cout << fmt::format("  by place               sign {:.2f} %  tens {:.2f} %  units {:.2f} %  end {:.2f} %\n",
                           100 * places[0], 100 * places[1], 100 * places[2], 100 * places[3]);
  // Some courses grade by token accuracy.
  constexpr double kTiers[] = {0.50, 0.63, 0.70, 0.74, 0.80};
  const auto reached = std::count_if(std::begin(kTiers), std::end(kTiers),
                                     [&](double tier) { return v["val_token_accuracy"].get<double>() >= tier; });
  std::cout << fmt::format("  course tier            {} of 5 (token accuracy of {})\n", reached,
                           fmt::join(kTiers, ", "));
}

// ---- train ---------------------------------------------------------------------------------------

struct Preset {
  ModelOptions model;
  examples::TrainingOptions training;
};

Preset preset_of(const std::string& name) {
  Preset p;
  p.training.out = "runs/addsub";
  if (name == "course") {  // what its notebook is handed out with
    p.model = {.dropout = 0.2, .dropout_place = "norm", .positions = "floor-sinusoid"};
    p.training.epochs = 10;
    p.training.batch_size = 256;
    p.training.in_order = true;
    p.training.lr = 1e-3;
    p.training.schedule = "const";
    p.training.adam = {.beta1 = 0.9, .beta2 = 0.995, .eps = 1e-9};
    p.training.clip_norm = 0;
    p.training.eval_interval = 1;
    return p;
  }
  const bool is_large = name == "large";
  if (is_large) p.model = {.d_model = 256, .n_heads = 8, .d_ff = 512};
  p.training.epochs = is_large ? 60 : 300;
  p.training.lr = is_large ? 5e-4 : 3e-3;
  p.training.warmup_steps = is_large ? 200 : 2000;
  p.training.adam = {.beta1 = 0.9, .beta2 = 0.98, .eps = 1e-9, .weight_decay = is_large ? 0.05 : 0.3};
  return p;
}

std::vector<examples::ReportSample> report_samples(const seppo::Transformer& model, const Dataset& data,
                                                   std::span<const int> rows) {
  std::vector<examples::ReportSample> samples;
  for (const int row : rows.first(std::min<std::size_t>(rows.size(), 8))) {
    const Expression& e = data.rows[static_cast<std::size_t>(row)];
    const auto& target = data.targets[static_cast<std::size_t>(row)];
    const std::vector<int> tokens = answer(model, {&e, 1})[0];
    examples::ReportSample sample{.input = e.arithmetic(),
                                  .expected = token_text(std::span(target).subspan(1)),
                                  .output = token_text(tokens),
                                  .maps = attention_of(model, e, tokens)};
    for (const seppo::AttentionMap& map : sample.maps) sample.labels.push_back(attention_labels(map, e, tokens));
    samples.push_back(std::move(sample));
  }
  return samples;
}

int train(const std::vector<std::string>& arguments) {
  std::string preset_name = examples::option_in(arguments, "preset", "lab");
  auto [model_options, options] = preset_of(preset_name);
  DataOptions data_options;
  double label_smoothing = 0;
  std::string smoothing_over = "all";
  bool overfit = false;

  CommandLine line("usage: addsub train [options]", kTask);
  line.choice("preset", &preset_name, {"lab", "large", "course"},
              "model and recipe: lab is the course's own model, course its own training, too");
  line.flag("overfit", &overfit, "train on 4 examples only, 200 epochs; must reach 100 %");
  line.section("Data");
  line.existing_path("data", &data_options.file,
                     "the course's JSON file; without it, 5,000 expressions are drawn by --seed");
  line.text("split", &data_options.split, "course|SEED", "which tenth is for validation: the course's own, or by seed");
  line.section("Model");
  line.integer("d-model", &model_options.d_model, 1, 4096, "width");
  line.integer("heads", &model_options.n_heads, 1, 256, "attention heads; they divide the width");
  line.integer("d-ff", &model_options.d_ff, 1, 65536, "width of the feed-forward layers");
  line.integer("enc-layers", &model_options.enc_layers, 1, 64, "encoder layers");
  line.integer("dec-layers", &model_options.dec_layers, 1, 64, "decoder layers");
  line.number("dropout", &model_options.dropout, 0, 0.999, "dropout of embeddings and sublayers");
  line.choice("dropout-place", &model_options.dropout_place, {"residual", "norm"},
              "drop before the residual sum, as the paper, or after the norm, as the course");
  line.choice("norm", &model_options.norm, {"post", "pre"}, "layer norm after or before each sublayer");
  line.choice("positions", &model_options.positions, examples::position_names(), "positional encoding");
  line.number("label-smoothing", &label_smoothing, 0, 0.9, "share of each target spread over tokens");
  line.choice("smoothing-over", &smoothing_over, {"all", "others"},
              "over all tokens, as PyTorch does, or those that are not right, as the course does");
  options.add_to(line);
  if (!line.parse(arguments)) return 0;
  options.validate();
  examples::check_heads(model_options.d_model, model_options.n_heads);
  if (model_options.dropout_place == "norm" && model_options.norm == "pre")
    throw UsageError("--dropout-place: norm needs --norm post");
  if (line.given("split")) try {
      check_split(data_options.split);
    } catch (const seppo::Error& e) {
      throw UsageError(fmt::format("--split: {}", e.what()));
    }
  examples::use_threads(options.threads);
  data_options.seed = options.seed;

  const Dataset data = data_options.load();
  Split split = split_dataset(data.rows.size(), data_options.split);
  if (overfit) {
    split.train = {split.train[0], split.train[split.train.size() / 3], split.train[2 * split.train.size() / 3],
                   split.train.back()};
    split.validation = split.train;
    if (!line.given("epochs")) options.epochs = 200;
    if (!line.given("warmup-steps")) options.warmup_steps = 20;
    if (!line.given("eval-interval")) options.eval_interval = 50;
  }

  seppo::Parameters parameters(options.seed);
  const seppo::Transformer model(parameters.root(), model_options.transformer());
  examples::prepare_folder(options.out);
  const json config = {
      {"program", "addsub"},          {"model", model_options.to_json()},   {"data", data_options.to_json()},
      {"overfit", overfit},           {"label_smoothing", label_smoothing}, {"smoothing_over", smoothing_over},
      {"training", options.to_json()}};
  if (options.log_format != "none")
    std::cerr << fmt::format("addsub: {} parameters, {} training and {} validation expressions, {} threads\n",
                             parameters.count(), split.train.size(), split.validation.size(), seppo::num_threads());

  const examples::Task task{
      .examples = split.train.size(),
      .loss =
          [&](std::span<const int> picks) {
            std::vector<int> rows;
            for (const int pick : picks) rows.push_back(split.train[static_cast<std::size_t>(pick)]);
            return loss(model, data, rows, smoothing_over_all(label_smoothing, smoothing_over));
          },
      .evaluate = [&] { return validation_scores(model, data, split); },
      .save = [&] { examples::save_model(options.out, parameters, config); },
      .name = "seppo: two-digit addition and subtraction",
      .about = kTask,
      .summary = seppo::summary(parameters, [&] { attention_of(model, data.rows[0], std::vector<int>{kEos}); }),
      .config = config,
      .samples = [&] { return report_samples(model, data, split.validation); }};
  const examples::TrainingResult result = examples::train(parameters, options, task);

  print_validation(result.evaluation);
  examples::print_result(result, options);
  return 0;
}

// ---- eval and predict ----------------------------------------------------------------------------

struct Saved {
  json config;
  seppo::Parameters parameters;
  seppo::Transformer model;

  explicit Saved(const std::filesystem::path& file)
      : config(examples::load_config(file, "addsub")),
        parameters(/*seed=*/0, examples::most_parameters(file)),
        model(parameters.root(), ModelOptions::from_json(examples::config_part(config, "model")).transformer()) {
    seppo::load_checkpoint(file, parameters);
  }

  DataOptions data() const {
    const json& d = examples::config_part(config, "data");
    return {examples::config_text(d, "file"), examples::config_text(d, "split"), examples::config_seed(d, "seed")};
  }
};

// All 19,602 expressions, and those of them that the data does not hold.
json all_scores(const seppo::Transformer& model, const Dataset& data) {
  Dataset every;
  for (int i = 0; i < kExpressions; ++i) {
    every.rows.push_back(Expression::of(i));
    every.targets.push_back(every.rows.back().target());
  }
  std::vector<int> rows(every.rows.size()), of_data(data.rows.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::iota(of_data.begin(), of_data.end(), 0);
  const std::set<int> seen = expressions_of(data, of_data);
  const Score all = score(model, every, rows);
  std::size_t unseen_wrong = 0;
  for (const int row : all.wrong) unseen_wrong += !seen.contains(row);
  const std::size_t unseen = every.rows.size() - seen.size();
  const double unseen_exact = 1 - static_cast<double>(unseen_wrong) / static_cast<double>(unseen);
  std::cout << fmt::format("all          exact match {:8.4f} %  token accuracy {:8.4f} %   ({} expressions)\n",
                           100 * all.exact_match(), 100 * all.token_accuracy(), all.examples)
            << fmt::format("  never in the data      {:8.4f} %                             ({} expressions)\n",
                           100 * unseen_exact, unseen);
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < std::min(all.wrong.size(), kShown); ++i) {
    const Expression e = Expression::of(all.wrong[i]);
    std::cout << fmt::format("  wrong: {} = {}, got {}\n", e.arithmetic(), e.result(),
                             token_text(answer(model, {&e, 1})[0]));
  }
  if (all.wrong.size() > kShown) std::cout << fmt::format("  ... and {} more\n", all.wrong.size() - kShown);
  return {{"all_exact", all.exact_match()},
          {"unseen_exact", unseen_exact},
          {"all_token_accuracy", all.token_accuracy()},
          {"all_examples", all.examples},
          {"unseen_examples", unseen}};
}

int eval(const std::vector<std::string>& arguments) {
  std::filesystem::path path = "runs/addsub", data_file;
  std::string split;
  bool all = false, as_json = false;
  int threads = 0;
  CommandLine line("usage: addsub eval [options]", kTask);
  line.existing_path("model", &path, "folder or file that `addsub train` saved");
  line.existing_path("data", &data_file, "data to score instead of that of the training");
  line.text("split", &split, "course|SEED", "split of the data instead of that of the training");
  line.flag("all", &all, "also score all 19,602 expressions, and those that the data does not hold");
  line.integer("threads", &threads, 0, 256, "threads; 0: one for each processor");
  line.flag("json", &as_json, "print the result as one JSON object, the last line of standard output");
  if (!line.parse(arguments)) return 0;
  if (!split.empty()) try {
      check_split(split);
    } catch (const seppo::Error& e) {
      throw UsageError(fmt::format("--split: {}", e.what()));
    }
  examples::use_threads(threads);

  const Saved saved(examples::model_file(path));
  DataOptions data_options = saved.data();
  if (!data_file.empty()) data_options.file = data_file;
  if (!split.empty()) data_options.split = split;
  if (data_file.empty() && !data_options.file.empty() && !std::filesystem::exists(data_options.file))
    throw UsageError(fmt::format("--data: the model's data '{}' is not here; name it",
                                 seppo::printable(data_options.file.string(), 120)));
  const Dataset data = data_options.load();
  json summary = validation_scores(saved.model, data, split_dataset(data.rows.size(), data_options.split));
  print_validation(summary);
  if (all) summary.update(all_scores(saved.model, data));
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

int predict(const std::vector<std::string>& arguments) {
  std::filesystem::path path = "runs/addsub";
  examples::AttentionOutput attention;
  std::vector<std::string> words;
  CommandLine line("usage: addsub predict [options] [EXPRESSION ...]",
                   "Prints the model's answer to each expression, given as arithmetic or tokens:\n"
                   "  addsub predict \"-30 - -34\" \"12 + 7\"\n"
                   "  addsub predict \"BOS NEGATIVE 30 subtract NEGATIVE 34 EOS\"\n"
                   "Without expressions it reads them from standard input, one a line.");
  line.existing_path("model", &path, "folder or file that `addsub train` saved");
  attention.add_to(line);
  line.words(&words);
  if (!line.parse(arguments)) return 0;

  // `predict -30 - -34`, without quotes, is one expression.
  const bool quoted =
      std::any_of(words.begin(), words.end(), [](const std::string& w) { return w.find(' ') != std::string::npos; });
  if (words.size() > 1 && !quoted) words = {fmt::format("{}", fmt::join(words, " "))};

  const Saved saved(examples::model_file(path));
  const auto print_answer = [&](const std::string& text) {
    const Expression e = parse_expression(text);
    const std::vector<int> tokens = answer(saved.model, {&e, 1})[0];
    int value = 0;
    if (text.find("BOS") != std::string::npos || !parse_result(tokens, &value))
      std::cout << "BOS " << token_text(tokens) << std::endl;
    else
      std::cout << e.arithmetic() << " = " << value << std::endl;
    if (!attention.is_wanted()) return;
    const seppo::AttentionMaps maps = attention_of(saved.model, e, tokens);
    const auto labels = [&](const seppo::AttentionMap& map) { return attention_labels(map, e, tokens); };
    attention.show(maps, labels);
  };
  examples::for_each_text(words, print_answer);
  return 0;
}

}  // namespace
}  // namespace addsub

int main(int argc, char** argv) {
  return examples::run_commands(argc, argv, "addsub: a Transformer learns two-digit addition and subtraction.",
                                {{"train", "train a model and save it", addsub::train},
                                 {"eval", "score a saved model", addsub::eval},
                                 {"predict", "answer expressions", addsub::predict}});
}
