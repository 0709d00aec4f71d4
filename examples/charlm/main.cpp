// charlm: a decoder-only Transformer that learns to write, character by character, like the text it reads.
#include "charlm/model.h"
#include "app/checkpoint_config.h"
#include "app/command_line.h"
#include "app/training.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/summary.h>

#include <fmt/format.h>

#include <iostream>
#include <numbers>

namespace charlm {
namespace {

using examples::CommandLine;
using examples::UsageError;
using nlohmann::json;

constexpr const char* kTask =
    "The task: predict each next character of a text. Losses are in nats per character on the last tenth\n"
    "of the text, which is not trained on; bits are nats / ln 2. The defaults are nanoGPT's for a CPU.";

json scores(const seppo::LanguageModel& model, std::span<const int> validation) {
  const double loss = score(model, validation);
  return {{"val_loss", loss}, {"val_bits_per_character", loss / std::numbers::ln2}};
}

void print_scores(const json& s) {
  std::cout << fmt::format("validation   {:.4f} nats, {:.4f} bits per character\n", s["val_loss"].get<double>(),
                           s["val_bits_per_character"].get<double>());
}

// What the model looks at while it reads a text.
seppo::AttentionMaps look(const seppo::LanguageModel& model, std::span<const int> text) {
  const seppo::UseMode eval(seppo::Mode::eval);
  const seppo::TapeMark mark;
  seppo::Ragged window;
  window.add(text);
  seppo::AttentionMaps maps;
  model(window, &maps);
  return maps;
}

// Pieces of the validation text, each continued by the model; attention while it reads the piece.
std::vector<examples::ReportSample> report_samples(const seppo::LanguageModel& model, const Corpus& corpus) {
  const auto text_of = [&](std::span<const int> ids) {
    std::string text;
    for (const int id : ids) text += corpus.vocabulary.token(id) == "\n" ? "⏎" : corpus.vocabulary.token(id);
    return text;
  };
  std::vector<examples::ReportSample> samples;
  const std::size_t length = std::min<std::size_t>(24, static_cast<std::size_t>(model.config.max_length));
  for (std::size_t i = 0; i < 4; ++i) {
    const auto piece = std::span(corpus.validation).subspan((corpus.validation.size() - length) / 4 * i, length);
    examples::ReportSample sample{.input = text_of(piece), .maps = look(model, piece)};
    std::vector<int> written;
    charlm::sample(model, {piece.begin(), piece.end()}, 120, {.temperature = 0.8}, {i, seppo::Purpose::sampling},
                   [&](int id) { written.push_back(id); });
    sample.output = text_of(written);
    examples::AttentionLabels labels;
    for (const int id : piece) labels.keys.push_back(text_of({&id, 1}));
    labels.queries = labels.keys;
    sample.labels.assign(sample.maps.size(), labels);
    samples.push_back(std::move(sample));
  }
  return samples;
}

int train(const std::vector<std::string>& arguments) {
  std::filesystem::path data;
  double train_share = 0.9;
  ModelOptions model_options;
  examples::TrainingOptions options;
  options.epochs = 10;
  options.epoch_steps = 200;
  options.batch_size = 12;
  options.lr = 1e-3;
  options.min_lr = 1e-4;
  options.warmup_steps = 100;
  options.adam.beta2 = 0.99;
  options.adam.weight_decay = 0.1;
  options.eval_interval = 1;
  options.out = "runs/charlm";

  CommandLine line("usage: charlm train --data FILE [options]", kTask);
  line.section("Data");
  line.existing_path("data", &data, "the text, UTF-8");
  line.number("train-share", &train_share, 0.01, 0.99, "share of the text to train on, from its beginning");
  line.section("Model");
  line.integer("d-model", &model_options.d_model, 1, 4096, "width");
  line.integer("heads", &model_options.n_heads, 1, 256, "attention heads; they divide the width");
  line.integer("layers", &model_options.n_layers, 1, 64, "layers");
  line.integer("block", &model_options.block, 1, 65536, "characters the model sees at once");
  line.number("dropout", &model_options.dropout, 0, 0.999, "dropout of embeddings, attention weights and sublayers");
  options.add_to(line);
  if (!line.parse(arguments)) return 0;
  options.validate();
  if (data.empty()) throw UsageError("--data: a text file is needed");
  examples::check_heads(model_options.d_model, model_options.n_heads);
  examples::use_threads(options.threads);

  const Corpus corpus = read_corpus(data, train_share, model_options.block);
  seppo::Parameters parameters(options.seed);
  const seppo::LanguageModel model(parameters.root(), model_options.model(corpus.vocabulary.size()));
  examples::prepare_folder(options.out);
  const json config = {{"program", "charlm"},
                       {"model", model_options.to_json()},
                       {"vocabulary", corpus.vocabulary.tokens()},
                       {"seed", options.seed},
                       {"training", options.to_json()}};
  if (options.log_format != "none")
    std::cerr << fmt::format(
        "charlm: {} parameters, {} characters for training, {} for validation, {} distinct, {} threads\n",
        parameters.count(), corpus.train.size(), corpus.validation.size(), corpus.vocabulary.size(),
        seppo::num_threads());

  const examples::TrainingResult result = examples::train(
      parameters, options,
      {.examples = corpus.train.size() - static_cast<std::size_t>(model_options.block),
       .loss = [&](std::span<const int> starts) { return loss(model, corpus.train, starts); },
       .evaluate = [&] { return scores(model, corpus.validation); },
       .save = [&] { examples::save_model(options.out, parameters, config); },
       .name = "seppo: characters of " + data.filename().string(),
       .about = kTask,
       .summary = seppo::summary(parameters, [&] { look(model, std::span(corpus.validation).first(4)); }),
       .config = config,
       .samples = [&] { return report_samples(model, corpus); }});

  print_scores(result.evaluation);
  examples::print_result(result, options);
  return 0;
}

seppo::Vocabulary vocabulary_of(const json& config) {
  const json& tokens = config.contains("vocabulary") ? config["vocabulary"] : json();
  seppo::check<seppo::FormatError>(tokens.is_array() && !tokens.empty(), "the model's configuration has no vocabulary");
  std::vector<std::string> texts;
  for (const json& token : tokens) {
    seppo::check<seppo::FormatError>(token.is_string(), "the model's vocabulary has an entry that is not text");
    texts.push_back(token.get<std::string>());
  }
  return seppo::Vocabulary(texts);
}

struct Saved {
  json config;
  seppo::Vocabulary vocabulary;
  seppo::Parameters parameters;
  seppo::LanguageModel model;

