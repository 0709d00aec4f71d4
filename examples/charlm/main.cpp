// charlm: a decoder-only Transformer that learns to write, character by character, like the text it reads.
#include "app/memory.h"
#include "app/run.h"
#include "charlm/model.h"
#include "charlm/text.h"

#include <seppo/autograd/core/observer.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/utf8.h>
#include <seppo/models/decoding/generate.h>

#include <fmt/format.h>

#include <iostream>
#include <numbers>

namespace charlm {
namespace {

using examples::Arguments;
using examples::CommandLine;
using examples::Sample;
using examples::UsageError;
using seppo::LanguageModel;

constexpr const char* kTask =
    "The task: predict each next character of a text. Losses are in nats per character on the end of the text, by "
    "default a tenth, which is not trained on; bits are nats / ln 2. The defaults are nanoGPT's for a CPU.";

struct DataConfig {
  std::filesystem::path data;
  double train_share = 0.9;

  void fields(seppo::ConfigVisitor& v) {
    v("data", data, "the text, UTF-8");
    v("train_share", train_share, {0.01, 0.99},
      "share of the text to train on, from its beginning; the rest is for validation");
  }
};

void check_given(const DataConfig& c) {
  if (c.data.empty()) throw UsageError("--data: a text file is needed");
}

examples::Evaluation evaluate(const LanguageModel& model, const Text& validation) {
  const double loss = score(model, validation);
  return {loss, {{"val_bits_per_character", loss / std::numbers::ln2}}};
}

void print_score(double loss) {
  std::cout << fmt::format("validation   {:.4f} nats, {:.4f} bits per character\n", loss, loss / std::numbers::ln2);
}

// How far a full window advances; the tokens that remain in it are then computed again.
int stride_of(const LanguageModel& model) { return std::max(1, model.config.max_length / 4); }

// Pieces of the validation text, each continued by the model, with the attention weights while it reads the piece.
std::vector<Sample> report_samples(const LanguageModel& model, const Corpus& corpus) {
  const auto text_of = [&](std::span<const int> ids) {
    std::string text;
    for (const int id : ids) text += corpus.vocabulary.token(id) == "\n" ? "⏎" : corpus.vocabulary.token(id);
    return text;
  };
  std::vector<Sample> samples;
  const std::size_t length = std::min<std::size_t>(24, static_cast<std::size_t>(model.config.max_length));
  for (std::size_t i = 0; i < 4; ++i) {
    const std::vector<int> piece = corpus.validation.read((corpus.validation.size() - length) / 4 * i, length);
    seppo::Ragged window;
    window.add(piece);
    seppo::AttentionRecorder recorder;
    {
      const seppo::Inference guard;
      const seppo::Observe scope(recorder);
      model(window);
    }
    const auto written = generate(
        model, window, {.max_tokens = 120, .sampling = {.temperature = 0.8}, .stride = stride_of(model), .seed = i});
    examples::AttentionLabels labels;
    for (const int id : piece) labels.keys.push_back(text_of({&id, 1}));
    labels.queries = labels.keys;
    samples.push_back({.input = text_of(piece),
                       .expected = {},
                       .output = text_of(written[0]),
                       .maps = std::move(recorder.maps),
                       .labels = [=](const seppo::AttentionMap&) { return labels; }});
  }
  return samples;
}

int train(const Arguments& arguments) {
  DataConfig data;
  seppo::LanguageModelConfig config{.layer = {.d_model = 128,
                                              .n_heads = 4,
                                              .d_ff = 512,
                                              .dropout = 0,
                                              .norm = seppo::Norm::pre,
                                              .activation = seppo::Activation::gelu,
                                              .bias = false},
                                    .n_layers = 4,
                                    .max_length = 64};
  examples::Run run{.out = "runs/charlm",
                    .training = {.epochs = 10,
                                 .sampler = {.batch_size = 12, .epoch_steps = 200},
                                 .trainer = {.lr = 1e-3,
                                             .min_lr = 1e-4,
                                             .schedule = seppo::ScheduleKind::cosine,
                                             .warmup_steps = 100,
                                             .adam = {.betas = {0.9, 0.99}, .weight_decay = 0.1}}}};
  CommandLine line("charlm train --data FILE [options]", kTask);
  line.fields("data", data);
  line.fields("model", config);
  line.alias("block", "max-length");
  line.must_exist("data");
  run.add_to(line);
  if (!line.parse(arguments)) return 0;
  check_given(data);
  if (!line.given("d-ff")) config.layer.d_ff = 4 * config.layer.d_model;
  if (!line.given("attention-dropout")) config.layer.attention_dropout = config.layer.dropout;

  const Corpus corpus = read_corpus(data.data, data.train_share, config.max_length);
  config.vocabulary = corpus.vocabulary.size();
  seppo::Parameters parameters(run.seed(), examples::most_values());
  const auto model = examples::build<LanguageModel>(parameters, config);
  const examples::Task task{
      .title = "seppo: characters of " + data.data.filename().string(),
      .about = kTask,
      .data = fmt::format("{} training and {} validation characters, {} distinct", corpus.train.size(),
                          corpus.validation.size(), corpus.vocabulary.size()),
      .example = "sample --length 300",
      .examples = corpus.train.size() - static_cast<std::size_t>(config.max_length),
      .digest = corpus.digest,
      .evaluated = kEvaluated,
      .loss = [&](std::span<const int> starts) { return loss(model, corpus.train, starts); },
      .evaluate = [&] { return evaluate(model, corpus.validation); },
      .samples = [&] { return report_samples(model, corpus); },
      .extra = {{"vocabulary", corpus.vocabulary.tokens()}}};
  const examples::Result result = run.train(line, parameters, model, task);
  print_score(result.summary["val_loss"].get<double>());
  run.finish(line, task, result);
  return 0;
}

examples::Vocabulary vocabulary_of(const nlohmann::json& config, int size) {
  std::vector<std::string> texts;
  if (config.contains("vocabulary") && config["vocabulary"].is_array())
    for (const nlohmann::json& token : config["vocabulary"])
      if (token.is_string()) texts.push_back(token.get<std::string>());
  seppo::check<seppo::FormatError>(texts.size() == static_cast<std::size_t>(size), "the model file's vocabulary has ",
                                   texts.size(), " characters, its model ", size);
  for (const std::string& text : texts)
    seppo::check<seppo::FormatError>(!text.empty() && seppo::character_length(text) == text.size(),
                                     "the model file's vocabulary has '", seppo::printable(text),
                                     "', which is not one character");
  return examples::Vocabulary(texts);
}

int eval(const Arguments& arguments) {
  examples::Trained trained{.program = "charlm"};
  DataConfig data;
  double share = 0;
  bool as_json = false;
  CommandLine line("charlm eval --data FILE [options]", kTask);
  trained.fields(line);
  line("data", data.data, "the text, UTF-8");
  line("train_share", share, {0, 0.99},
       "share of the text, from its beginning, that is not scored; 0 for the share of the training");
  line.must_exist("data");
  line("json", as_json, examples::kJsonHelp);
  if (!line.parse(arguments)) return 0;
  check_given(data);

  const auto saved = trained.load<LanguageModel>();
  const examples::Vocabulary vocabulary = vocabulary_of(saved.config, saved.model.config.vocabulary);
  if (share == 0) share = examples::config_part<DataConfig>(saved.config, "data").train_share;
  const examples::Evaluation result = evaluate(saved.model, read_validation(data.data, share, vocabulary));
  print_score(result.val_loss);
  nlohmann::json summary = result.measures;
  summary["val_loss"] = result.val_loss;
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

int sample_text(const Arguments& arguments) {
  examples::Trained trained{.program = "charlm"};
  std::string prompt = "\n";
  seppo::GenerateOptions options{.max_tokens = 500, .sampling = {.temperature = 0.8}, .stride = 0};
  CommandLine line("charlm sample [options]", "Writes text that continues the prompt.");
  trained.fields(line);
  line("prompt", prompt, "what to continue; by default, the start of a line");
  line("length", options.max_tokens, {0, 1e6}, "characters to write");
  line("temperature", options.sampling.temperature, {0, 100},
       "below 1 sharpens the distribution, above 1 flattens it; 0 takes the most probable character");
  line("top_k", options.sampling.top_k, {0, 1e6}, "draw among the k most probable characters only; 0 for all");
  line("top_p", options.sampling.top_p, {1e-6, 1}, "draw among the most probable that together have this probability");
  line("min_p", options.sampling.min_p, {0, 1}, "draw only what has this share of the most probable one's probability");
  line("repetition_penalty", options.sampling.repetition_penalty, {0.01, 100},
       "above 1, lowers the scores of characters that already occur in the text");
  line("stride", options.stride, {0, 1e6},
       "how far a full window advances; 1 gives most context and is slowest, 0 is a quarter of the window");
  line("seed", options.seed, "random seed for sampling");
  if (!line.parse(arguments)) return 0;

  const auto saved = trained.load<LanguageModel>();
  const examples::Vocabulary vocabulary = vocabulary_of(saved.config, saved.model.config.vocabulary);
  if (options.stride == 0) options.stride = stride_of(saved.model);
  seppo::Ragged text;
  text.add(encode(vocabulary, prompt, "--prompt"));
  if (text.tokens.empty()) throw UsageError("--prompt: is empty");
  if (prompt != "\n") std::cout << examples::shown(prompt);
  generate(saved.model, text, options,
           [&](std::size_t, int id) { std::cout << examples::shown(vocabulary.token(id)) << std::flush; });
  std::cout << "\n";
  return 0;
}

}  // namespace
}  // namespace charlm

int main(int argc, char** argv) {
  return examples::run_commands(
      argc, argv, "charlm: a decoder-only Transformer learns to write like a text, character by character.",
      {{"train", "train a model on a text and save it", charlm::train},
       {"eval", "score a saved model on a text", charlm::eval},
       {"sample", "write text", charlm::sample_text}});
}
