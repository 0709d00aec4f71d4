// Follows an expression through the model, and prints every matrix on its way.
#include "addsub/trace.h"

#include "addsub/model.h"
#include "addsub/trace_words.h"
#include "app/program.h"
#include "app/run.h"
#include "app/steps.h"
#include "app/words.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/nn/text/vocabulary.h>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <optional>

namespace addsub {
namespace {

namespace app = examples;
using app::Numbers;
using app::Step;
using nlohmann::json;
using seppo::Ragged;
using seppo::Tensor;

struct TraceConfig {
  int layer = 0, head = 0;
  bool all = false, gradients = false, as_json = false;

  void fields(seppo::ConfigVisitor& v) {
    v("layer", layer, {0, 999}, "the layer to show, of the encoder and of the decoder");
    v("head", head, {0, 65535}, "the head to show, of each attention");
    v("all", all, "show every layer, head and column");
    v("gradients", gradients, "also show the gradients of what is written: of the sum of its tokens' scores");
    v("json", as_json, "print all steps as one JSON object for each expression, instead of text");
  }
};

// An expression, the answer, and what the decoder has read when it writes each of its tokens.
struct Pass {
  Expression expression = {};
  std::vector<int> written = {};
  Ragged source = {}, read = {};
};

Pass pass_of(const Model& model, const Expression& e) {
  Pass pass{.expression = e};
  pass.source.add(e.source());
  pass.written = answers(model, pass.source)[0];
  std::vector<int> read{kBos};
  read.insert(read.end(), pass.written.begin(), pass.written.end() - 1);
  pass.read.add(read);
  return pass;
}

std::vector<std::string> texts_of(std::span<const int> ids, const std::string& prefix = "") {
  std::vector<std::string> texts;
  for (const int id : ids) texts.push_back(prefix + vocabulary().token(id));
  return texts;
}

// ---- the steps, and gradients

// Before a sum with positions: the ids of its rows, and their rows of the table.
std::vector<Step> embedding_steps(const Model& model, const std::string& stack, std::span<const int> ids) {
  const Tensor& table = model.transformer.src_embedding.weight;
  const double scale = model.transformer.config.scale_embeddings ? std::sqrt(table.size(1)) : 1;
  Numbers column{ids.size(), 1, {ids.begin(), ids.end()}}, rows{ids.size(), table.cols(), {}};
  for (const int id : ids)
    for (std::size_t j = 0; j < rows.columns; ++j)
      rows.values.push_back(scale * double{table.values()[static_cast<std::size_t>(id) * rows.columns + j]});
  const std::vector<int> kept(ids.begin(), ids.end());
  return {{stack, "ids", column,
           [=](std::size_t i, std::size_t) {
             return fmt::format("the number of {} in the vocabulary", vocabulary().token(kept[i]));
           }},
          {stack, "embedding", rows,
           [=](std::size_t i, std::size_t j) { return fmt::format("row {}, column {} of the table", kept[i], j); }}};
}

// A number plus that of its position, of a step "+ position".
app::Because position_text(const Numbers& embedded, const Numbers& sum) {
  return [=](std::size_t i, std::size_t j) {
    const double before = embedded.at(i, j);
    return fmt::format("{} + {}", app::short_number(before), app::short_number(sum.at(i, j) - before));
  };
}

// What the ops show, with the embeddings before it and the probabilities behind it.
std::vector<Step> completed(const Model& model, const Pass& pass, std::vector<Step> recorded) {
  std::vector<Step> steps;
  const Ragged* tokens = &pass.source;
  for (Step& step : recorded) {
    if (step.title == "+ position") {
      step.box = tokens == &pass.source ? "encoder" : "decoder";
      const std::vector<Step> embedded = embedding_steps(model, step.box, tokens->tokens);
      step.because = position_text(embedded[1].numbers, step.numbers);
      steps.insert(steps.end(), embedded.begin(), embedded.end());
      tokens = &pass.read;
    }
    steps.push_back(std::move(step));
  }
  steps.push_back(app::probability_step(steps.back()));
  return steps;
}

// The pass, recorded and, with weights for the scores of the tokens written, differentiated.
std::vector<Step> steps_of(const Model& model, const Pass& pass, std::span<const double> weights,
                           bool keeps_gradients) {
  const seppo::UseMode mode(keeps_gradients ? seppo::Mode::train : seppo::Mode::eval);
  const seppo::LayerConfig& layer = model.config.transformer.layer;
  app::StepRecorder recorder({.activation = enum_names(layer.activation)[static_cast<std::size_t>(layer.activation)],
                              .query_columns = static_cast<std::size_t>(layer.n_heads * layer.head_columns()),
                              .keeps_gradients = keeps_gradients});
  const seppo::Observe scope(recorder);
  const Tensor logits = model.transformer.logits(pass.source, pass.read);
  if (keeps_gradients) {
    std::vector<seppo::real> cotangent(logits.numel());
    for (std::size_t place = 0; place < pass.written.size(); ++place)
      cotangent[place * logits.cols() + static_cast<std::size_t>(pass.written[place])] =
          static_cast<seppo::real>(weights[place]);
    seppo::tape().backward(logits, cotangent);
  }
  return completed(model, pass, std::move(recorder.steps));
}

// Gradient times input: for each token written, how much each token of the expression speaks for it.
Numbers saliency_of(const Model& model, const Pass& pass) {
  const std::size_t places = pass.written.size();
  Numbers saliency{places, pass.source.tokens.size(), {}};
  for (std::size_t place = 0; place < places; ++place) {
    std::vector<double> weights(places);
    weights[place] = 1;
    const std::vector<Step> steps = steps_of(model, pass, weights, true);
    const Numbers &input = steps[1].numbers, gradient = gradients_of(steps[2]);
    for (std::size_t i = 0; i < input.rows; ++i) saliency.values.push_back(app::dot(input.row(i), gradient.row(i)));
    seppo::tape().clear();
  }
  return saliency;
}

// ---- what is shown

bool is_in_encoder(const Step& step) {
  const bool is_key_or_value = step.title == "K" || step.title == "V";
  return step.box.starts_with("encoder") || (is_key_or_value && step.box.ends_with("cross_attn"));
}

// The decoder's rows are named by the tokens that they write; what it embeds, and its keys, by those that it reads.
app::StepLabels labels_of(const Step& step, const Pass& pass) {
  static constexpr const char* kPairs[] = {"Q Kᵀ", "divided by √d", "masked", "softmax"};
  const bool is_pairs = std::ranges::find(kPairs, step.title) != std::end(kPairs);
  const bool is_self = step.box.starts_with("decoder") && step.box.find("self_attn") != std::string::npos;
  const bool is_read = step.box == "decoder" || (is_self && (step.title == "K" || step.title == "V"));
  app::StepLabels labels;
  labels.rows =
      is_in_encoder(step) ? texts_of(pass.source.tokens) : texts_of(is_read ? pass.read.tokens : pass.written);
  if (is_pairs) labels.columns = texts_of(is_self ? pass.read.tokens : pass.source.tokens);
  if (step.title == "ids") labels.columns = {"id"};
  if (step.box == "output") labels.columns = vocabulary().tokens();
  return labels;
}

bool is_shown(const Step& step, const TraceConfig& config) {
  if (config.all) return true;
  const std::size_t dot = step.box.find('.'), blank = step.box.find(' ');
  const bool is_in_layer =
      dot == std::string::npos || step.box.substr(dot + 1).starts_with(fmt::format("{}.", config.layer));
  return is_in_layer && (blank == std::string::npos || step.box.substr(blank + 1) == std::to_string(config.head));
}

void check_config(const TraceConfig& config, const ModelConfig& model) {
  const int layers = std::max(model.transformer.enc_layers, model.transformer.dec_layers);
  const int heads = model.transformer.layer.n_heads;
  if (config.layer >= layers && layers > 0)
    throw app::UsageError(fmt::format("--layer: the model has layers 0 to {}", layers - 1));
  if (config.head >= heads) throw app::UsageError(fmt::format("--head: the model has heads 0 to {}", heads - 1));
}

// Gradients are recorded in train mode only.
ModelConfig without_dropout(ModelConfig config) {
  config.transformer.layer.dropout = 0;
  config.transformer.layer.attention_dropout = 0;
  return config;
}

void print_json(const Pass& pass, const std::vector<Step>& steps, const std::optional<Numbers>& saliency) {
  json all = {
      {"expression", pass.expression.arithmetic()}, {"written", texts_of(pass.written)}, {"steps", json::array()}};
  for (const Step& step : steps) {
    const Numbers& n = step.numbers;
    json shown = {
        {"box", step.box}, {"title", step.title}, {"rows", n.rows}, {"columns", n.columns}, {"values", n.values}};
    if (step.tensor.defined()) shown["gradient"] = gradients_of(step).values;
    all["steps"].push_back(shown);
  }
  if (saliency) all["saliency"] = saliency->values;
  std::cout << all.dump() << "\n";
}

void print_text(const Pass& pass, const std::vector<Step>& steps, const TraceConfig& config,
                const std::optional<Numbers>& saliency) {
  for (const Step& step : steps) {
    if (!is_shown(step, config)) continue;
    const app::StepLabels labels = labels_of(step, pass);
    std::cout << app::step_text(step, labels, config.all);
    if (step.tensor.defined())
      std::cout << "  its gradient:\n" << app::matrix_text(gradients_of(step), labels, config.all);
    std::cout << "\n";
  }
  if (saliency)
    std::cout << "gradient times input: how much each token read speaks for each token written\n"
              << app::matrix_text(*saliency, {texts_of(pass.written), texts_of(pass.source.tokens)}, true) << "\n";
  std::cout << fmt::format("{}  ->  {}\n", pass.expression.arithmetic(), token_text(pass.written));
}

// Loaded by the first expression, so that words need none.
class TracedModel {
 public:
  TracedModel(const app::Trained& trained, const TraceConfig& config) : trained_(trained), config_(config) {}
  const Model& get() {
    if (!model_) load();
    return *model_;
  }

