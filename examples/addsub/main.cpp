// addsub: a Transformer that learns two-digit addition and subtraction.
#include "addsub/model.h"
#include "app/attention_pictures.h"
#include "app/digest.h"
#include "app/memory.h"
#include "app/run.h"

#include <seppo/nn/data/text.h>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <set>

namespace addsub {
namespace {

using examples::Arguments;
using examples::CommandLine;
using examples::UsageError;
using nlohmann::json;
using seppo::Ragged;

constexpr const char* kTask =
    "The task: \"BOS NEGATIVE 30 subtract NEGATIVE 34 EOS\" -> \"BOS POSITIVE 04 EOS\", operands -49..49, 19,602 "
    "expressions in all. Exact match counts whole answers, decoded greedily; token accuracy counts single tokens "
    "predicted from the correct ones before them, and is higher.";

// Where the expressions come from and which of them are for validation.
struct DataConfig {
  std::filesystem::path file;  // if empty, the expressions are drawn by seed
  std::string split = "course";

  void fields(seppo::ConfigVisitor& v) {
    v("data", file, "the course's JSON file; without it, 5,000 expressions are generated");
    v("split", split, "which tenth is for validation: \"course\", the course's own, or a seed");
  }
  void validate() const try { split_dataset(10, split); } catch (const seppo::ArgumentError& e) {
    throw UsageError(fmt::format("--{}", e.what()));
  }
  Dataset load(std::uint64_t seed) const { return file.empty() ? drawn_dataset(seed) : read_dataset(file); }
};

// The training objective.
struct ObjectiveConfig {
  bool overfit = false;
  double label_smoothing = 0;
  Smoothing smoothing_over = Smoothing::all;

