// charlm: a decoder-only Transformer that learns to write, character by character, like the text it reads.
#include "app/run_program.h"
#include "app/sampling.h"
#include "charlm/model.h"
#include "charlm/text.h"

#include <seppo/autograd/core/observer.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/utf8.h>
#include <seppo/models/decoding/generate.h>

#include <fmt/format.h>

#include <iostream>
#include <numbers>
#include <optional>

namespace charlm {
namespace {

using app::UsageError;
using nlohmann::json;
using seppo::LanguageModel;

struct DataConfig {
  std::filesystem::path data;
  double train_share = 0.9;

  void fields(seppo::ConfigVisitor& v) {
    v("data", data, "the text, UTF-8");
    v("train_share", train_share, {0.01, 0.99},
      "share of the text to train on, from its beginning; the rest is for validation");
  }
};

void need_text(app::CommandLine& line) {
  line.must_exist("data");
  line.needs("data", "a text file");
}

// How far a full window advances; the tokens that remain in it are then computed again.
int stride_of(const LanguageModel& model) { return std::max(1, model.config.max_length / 4); }

// On one line.
std::string text_of(const seppo::Vocabulary& vocabulary, std::span<const int> ids) {
  std::string text;
  for (const int id : ids) text += vocabulary.token(id) == "\n" ? "⏎" : vocabulary.token(id);
  return text;
}

struct CharacterModel {
  using Model = LanguageModel;
  using Examples = Windows;

  DataConfig source = {};
  seppo::LanguageModelConfig model = {.layer = {.d_model = 128,
                                                .n_heads = 4,
                                                .d_ff = 512,
                                                .dropout = 0,
                                                .norm = seppo::Norm::pre,
                                                .activation = seppo::Activation::gelu,
                                                .bias = false},
                                      .n_layers = 4,
                                      .max_length = 64};
  app::TrainingConfig training = {.epochs = 10,
                                  .sampler = {.batch_size = 12, .epoch_steps = 200},
                                  .trainer = {.lr = 1e-3,
                                              .min_lr = 1e-4,
                                              .schedule = seppo::ScheduleKind::cosine,
                                              .warmup_steps = 100,
                                              .adam = {.betas = {0.9, 0.99}, .weight_decay = 0.1}}};
  std::optional<seppo::Vocabulary> vocabulary = {};  // of the data

  static app::About about() {
    return {.name = "charlm",
            .summary = "a decoder-only Transformer learns to write like a text, character by character.",
            .title = "seppo: characters of a text",
            .task =
                "The task: predict each next character of a text. Losses are in nats per character on the end of "
                "the text, by default a tenth, which is not trained on; bits are nats / ln 2. The defaults are "
                "nanoGPT's for a CPU.",
            .usage = "train --data FILE [options]",
            .shown = {"data", "d-model", "layers", "dropout", "max-length"},
            .next = "sample --length 300",
            .chunk = 16};
  }

  static std::vector<app::Command> commands();

  void options(app::CommandLine& line, const app::Arguments&) {
    line.alias("block", "max-length");
    need_text(line);
  }

  void parts(const auto& part) {
    part("data", source);
    part("model", model);
  }

  void settle(const app::CommandLine& line) {
    if (!line.given("d-ff")) model.layer.d_ff = 4 * model.layer.d_model;
    if (!line.given("attention-dropout")) model.layer.attention_dropout = model.layer.dropout;
  }

  std::string title() const { return "seppo: characters of " + source.data.filename().string(); }

  app::Data<Windows> data() {
    const Corpus corpus = read_corpus(source.data, source.train_share, model.max_length);
    vocabulary = corpus.vocabulary;
    model.vocabulary = corpus.vocabulary.size();
    return {.training = overlapping_windows(corpus.train, model.max_length),
            .validation = consecutive_windows(corpus.validation, model.max_length),
            .summary = fmt::format("{} training and {} validation characters, {} distinct", corpus.train.size(),
                                   corpus.validation.size(), corpus.vocabulary.size()),
            .digest = corpus.digest,
            .extra = {{"vocabulary", corpus.vocabulary.tokens()}}};
  }

  seppo::ShardLoss loss(const Model& model, const Batch& batch) const { return charlm::loss(model, batch); }

  json measures(const seppo::Sums& sums) const {
    return {{"bits_per_character", sums.mean("loss") / std::numbers::ln2}};
  }

  void print(const json& summary, const std::string& part, std::size_t) const {
    const double loss = summary[part + "_loss"], bits = summary[part + "_bits_per_character"];
    app::print_fitted(fmt::format("validation   {:.4f} nats, {:.4f} bits per character", loss, bits));
  }

  // Pieces of the validation text, each continued by the model, with the attention weights while it reads the piece.
  std::vector<app::Sample> samples(const Model& model, const app::Data<Windows>& data) const {
    constexpr std::size_t kSamples = 4;
    const Text& text = data.validation.text;
    const std::size_t length = std::min<std::size_t>(24, data.validation.length);
    std::vector<app::Sample> samples;
    for (std::size_t i = 0; i < kSamples; ++i) {
      seppo::Ragged piece;
      piece.add(text.read((text.size() - length) / kSamples * i, length));
      const auto maps = app::attention_maps([&] { model(piece); });
      const auto written = generate(
          model, piece, {.max_tokens = 120, .sampling = {.temperature = 0.8}, .stride = stride_of(model), .seed = i});
      app::AttentionLabels labels;
      for (const int id : piece.tokens) labels.keys.push_back(text_of(*vocabulary, {{id}}));
      labels.queries = labels.keys;
      samples.push_back({.input = text_of(*vocabulary, piece.tokens),
                         .expected = {},
                         .output = text_of(*vocabulary, written[0]),
                         .maps = maps,
                         .labels = app::same_labels(labels)});
    }
    return samples;
  }