 private:
  void load() {
    const auto saved = trained_.load<Model>();
    app::restore_precision(saved.config);
    check_config(config_, saved.model.config);
    model_.emplace(parameters_.root(), without_dropout(saved.model.config));
    std::ranges::copy(saved.parameters->values(), parameters_.edit().begin());
  }

  const app::Trained& trained_;
  const TraceConfig& config_;
  seppo::Parameters parameters_{0};
  std::optional<Model> model_;
};

void trace_one(const Model& model, const Expression& expression, const TraceConfig& config) {
  const Pass pass = pass_of(model, expression);
  std::optional<Numbers> saliency;
  if (config.gradients) saliency = saliency_of(model, pass);
  const std::vector<double> weights(pass.written.size(), 1);
  const std::vector<Step> steps = steps_of(model, pass, weights, config.gradients);
  if (config.as_json)
    print_json(pass, steps, saliency);
  else
    print_text(pass, steps, config, saliency);
  seppo::tape().clear();
}

}  // namespace

int trace(const app::Arguments& arguments) {
  app::Trained trained{.program = "addsub"};
  TraceConfig config;
  app::Arguments words;
  app::CommandLine line(
      "addsub trace [options] [EXPRESSION ...]",
      "Prints the computation of an answer step by step: every matrix and, of each, the sum that made "
      "its first number. By default, of the first layer and head:\n"
      "  addsub trace \"48 - 27\"\n"
      "  addsub trace --layer 1 --head 3 --gradients \"48 - 27\"\n"
      "The report page shows the same to click at. Of words instead, it shows one head of attention with vectors of "
      "three numbers and without a model, to follow by hand:\n"
      "  addsub trace \"I love you\"\n"
      "Without expressions it reads them from standard "
      "input, one a line.");
  trained.fields(line);
  config.fields(line);
  line.words(&words);
  if (!line.parse(arguments)) return 0;
  TracedModel model(trained, config);
  app::for_each_text(words, [&](const std::string& text) {
    if (is_words(text)) {
      for (const std::string option : {"layer", "head", "all", "gradients"})
        if (line.typed(option)) throw app::UsageError(fmt::format("--{}: is for expressions, not for words", option));
      return trace_words(text, config.as_json);
    }
    const Expression expression = parse_expression(text, model.get().config.digits);
    trace_one(model.get(), expression, config);
  });
  return 0;
}

}  // namespace addsub
