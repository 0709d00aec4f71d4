// addsub: a Transformer that learns two-digit addition and subtraction.
#include "addsub/model.h"
#include "addsub/presets.h"
#include "addsub/trace.h"
#include "app/run_program.h"

#include <seppo/nn/run/data_digest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>

namespace addsub {
namespace {

using app::UsageError;
using nlohmann::json;
using seppo::Ragged;

constexpr const char* kDataHelp = "the course's JSON file; without it, expressions are generated";
constexpr const char* kDigitsHelp = "digits of each number, 2 or 3";
constexpr const char* kRowsHelp = "expressions to generate, a tenth of them for validation";

// Where the expressions come from and which of them are for validation.
struct DataConfig {
  std::filesystem::path file;  // if empty, the expressions are drawn by seed
  std::string split = "course";
  int digits = kDigits, rows = kDrawnRows;

  void fields(seppo::ConfigVisitor& v) {
    v("data", file, kDataHelp);
    v("split", split, "which tenth is for validation: \"course\", the course's own, or a seed");
    v("digits", digits, {2, 3}, kDigitsHelp, {.may_be_missing = true});
    v("rows", rows, {10, 1e7}, kRowsHelp, {.may_be_missing = true});
  }
  void validate() const try { split_dataset(10, split); } catch (const seppo::ArgumentError& e) {
    throw UsageError(fmt::format("--{}", e.what()));
  }
  Dataset load(std::uint64_t seed) const {
    return file.empty() ? drawn_dataset(seed, digits, rows) : read_dataset(file, digits);
  }
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

std::set<int> indices_of(const Dataset& data) {
  std::set<int> indices;
  for (const Expression& e : data.rows) indices.insert(e.index());
  return indices;
}

json measures_of(const Score& s, int digits) {
  json measures = {{"exact", s.exact_match()},
                   {"token_accuracy", s.token_accuracy()},
                   {"examples", s.examples},
                   {"examples_not_in_train", s.fresh}};
  for (const char* place : places(digits)) measures["accuracy_at"].push_back(s.accuracy_at(place));
  if (s.fresh > 0) measures["exact_not_in_train"] = s.fresh_exact_match();
  return measures;
}

// `fresh` names the expressions that were not trained on.
void print_score(const char* name, const char* fresh, const json& measures, double loss) {
  const auto percent = [&](const char* measure) { return 100 * measures[measure].get<double>(); };
  app::print_fitted(
      fmt::format("{:<12} exact match {:8.4f} %  token accuracy {:8.4f} %  loss {:#.4g}  ({} expressions)", name,
                  percent("exact"), percent("token_accuracy"), loss, measures["examples"].dump()));
  if (measures["examples_not_in_train"] > 0)
    app::print_fitted(fmt::format("  {:<22} {:8.4f} %  ({} expressions)", fresh, percent("exact_not_in_train"),
                                  measures["examples_not_in_train"].dump()));
}

// "Medium, 16 of 25 points (Vallina 50, Simple 63, ...)"
std::string grade_text(double token_accuracy) {
  const Tier reached = reached_tier(token_accuracy);
  std::vector<std::string> tiers;
  for (const Tier& tier : kTiers) tiers.push_back(fmt::format("{} {}", tier.name, tier.percent));
  return fmt::format("{}, {} of {} points ({} % of tokens)", reached.name, reached.points, kTiers.back().points,
                     fmt::join(tiers, ", "));
}

void print_validation(const json& measures, double loss, int digits) {
  print_score("validation", "not in train", measures, loss);
  std::string by_place = "  by place             ";
  for (std::size_t i = 0; i < places(digits).size(); ++i)
    by_place += fmt::format("  {} {:.2f} %", places(digits)[i], 100 * measures["accuracy_at"][i].get<double>());
  app::print_fitted(by_place);
  // Accuracy on expressions that were trained on says nothing about the grade.
  if (measures["examples_not_in_train"] > 0)
    app::print_fitted(fmt::format("  course tier            {}", grade_text(measures["token_accuracy"])));
}

std::vector<int> answer_to(const Model& model, const Expression& e) {
  Ragged source;
  source.add(e.source());
  return answers(model, source)[0];
}

// The attention of a pass that predicts this answer, with labels.
void add_attention(app::Sample& sample, const Model& model, const Expression& e, std::span<const int> answer) {
  std::vector<int> target{kBos};
  target.insert(target.end(), answer.begin(), answer.end());
  Dataset one;
  one.add(e, target);
  const Ragged source = one.source, read = one.target.without_last();  // by the encoder and the decoder
  sample.forward = [&model, source, read] { model.transformer.logits(source, read); };
  sample.labels =
      app::encoder_decoder_labels({vocabulary(), source.tokens}, {vocabulary(), read.tokens}, {vocabulary(), answer});
}

int eval(const app::Arguments& arguments);

struct AddSub {
  using Model = addsub::Model;
  using Examples = Dataset;