  void fields(seppo::ConfigVisitor& v) {
    v("overfit", overfit, "train on 4 expressions only, for 200 epochs without dropout; fails unless it reaches 100 %");
    v("label_smoothing", label_smoothing, {0, 0.9}, "share of each target that is spread over tokens");
    v("smoothing_over", smoothing_over,
      "over all tokens, as PyTorch does, or only over the wrong ones, as the course does");
  }
};

enum class Preset { lab, large, course };
std::span<const char* const> enum_names(Preset) {
  static constexpr const char* kNames[] = {"lab", "large", "course"};
  return kNames;
}

void use_recipe(Preset preset, bool overfit, ModelConfig& model, examples::TrainingConfig& training) {
  seppo::LayerConfig& layer = model.transformer.layer;
  training = {.epochs = 300,
              .eval_interval = 10,
              .best = "exact",
              .trainer = {.lr = 3e-3,
                          .schedule = seppo::ScheduleKind::cosine,
                          .warmup_steps = 2000,
                          .adam = {.betas = {0.9, 0.98}, .eps = 1e-9, .weight_decay = 0.3}}};
  if (preset == Preset::large) {
    layer.d_model = 256, layer.n_heads = 8, layer.d_ff = 512;
    training.epochs = 60;
    training.trainer.lr = 5e-4, training.trainer.warmup_steps = 200, training.trainer.adam.weight_decay = 0.05;
  }
  if (preset == Preset::course) {  // the settings of its notebook as handed out
    layer.dropout = overfit ? 0 : 0.2;
    model.positions = examples::Positions::floor_sinusoid;
    model.dropout_place = DropoutPlace::norm;
    training = {.epochs = 10,
                .best = "last",
                .sampler = {.batch_size = 256, .in_order = true},
                .trainer = {.lr = 1e-3, .adam = {.betas = {0.9, 0.995}, .eps = 1e-9}, .clip_norm = 0}};
  }
  if (overfit) training.epochs = 200, training.eval_interval = 50, training.trainer.warmup_steps = 20;
}

std::set<int> expressions_of(const Dataset& data) {
  std::set<int> seen;
  for (const Expression& e : data.rows) seen.insert(e.index());
  return seen;
}

void print_score(const char* name, const char* fresh_name, const Score& s) {
  std::cout << fmt::format("{:<12} exact match {:8.4f} %  token accuracy {:8.4f} %  loss {:#.4g}  ({} expressions)\n",
                           name, 100 * s.exact_match(), 100 * s.token_accuracy(), s.loss(), s.examples);
  if (s.fresh > 0)
    std::cout << fmt::format("  {:<22} {:8.4f} %  ({} expressions)\n", fresh_name, 100 * s.fresh_exact_match(),
                             s.fresh);
}

void print_validation(const Score& s) {
  print_score("validation", "not in train", s);
  const auto at = [&](std::size_t place) { return 100 * s.accuracy_at(place); };
  std::cout << fmt::format("  by place               sign {:.2f} %  tens {:.2f} %  units {:.2f} %  end {:.2f} %\n",
                           at(0), at(1), at(2), at(3));
  // Accuracy on expressions that were trained on says nothing about the grade.
  if (s.fresh > 0)
    std::cout << fmt::format("  course tier            {} of {} (token accuracy of {} %)\n",
                             course_tier(s.token_accuracy()), kTiers.size(), fmt::join(kTiers, ", "));
}

json measures_of(const Score& s) {
  json measures = {{"val_exact", s.exact_match()},
                   {"val_token_accuracy", s.token_accuracy()},
                   {"val_accuracy_at", {s.accuracy_at(0), s.accuracy_at(1), s.accuracy_at(2), s.accuracy_at(3)}},
                   {"val_examples", s.examples},
                   {"val_examples_not_in_train", s.fresh}};
  if (s.fresh > 0) measures["val_exact_not_in_train"] = s.fresh_exact_match();
  return measures;
}

std::vector<int> answer(const Model& model, const Expression& e) {
  Dataset one;
  one.add(e, e.target());
  return answers(model, one.source)[0];
}

// The answer, with the attention weights of a pass that predicts it.
examples::Sample explain(const Model& model, const Expression& e, std::span<const int> answer) {
  std::vector<int> target{kBos};
  target.insert(target.end(), answer.begin(), answer.end());
  Dataset one;
  one.add(e, target);
  const Ragged source = one.source, read = one.target.without_last();  // by the encoder and the decoder
  seppo::AttentionRecorder recorder;
  {
    const seppo::Inference guard;
    const seppo::Observe scope(recorder);
    model.transformer.logits(source, read);
  }
  const auto labels_of = [=](const seppo::AttentionMap& map) {
    const bool in_encoder = map.name.starts_with("encoder"), is_cross = map.name.ends_with("cross_attn");
    examples::AttentionLabels labels;
    for (const int id : (in_encoder ? source : read).tokens) labels.queries.push_back(vocabulary().token(id));
    for (const int id : (in_encoder || is_cross ? source : read).tokens) labels.keys.push_back(vocabulary().token(id));
    return labels;
  };
  return {e.arithmetic(), /*expected=*/"", token_text(answer), std::move(recorder.maps), labels_of};
}

int train(const Arguments& arguments) {
  Preset preset = examples::option_in(arguments, "preset", Preset::lab);
  const bool overfits = std::ranges::find(arguments, "--overfit") != arguments.end();
  ModelConfig config;
  examples::Run run{.out = "runs/addsub", .measures = {"exact", "token_accuracy"}};
  use_recipe(preset, overfits, config, run.training);
  DataConfig data_config;
  ObjectiveConfig objective;
  CommandLine line("addsub train [options]", kTask);
  line("preset", preset,
       "model and recipe; course reproduces the course, lab trains its model better, large is a larger model");
  line.fields("data", data_config);
  line.must_exist("data");
  line.fields("model", config);
  line.fields("objective", objective);
  run.add_to(line);
  if (!line.parse(arguments)) return 0;

  const Dataset data = data_config.load(run.seed());
  auto [train_rows, validation_rows] = split_dataset(data.rows.size(), data_config.split);
  if (objective.overfit) {
    const std::size_t n = train_rows.size();
    train_rows = validation_rows = {train_rows[0], train_rows[n / 3], train_rows[2 * n / 3], train_rows[n - 1]};
  }
  const Dataset training = data.pick(train_rows), validation = data.pick(validation_rows);
  const std::set<int> seen = expressions_of(training);
  seppo::Parameters parameters(run.seed(), examples::most_values());
  const auto model = examples::build<Model>(parameters, config);
  const double smoothing = smoothing_over_all(objective.label_smoothing, objective.smoothing_over);
  Score last;
  const examples::Task task{
      .title = "seppo: two-digit addition and subtraction",
      .about = kTask,
      .data = fmt::format("{} training and {} validation expressions", training.rows.size(), validation.rows.size()),
      .example = "predict --attention \"48 - 27\"",
      .examples = training.rows.size(),
      .digest = examples::digest_of(training.source, training.target, validation.source, validation.target),
      .loss = [&](std::span<const int> rows) { return loss(model, training, rows, smoothing); },
      .evaluate =
          [&] {
            last = score(model, validation, seen);
            return examples::Evaluation{last.loss(), measures_of(last)};
          },
      .samples =
          [&] {
            std::vector<examples::Sample> samples;
            for (std::size_t i = 0; i < std::min<std::size_t>(validation.rows.size(), 8); ++i) {
              samples.push_back(explain(model, validation.rows[i], answer(model, validation.rows[i])));
              samples.back().expected = token_text(validation.target[i].subspan(1));
            }
            return samples;
          }};
  const examples::Result result = run.train(line, parameters, model, task);
  print_validation(last);
  run.finish(line, task, result);
  if (objective.overfit && run.training.max_steps == 0 && !last.wrong.empty())
    throw std::runtime_error(fmt::format("--overfit: {} of the {} expressions trained on are not learned",
                                         last.wrong.size(), last.examples));
  return 0;
}

// The scores on all 19,602 expressions, and on those that the data does not contain.
json all_scores(const Model& model, const Dataset& data) {
  const Score s = score(model, all_expressions(), expressions_of(data));
  print_score("all", "never in the data", s);
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < std::min(s.wrong.size(), kShown); ++i) {
    const Expression e = Expression::of(s.wrong[i]);
    std::cout << fmt::format("  wrong: {} = {}, got {}\n", e.arithmetic(), e.result(), token_text(answer(model, e)));
  }
  if (s.wrong.size() > kShown) std::cout << fmt::format("  ... and {} more\n", s.wrong.size() - kShown);
  return {{"all_exact", s.exact_match()},
          {"unseen_exact", s.fresh_exact_match()},
          {"all_token_accuracy", s.token_accuracy()},
          {"all_examples", s.examples},
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
  const DataConfig own = examples::config_part<DataConfig>(saved.config, "data");
  DataConfig config = own;
  if (!given.split.empty()) config.split = given.split;
  if (!given.file.empty()) config.file = given.file;
  if (!config.file.empty() && !std::filesystem::exists(config.file))
    throw UsageError(
        fmt::format("--data: the model's data '{}' is not here; name it", seppo::printable_path(config.file)));
  const std::uint64_t seed = examples::config_part<examples::TrainingConfig>(saved.config, "training").trainer.seed;
  const Dataset data = config.load(seed);
  // Without the training's own file, --data is taken for the file that was trained on.
  const bool is_own = own.file == config.file || (!own.file.empty() && !std::filesystem::exists(own.file));
  const Dataset own_data = is_own ? data : own.load(seed);
  const Dataset trained_on = own_data.pick(split_dataset(own_data.rows.size(), own.split).train);
  const Split split = split_dataset(data.rows.size(), config.split);
  const Score validation = score(saved.model, data.pick(split.validation), expressions_of(trained_on));
  print_validation(validation);
  json summary = measures_of(validation);
  summary["val_loss"] = validation.loss();
  if (all) summary.update(all_scores(saved.model, data));
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

int predict(const Arguments& arguments) {
  examples::Trained trained{.program = "addsub"};
  examples::AttentionOutput attention;
  Arguments words;
  CommandLine line(
      "addsub predict [options] [EXPRESSION ...]",
      "Prints the model's answer to each expression, given as arithmetic or tokens, and the right one where it "
      "differs:\n"
      "  addsub predict \"-30 - -34\" \"12 + 7\"\n"
      "  addsub predict \"BOS NEGATIVE 30 subtract NEGATIVE 34 EOS\"\n"
      "Without expressions it reads them from standard input, one a line.");
  trained.fields(line);
  attention.fields(line);
  line.words(&words);
  if (!line.parse(arguments)) return 0;
  attention.prepare();

  // `predict -30 - -34`, without quotes, is one expression.
  const bool quoted = std::ranges::any_of(words, [](const std::string& w) { return w.find(' ') != std::string::npos; });
  if (words.size() > 1 && !quoted) words = {fmt::format("{}", fmt::join(words, " "))};
  const auto saved = trained.load<Model>();
  examples::for_each_text(words, [&](const std::string& text) {
    const Expression e = parse_expression(text);
    const std::vector<int> tokens = answer(saved.model, e);
    const std::optional<int> value = parse_result(tokens);
    const bool as_arithmetic = value && text.find("BOS") == std::string::npos;
    const bool is_right = value && *value == e.result();
    std::cout << (as_arithmetic ? fmt::format("{} = {}", e.arithmetic(), *value) : "BOS " + token_text(tokens))
              << (is_right ? "" : fmt::format("   wrong: it is {}", e.result())) << std::endl;
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
  line("data", config.file, "the course's JSON file; without it, 5,000 expressions are generated");
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
  std::cout << fmt::format("{} of {} rows; ids: 0-9 are the digits", shown, data.rows.size());
  for (int id = kPositive; id <= kEos; ++id) std::cout << fmt::format(", {} {}", id, vocabulary().token(id));
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
