// reverse: a one-layer Transformer encoder that learns to reverse a sequence of digits.
#include "app/checkpoint_config.h"
#include "app/command_line.h"
#include "app/training.h"
#include "reverse/model.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/summary.h>

#include <fmt/format.h>

#include <iostream>

namespace reversal {
namespace {

using examples::CommandLine;
using examples::UsageError;
using nlohmann::json;

constexpr const char* kTask =
    "The task: 16 random digits -> the same digits in reverse order. Exact match counts whole sequences.";
constexpr int kTrain = 50'000, kValidation = 1'000, kTest = 10'000;

json validation_scores(const seppo::Predictor& model, const seppo::Ragged& validation) {
  const Score s = score(model, validation);
  return {{"val_exact", s.exact}, {"val_token_accuracy", s.token_accuracy}};
}

json test_scores(const seppo::Predictor& model, std::uint64_t seed) {
  const Score s = score(model, make_sequences(seed, Part::test, kTest));
  std::cout << fmt::format("test         exact match {:8.4f} %  token accuracy {:8.4f} %   ({} fresh sequences)\n",
                           100 * s.exact, 100 * s.token_accuracy, kTest);
  return {{"test_exact", s.exact}, {"test_token_accuracy", s.token_accuracy}};
}

void print_validation(const json& v) {
  std::cout << fmt::format("validation   exact match {:8.4f} %  token accuracy {:8.4f} %   ({} sequences)\n",
                           100 * v["val_exact"].get<double>(), 100 * v["val_token_accuracy"].get<double>(),
                           kValidation);
}

std::vector<examples::ReportSample> report_samples(const seppo::Predictor& model, const seppo::Ragged& validation) {
  std::vector<examples::ReportSample> samples;
  for (std::size_t i = 0; i < 8; ++i) {
    const std::span<const int> digits = validation[i];
    examples::ReportSample sample;
    const std::vector<int> output = answer(model, digits, &sample.maps);
    sample.input = digits_text(digits);
    sample.expected = digits_text(std::vector<int>(digits.rbegin(), digits.rend()));
    sample.output = digits_text(output);
    for (std::size_t m = 0; m < sample.maps.size(); ++m) sample.labels.push_back(attention_labels(digits, output));
    samples.push_back(std::move(sample));
  }
  return samples;
}

int train(const std::vector<std::string>& arguments) {
  std::string preset = examples::option_in(arguments, "preset", "uva");
  ModelOptions model_options{.is_plain = preset == "plain"};
  examples::TrainingOptions options;
  options.epochs = model_options.is_plain ? 5 : 10;
  options.batch_size = 128;
  // The UvA course has 5e-4; with it one seed in ten needs a fourth epoch.
  options.lr = model_options.is_plain ? 1e-3 : 7e-4;
  options.schedule = model_options.is_plain ? "const" : "cosine";
  options.adam.weight_decay = model_options.is_plain ? 0.01 : 0;
  options.warmup_steps = model_options.is_plain ? 0 : 50;
  options.clip_norm = model_options.is_plain ? 0 : 5;
  options.eval_interval = 1;
  options.out = "runs/reverse";

  CommandLine line("usage: reverse train [options]", kTask);
  line.choice("preset", &preset, {"uva", "plain"},
              "the UvA course's model and recipe; or a plainer one: one norm for both sublayers, dropout after it, no "
              "output network, constant learning rate");
  line.section("Model");
  line.integer("d-model", &model_options.d_model, 1, 4096, "width");
  line.integer("heads", &model_options.n_heads, 1, 256, "attention heads; they divide the width");
  line.integer("d-ff", &model_options.d_ff, 1, 65536, "width of the feed-forward layers");
  line.integer("layers", &model_options.n_layers, 1, 64, "encoder layers");
  line.number("dropout", &model_options.dropout, 0, 0.999, "dropout of sublayers");
  line.choice("norm", &model_options.norm, {"post", "pre"}, "layer norm after or before each sublayer");
  line.choice("positions", &model_options.positions, examples::position_names(), "positional encoding");
  options.add_to(line);
  if (!line.parse(arguments)) return 0;
  options.validate();
  examples::check_heads(model_options.d_model, model_options.n_heads);
  if (model_options.is_plain && model_options.norm == "pre") throw UsageError("--norm: the plain model needs post");
  examples::use_threads(options.threads);

  const seppo::Ragged sequences = make_sequences(options.seed, Part::train, kTrain);
  const seppo::Ragged validation = make_sequences(options.seed, Part::validation, kValidation);
  seppo::Parameters parameters(options.seed);
  const seppo::Predictor model(parameters.root(), model_options.predictor());
  examples::prepare_folder(options.out);
  const json config = {{"program", "reverse"},
                       {"model", model_options.to_json()},
                       {"seed", options.seed},
                       {"training", options.to_json()}};
  if (options.log_format != "none")
    std::cerr << fmt::format("reverse: {} parameters, {} training and {} validation sequences, {} threads\n",
                             parameters.count(), kTrain, kValidation, seppo::num_threads());

  const examples::TrainingResult result =
      examples::train(parameters, options,
                      {.examples = kTrain,
                       .loss = [&](std::span<const int> picks) { return loss(model, sequences, picks); },
                       .evaluate = [&] { return validation_scores(model, validation); },
                       .save = [&] { examples::save_model(options.out, parameters, config); },
                       .name = "seppo: reversing 16 digits",
                       .about = kTask,
                       .summary = seppo::summary(parameters, [&] { answer(model, validation[0]); }),
                       .config = config,
                       .samples = [&] { return report_samples(model, validation); }});

  print_validation(result.evaluation);
  examples::print_result(result, options);
  return 0;
}

struct Saved {
  json config;
  seppo::Parameters parameters;
  seppo::Predictor model;