  Preset preset = Preset::lab;
  DataConfig source = {};
  ModelConfig model = {};
  ObjectiveConfig objective = {};
  app::TrainingConfig training = lab_recipe();
  std::set<int> trained_on = {};  // indices of expressions

  static app::About about() {
    return {.name = "addsub",
            .summary = "a Transformer learns two-digit addition and subtraction.",
            .title = "seppo: two-digit addition and subtraction",
            .task =
                "The task: \"BOS NEGATIVE 30 subtract NEGATIVE 34 EOS\" -> \"BOS POSITIVE 04 EOS\", operands "
                "-49..49, 19,602 expressions in all, or with three digits -499..499, 1,996,002. Exact match counts "
                "whole answers, decoded greedily; token "
                "accuracy counts single tokens predicted from the correct ones before them, and is higher.",
            .measures = {"exact", "token_accuracy"},
            .shown = {"data", "digits", "d-model", "heads", "enc-layers", "dec-layers", "overfit"},
            .query = "EXPRESSION",
            .predicts = "answer expressions, and show the attention",
            .predict_help =
                "Prints the model's answer to each expression, given as arithmetic or tokens, and the "
                "right one where it differs:\n"
                "  addsub predict \"-30 - -34\" \"12 + 7\"\n"
                "  addsub predict \"BOS NEGATIVE 30 subtract NEGATIVE 34 EOS\"\n"
                "Without expressions it reads them from standard input, one a line.",
            .next = "predict --attention \"48 - 27\""};
  }

  static std::vector<app::Command> commands() {
    return {{"eval", "score a saved model", eval}, {"trace", "show the computation of an answer, step by step", trace}};
  }

  void options(app::CommandLine& line, const app::Arguments& arguments) {
    preset = app::option_in(arguments, "preset", preset);
    apply(preset, model, training);
    if (preset == Preset::quick) source.rows = kQuickRows;
    if (std::ranges::find(arguments, "--overfit") != arguments.end()) {
      model.transformer.layer.dropout = 0;
      training.epochs = 200;
      training.eval_interval = 50;
      training.trainer.warmup_steps = 20;
    }
    line("preset", preset,
         "model and recipe; course and fudan reproduce what two courses hand out, lab trains their model better, quick "
         "is a wider one of half the layers that draws more expressions and takes a fifth of the steps, large a larger "
         "model");
    line.must_exist("data");
  }

  void parts(const auto& part) {
    part("data", source);
    part("model", model);
    part("objective", objective);
  }

  void settle(const app::CommandLine& line) const {
    if (line.typed("rows") && !source.file.empty()) throw UsageError("--rows: cannot be given with --data");
  }

  void begin() { model.digits = source.digits; }

