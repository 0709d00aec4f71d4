// count: an encoder that answers a question about a whole sequence, such as how many zeros it has.
#include "app/attention_pictures.h"
#include "app/checkpoint_config.h"
#include "app/command_line.h"
#include "app/training.h"
#include "count/model.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/summary.h>

#include <fmt/format.h>

#include <iostream>

namespace count {
namespace {

using examples::CommandLine;
using nlohmann::json;

constexpr const char* kTask =
    "The task: one answer about a whole sequence of 16 symbols 0-15: how many are 0, which is the largest, or\n"
    "which stands there most often. One vector must stand for all positions: what the encoder makes of a\n"
    "learned class token put in front, or the mean or the largest of all positions' vectors.";
constexpr int kTrain = 50'000, kValidation = 1'000, kTest = 10'000;

examples::AttentionLabels labels(const seppo::Classifier& model, std::span<const int> symbols) {
  examples::AttentionLabels result;
  if (!model.class_token.empty()) result.keys.push_back("class");
  for (const int symbol : symbols) result.keys.push_back(std::to_string(symbol));
  result.queries = result.keys;
  return result;
}

std::vector<examples::ReportSample> report_samples(const seppo::Classifier& model, const std::string& question,
                                                   const seppo::Ragged& sequences) {
  std::vector<examples::ReportSample> samples;
  for (std::size_t i = 0; i < 8; ++i) {
    const std::span<const int> symbols = sequences[i];
    examples::ReportSample sample;
    sample.output = std::to_string(answer(model, symbols, &sample.maps));
    sample.input = fmt::format("{}", fmt::join(symbols, " "));
    sample.expected = std::to_string(right_answer(question, symbols));
    sample.labels.assign(sample.maps.size(), labels(model, symbols));
    samples.push_back(std::move(sample));
  }
  return samples;
}

int train(const std::vector<std::string>& arguments) {
  ModelOptions model_options;
  examples::TrainingOptions options;
  options.epochs = 10;
  options.batch_size = 128;
  options.lr = 1e-3;
  options.warmup_steps = 50;
  options.eval_interval = 1;
  options.out = "runs/count";
  CommandLine line("usage: count train [options]", kTask);
  line.choice("question", &model_options.question, questions(), "what is asked about the sequence");
  line.section("Model");
  line.choice("pooling", &model_options.pooling, pooling_names(), "what stands for the whole sequence");
  line.choice("positions", &model_options.positions, examples::position_names(), "positional encoding");
  line.integer("d-model", &model_options.d_model, 1, 4096, "width");
  line.integer("heads", &model_options.n_heads, 1, 256, "attention heads; they divide the width");
  line.integer("d-ff", &model_options.d_ff, 1, 65536, "width of the feed-forward layers");
  line.integer("layers", &model_options.n_layers, 1, 64, "encoder layers");
  line.number("dropout", &model_options.dropout, 0, 0.999, "dropout of sublayers");
  options.add_to(line);
  if (!line.parse(arguments)) return 0;
  options.validate();
  examples::check_heads(model_options.d_model, model_options.n_heads);
  examples::use_threads(options.threads);

  const std::string& question = model_options.question;
  const seppo::Ragged sequences = make_sequences(options.seed, Part::train, kTrain),
                      validation = make_sequences(options.seed, Part::validation, kValidation);
  seppo::Parameters parameters(options.seed);
  const seppo::Classifier model = model_options.classifier(parameters.root());
  examples::prepare_folder(options.out);
  const json config = {{"program", "count"}, {"model", model_options.to_json()}, {"training", options.to_json()}};
  examples::TrainingResult result =
      examples::train(parameters, options,
                      {.examples = kTrain,
                       .loss = [&](std::span<const int> picks) { return loss(model, question, sequences, picks); },
                       .evaluate =
                           [&] {
                             return json{{"val_accuracy", accuracy(model, question, validation)}};
                           },
                       .save = [&] { examples::save_model(options.out, parameters, config); },
                       .name = "seppo: a question about 16 symbols",
                       .about = kTask,
                       .summary = seppo::summary(parameters, [&] { answer(model, validation[0]); }),
                       .config = config,
                       .samples = [&] { return report_samples(model, question, validation); }});

  result.evaluation["test_accuracy"] = accuracy(model, question, make_sequences(options.seed, Part::test, kTest));
  std::cout << fmt::format("{} by {}: {:.2f} % of {} fresh sequences answered right\n", question, model_options.pooling,
                           100 * result.evaluation["test_accuracy"].get<double>(), kTest);
  examples::print_result(result, options);
  return 0;
}

int predict(const std::vector<std::string>& arguments) {
  std::filesystem::path path = "runs/count";
  examples::AttentionOutput attention;
  std::vector<std::string> words;
  CommandLine line("usage: count predict [options] [SEQUENCE ...]",
                   "Prints the model's answer for each sequence of up to 16 symbols 0-15:\n"
                   "  count predict \"0 3 0 15 2 0 1 1 9 4 0 8 12 0 5 7\"\n"
                   "Without sequences it reads them from standard input, one a line.");
  line.existing_path("model", &path, "folder or file that `count train` saved");
  attention.add_to(line);
  line.words(&words);
  if (!line.parse(arguments)) return 0;

  const std::filesystem::path file = examples::model_file(path);
  const json config = examples::load_config(file, "count");
  const ModelOptions options = ModelOptions::from_json(examples::config_part(config, "model"));
  seppo::Parameters parameters(/*seed=*/0, examples::most_parameters(file));
  const seppo::Classifier model = options.classifier(parameters.root());
  seppo::load_checkpoint(file, parameters);
  const auto print_answer = [&](const std::string& text) {
    const std::vector<int> symbols = parse_symbols(text);
    seppo::AttentionMaps maps;
    std::cout << answer(model, symbols, attention.is_wanted() ? &maps : nullptr) << std::endl;
    const auto label = [&](const seppo::AttentionMap&) { return labels(model, symbols); };
    attention.show(maps, label);
  };
  examples::for_each_text(words, print_answer);
  return 0;
}

}  // namespace
}  // namespace count

int main(int argc, char** argv) {
  return examples::run_commands(argc, argv, "count: a Transformer encoder answers a question about a whole sequence.",
                                {{"train", "train a model, test it, and save it", count::train},
                                 {"predict", "answer for sequences, and show the attention", count::predict}});
}