  explicit Saved(const std::filesystem::path& file)
      : config(examples::load_config(file, "reverse")),
        parameters(/*seed=*/0, examples::most_parameters(file)),
        model(parameters.root(), ModelOptions::from_json(examples::config_part(config, "model")).predictor()) {
    seppo::load_checkpoint(file, parameters);
  }
};

int eval(const std::vector<std::string>& arguments) {
  std::filesystem::path path = "runs/reverse";
  bool as_json = false;
  int threads = 0;
  CommandLine line("usage: reverse eval [options]", kTask);
  line.existing_path("model", &path, "folder or file that `reverse train` saved");
  line.integer("threads", &threads, 0, 256, "threads; 0: one for each processor");
  line.flag("json", &as_json, "print the result as one JSON object, the last line of standard output");
  if (!line.parse(arguments)) return 0;
  examples::use_threads(threads);

  const Saved saved(examples::model_file(path));
  const std::uint64_t seed = examples::config_seed(saved.config, "seed");
  json summary = validation_scores(saved.model, make_sequences(seed, Part::validation, kValidation));
  print_validation(summary);
  summary.update(test_scores(saved.model, seed));
  if (as_json) std::cout << summary.dump() << "\n";
  return 0;
}

int predict(const std::vector<std::string>& arguments) {
  std::filesystem::path path = "runs/reverse";
  examples::AttentionOutput attention;
  std::vector<std::string> words;
  CommandLine line("usage: reverse predict [options] [SEQUENCE ...]",
                   "Prints the model's reversal of each sequence of 16 digits:\n"
                   "  reverse predict 3141592653589793 \"2 7 1 8 2 8 1 8 2 8 4 5 9 0 4 5\"\n"
                   "Without sequences it reads them from standard input, one a line.");
  line.existing_path("model", &path, "folder or file that `reverse train` saved");
  attention.add_to(line);
  line.words(&words);
  if (!line.parse(arguments)) return 0;

  // `predict 3 1 4 1 ...`, without quotes, is one sequence.
  if (std::all_of(words.begin(), words.end(), [](const std::string& w) { return w.size() == 1; }) && !words.empty())
    words = {fmt::format("{}", fmt::join(words, " "))};

  const Saved saved(examples::model_file(path));
  const auto print_answer = [&](const std::string& text) {
    const std::vector<int> digits = parse_sequence(text);
    seppo::AttentionMaps maps;
    const std::vector<int> reversed = answer(saved.model, digits, attention.is_wanted() ? &maps : nullptr);
    std::cout << digits_text(reversed) << std::endl;
    const auto labels = [&](const seppo::AttentionMap&) { return attention_labels(digits, reversed); };
    attention.show(maps, labels);
  };
  examples::for_each_text(words, print_answer);
  return 0;
}

}  // namespace
}  // namespace reversal

int main(int argc, char** argv) {
  return examples::run_commands(argc, argv, "reverse: a one-layer Transformer encoder learns to reverse 16 digits.",
                                {{"train", "train a model and save it", reversal::train},
                                 {"eval", "score a saved model on fresh sequences", reversal::eval},
                                 {"predict", "reverse sequences, and show the attention", reversal::predict}});
}