  app::Data<Dataset> data() {
    const Dataset all = source.load(training.trainer.seed);
    auto [train_rows, validation_rows] = split_dataset(all.rows.size(), source.split);
    if (objective.overfit) {
      const std::size_t n = train_rows.size();
      train_rows = {train_rows[0], train_rows[n / 3], train_rows[2 * n / 3], train_rows[n - 1]};
      validation_rows = train_rows;
    }
    app::Data<Dataset> data{.training = all.pick(train_rows), .validation = all.pick(validation_rows)};
    data.summary = fmt::format("{} training and {} validation expressions", train_rows.size(), validation_rows.size());
    data.digest =
        seppo::digest_of(data.training.source, data.training.target, data.validation.source, data.validation.target);
    trained_on = indices_of(data.training);
    return data;
  }

  seppo::ShardLoss loss(const Model& model, const Dataset& batch) const {
    return addsub::loss(model, batch, smoothing_over_all(objective.label_smoothing, objective.smoothing_over));
  }

  app::Evaluation evaluate(const Model& model, const Dataset& data) const {
    const Score s = score(model, data, trained_on);
    return {s.loss(), measures_of(s, source.digits)};
  }

  void print(const json& summary, const std::string& part, std::size_t) const {
    print_validation(app::without_prefix(part, summary), summary[part + "_loss"], source.digits);
  }

  void check(const json& summary) const {
    const double exact = summary["val_exact"], count = summary["val_examples"];
    if (objective.overfit && training.max_steps == 0 && exact < 1)
      throw std::runtime_error(fmt::format("--overfit: {} of the {} expressions trained on are not learned",
                                           std::lround((1 - exact) * count), count));
  }

  struct Query {
    Expression expression;
    bool is_arithmetic = true;  // rather than tokens
  };
  // `predict -30 - -34`, without quotes, is one expression; `predict 12+7 3+4` has two.
  static bool is_one_query(const app::Arguments& words) {
    const auto is_quoted = [](const std::string& word) { return word.find(' ') != std::string::npos; };
    const auto is_whole = [](const std::string& word) {
      const std::size_t sign = word.find_first_of("+-", 1);
      return sign != std::string::npos && sign + 1 < word.size();
    };
    return words.size() > 1 && std::ranges::none_of(words, is_quoted) && !std::ranges::all_of(words, is_whole);
  }
  Query parse(std::string_view text) const {
    return {parse_expression(text, source.digits), text.find("BOS") == std::string_view::npos};
  }

  app::Sample answer(const Model& model, const Query& query) const {
    const Expression& e = query.expression;
    const std::vector<int> tokens = answer_to(model, e);
    const std::optional<int> value = parse_result(tokens, e.digits);
    const bool is_right = value && *value == e.result();
    app::Sample sample{.input = e.arithmetic(), .expected = token_text(e.target()), .output = token_text(tokens)};
    sample.told =
        value && query.is_arithmetic ? fmt::format("{} = {}", e.arithmetic(), *value) : "BOS " + sample.output;
    if (!is_right) sample.told += "   " + app::correction(std::to_string(e.result()));
    add_attention(sample, model, e, tokens);
    return sample;
  }

  std::vector<app::Sample> samples(const Model& model, const app::Data<Dataset>& data) const {
    std::vector<app::Sample> samples;
    for (std::size_t i = 0; i < std::min<std::size_t>(data.validation.size(), 8); ++i) {
      samples.push_back(answer(model, {data.validation.rows[i]}));
      samples.back().expected = token_text(data.validation.target[i].subspan(1));
    }
    return samples;
  }

  std::optional<app::PageNetwork> page_network(const Model& model, const app::Data<Dataset>&) const {
    if (!app::is_on_page(model.config.positions)) return {};
    const int most = largest(source.digits);
    return {{.config = seppo::to_json_object(model.transformer.config),
             .task = {{"name", "addsub"},
                      {"vocabulary", vocabulary().tokens()},
                      {"hint", fmt::format("two numbers from -{} to {}, added or subtracted", most, most)},
                      {"largest", most},
                      {"places", places(source.digits)}},
             .positions = app::whole_table(model.transformer.positions)}};
  }