  // Not if positions act within attention.
  std::optional<app::PageNetwork> page_network(const Model& model, const app::Data<Windows>&) const {
    const seppo::PositionalEncoding& positions = model.positions;
    if (positions.relative.rotary.defined() || !positions.relative.slopes.empty()) return {};
    return {{.config = seppo::to_json_object(model.config),
             .task = {{"name", "charlm"}, {"vocabulary", vocabulary->tokens()}, {"longest", model.config.max_length}},
             .positions = app::whole_table(positions)}};
  }

  void data_options(app::CommandLine& line, const app::Arguments&) {
    source.fields(line);
    line("block", model.max_length, {1, 1 << 20}, "characters of a row");
    need_text(line);
  }
  Windows all() { return data().validation; }
  std::string row(const Windows& windows, std::size_t i) const {
    const std::vector<int> ids = windows.pick({{static_cast<int>(i)}}).input.tokens;
    return fmt::format("{}\n  {}", app::shown_line(text_of(*vocabulary, ids)), fmt::join(ids, " "));
  }
};

seppo::Vocabulary vocabulary_of(const json& config, int size) {
  std::vector<std::string> texts;
  if (config.contains("vocabulary") && config["vocabulary"].is_array())
    for (const json& token : config["vocabulary"])
      if (token.is_string()) texts.push_back(token.get<std::string>());
  seppo::check<seppo::FormatError>(texts.size() == static_cast<std::size_t>(size), "the model file's vocabulary has ",
                                   texts.size(), " characters, its model ", size);
  for (const std::string& text : texts)
    seppo::check<seppo::FormatError>(!text.empty() && seppo::character_length(text) == text.size(),
                                     "the model file's vocabulary has '", seppo::printable(text),
                                     "', which is not one character");
  return seppo::Vocabulary(texts);
}

int eval(const app::Arguments& arguments) {
  app::Trained trained{.program = "charlm"};
  DataConfig data;
  double share = 0;
  bool as_json = false;
  app::CommandLine line("charlm eval --data FILE [options]", CharacterModel::about().task);
  trained.fields(line);
  trained.weights_field(line);
  line("data", data.data, "the text, UTF-8");
  line("train_share", share, {0, 0.99},
       "share of the text, from its beginning, that is not scored; 0 for the share of the training");
  need_text(line);
  line("json", as_json, app::kJsonHelp);
  if (!line.parse(arguments)) return 0;

  const auto saved = trained.load<LanguageModel>();
  const seppo::Vocabulary vocabulary = vocabulary_of(saved.config, saved.model.config.vocabulary);
  const auto program = app::restored<CharacterModel>(saved.config);
  if (share == 0) share = program.source.train_share;
  const Text text = read_validation(data.data, share, vocabulary);
  const Windows windows = consecutive_windows(text, saved.model.config.max_length);
  const json summary = app::evaluate(program, saved.model, windows, "val").summary();
  program.print(summary, "val", windows.size());
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

int sample_text(const app::Arguments& arguments) {
  app::Trained trained{.program = "charlm"};
  std::string prompt;
  seppo::GenerateOptions options{.max_tokens = 500, .sampling = {.temperature = 0.8}, .stride = 0};
  app::CommandLine line("charlm sample [options]", "Writes text that continues the prompt.");
  trained.fields(line);
  trained.weights_field(line);
  line("prompt", prompt,
       "what to continue; by default, the start of a line or, if the model knows no lines, its first character");
  line("length", options.max_tokens, {0, 1e6}, "characters to write");
  app::add_sampling(line, options.sampling, "character");
  line("stride", options.stride, {0, 1e6},
       "how far a full window advances; 1 gives most context and is slowest, 0 is a quarter of the window");
  line("seed", options.seed, "random seed for sampling");
  if (!line.parse(arguments)) return 0;

  const auto saved = trained.load<LanguageModel>();
  const seppo::Vocabulary vocabulary = vocabulary_of(saved.config, saved.model.config.vocabulary);
  app::restore_precision(saved.config);
  const int window = saved.model.config.max_length;
  if (options.stride > window)
    throw UsageError(fmt::format("--stride: {} is more than the model's window, {}", options.stride, window));
  if (options.stride == 0) options.stride = stride_of(saved.model);
  if (prompt.empty()) prompt = vocabulary.contains("\n") ? "\n" : vocabulary.token(0);
  seppo::Ragged text;
  text.add(encode(vocabulary, prompt, "--prompt"));
  if (prompt != "\n") std::cout << app::shown(prompt);
  generate(saved.model, text, options,
           [&](std::size_t, int id) { std::cout << app::shown(vocabulary.token(id)) << std::flush; });
  std::cout << "\n";
  return 0;
}

std::vector<app::Command> CharacterModel::commands() {
  return {{"eval", "score a saved model on a text", eval}, {"sample", "write text", sample_text}};
}

}  // namespace
}  // namespace charlm

int main(int argc, char** argv) { return app::run<charlm::CharacterModel>(argc, argv); }