  explicit Saved(const std::filesystem::path& file)
      : config(examples::load_config(file, "charlm")),
        vocabulary(vocabulary_of(config)),
        parameters(/*seed=*/0, examples::most_parameters(file)),
        model(parameters.root(),
              ModelOptions::from_json(examples::config_part(config, "model")).model(vocabulary.size())) {
    seppo::load_checkpoint(file, parameters);
  }
};

int eval(const std::vector<std::string>& arguments) {
  std::filesystem::path path = "runs/charlm", data;
  double train_share = 0.9;
  bool as_json = false;
  int threads = 0;
  CommandLine line("usage: charlm eval --data FILE [options]", kTask);
  line.existing_path("model", &path, "folder or file that `charlm train` saved");
  line.existing_path("data", &data, "the text, UTF-8");
  line.number("train-share", &train_share, 0.01, 0.99, "share of the text that is left out here");
  line.integer("threads", &threads, 0, 256, "threads; 0: one for each processor");
  line.flag("json", &as_json, "print the result as one JSON object, the last line of standard output");
  if (!line.parse(arguments)) return 0;
  if (data.empty()) throw UsageError("--data: a text file is needed");
  examples::use_threads(threads);

  const Saved saved(examples::model_file(path));
  const Corpus corpus = read_corpus(data, train_share, 1);
  std::vector<int> validation;  // in the model's numbers
  for (const int id : corpus.validation) {
    const std::string& character = corpus.vocabulary.token(id);
    seppo::check<seppo::FormatError>(saved.vocabulary.contains(character), data.string(), ": the character '",
                                     seppo::printable(character), "' is not among the model's ",
                                     saved.vocabulary.size());
    validation.push_back(saved.vocabulary.id(character));
  }
  const json summary = scores(saved.model, validation);
  print_scores(summary);
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

int sample_text(const std::vector<std::string>& arguments) {
  std::filesystem::path path = "runs/charlm";
  std::string prompt = "\n";
  int length = 500;
  std::uint64_t seed = 0;
  seppo::SamplingOptions options{.temperature = 0.8};
  CommandLine line("usage: charlm sample [options]", "Writes text that continues the prompt.");
  line.existing_path("model", &path, "folder or file that `charlm train` saved");
  line.text("prompt", &prompt, "TEXT", "what to continue; by default, the start of a line");
  line.integer("length", &length, 0, 1'000'000, "characters to write");
  line.number("temperature", &options.temperature, 0, 100,
              "below 1 more cautious, above bolder; 0: the likeliest character");
  line.integer("top-k", &options.top_k, 0, 1'000'000, "only among the k likeliest characters; 0: all");
  line.number("top-p", &options.top_p, 1e-6, 1, "only among the likeliest that together have this probability");
  line.seed("seed", &seed, "of the drawing");
  if (!line.parse(arguments)) return 0;

  const Saved saved(examples::model_file(path));
  std::vector<int> text = encode(saved.vocabulary, prompt, "--prompt");
  if (text.empty()) throw UsageError("--prompt: is empty");
  if (prompt != "\n") std::cout << prompt;
  sample(saved.model, std::move(text), length, options, {seed, seppo::Purpose::sampling},
         [&](int id) { std::cout << saved.vocabulary.token(id) << std::flush; });
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