  void data_options(app::CommandLine& line, const app::Arguments&) {
    line("data", source.file, kDataHelp);
    line.must_exist("data");
    line("digits", source.digits, {2, 3}, kDigitsHelp);
    line("rows", source.rows, {10, 1e7}, kRowsHelp);
  }
  Dataset all() const { return source.load(training.trainer.seed); }
  std::string row(const Dataset& data, std::size_t i) const {
    return fmt::format("{} = {}\n  {}  ->  {}\n  {}  ->  {}", data.rows[i].arithmetic(),
                       parse_result(data.target[i].subspan(1), source.digits).value(), token_text(data.source[i]),
                       token_text(data.target[i]), fmt::join(data.source[i], " "), fmt::join(data.target[i], " "));
  }
  std::string legend() const {
    std::string text = "; ids: 0-9 are the digits";
    for (int id = kPositive; id <= kEos; ++id) text += fmt::format(", {} {}", id, vocabulary().token(id));
    return text;
  }
};

// ---- eval, also on other data than those of the training

void print_wrong_answers(const Model& model, const Score& s) {
  constexpr std::size_t kShown = 20;
  for (std::size_t i = 0; i < std::min(s.wrong.size(), kShown); ++i) {
    const Expression e = Expression::of(s.wrong[i], model.config.digits);
    std::cout << fmt::format("  wrong: {} = {}, got {}\n", e.arithmetic(), e.result(), token_text(answer_to(model, e)));
  }
  if (s.wrong.size() > kShown) std::cout << fmt::format("  ... and {} more\n", s.wrong.size() - kShown);
}

// The scores on all expressions, and on those that the data does not contain.
json all_scores(const Model& model, const Dataset& data) {
  const int digits = model.config.digits;
  const Score s = score(model, all_expressions(digits), indices_of(data));
  print_score("all", "never in the data", measures_of(s, digits), s.loss());
  print_wrong_answers(model, s);
  return {{"all_exact", s.exact_match()},
          {"unseen_exact", s.fresh_exact_match()},
          {"all_token_accuracy", s.token_accuracy()},
          {"all_examples", s.examples},
          {"unseen_examples", s.fresh}};
}

int eval(const app::Arguments& arguments) {
  app::Trained trained{.program = "addsub"};
  DataConfig given{.file = "", .split = ""};
  bool all = false, as_json = false;
  app::CommandLine line("addsub eval [options]", AddSub::about().task);
  trained.fields(line);
  line("data", given.file, "data to score instead of that of the training");
  line.must_exist("data");
  line("split", given.split, "split of the data instead of that of the training: \"course\" or a seed");
  line("all", all, "also score all expressions, and those that the data does not hold");
  line("json", as_json, app::kJsonHelp);
  if (!line.parse(arguments)) return 0;
  if (!given.split.empty()) given.validate();

  const auto saved = trained.load<Model>();
  AddSub program = app::restored<AddSub>(saved.config);
  const DataConfig own = program.source;
  DataConfig config = own;
  if (!given.split.empty()) config.split = given.split;
  if (!given.file.empty()) config.file = given.file;
  if (!config.file.empty() && !std::filesystem::exists(config.file))
    throw UsageError(
        fmt::format("--data: the model's data '{}' is not here; name it", seppo::printable_path(config.file)));
  const std::uint64_t seed = program.training.trainer.seed;
  const Dataset data = config.load(seed);
  // Without the training's own file, --data is taken for the file that was trained on.
  const bool is_own = own.file == config.file || (!own.file.empty() && !std::filesystem::exists(own.file));
  const Dataset own_data = is_own ? data : own.load(seed);
  program.trained_on = indices_of(own_data.pick(split_dataset(own_data.rows.size(), own.split).train));
  const Dataset validation = data.pick(split_dataset(data.rows.size(), config.split).validation);

  const app::Evaluation evaluation = app::evaluate(program, saved.model, validation, "val");
  json summary = evaluation.summary();
  program.print(summary, "val", validation.size());
  if (all) summary.update(all_scores(saved.model, data));
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace addsub

int main(int argc, char** argv) { return app::run<addsub::AddSub>(argc, argv); }
