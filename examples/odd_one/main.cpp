// odd_one: an encoder without positions that finds the element of a set that is not like the others.
#include "app/attention_pictures.h"
#include "app/checkpoint_config.h"
#include "app/command_line.h"
#include "app/training.h"
#include "odd_one/model.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/summary.h>

#include <fmt/format.h>

#include <iostream>

namespace odd_one {
namespace {

using examples::CommandLine;
using nlohmann::json;

constexpr const char* kTask =
    "The task: of ten elements, nine are of one kind and one is of another; which? Kinds are random points,\n"
    "elements lie around them. Nothing depends on the order of a set, and so the encoder has no positions.";
constexpr int kTrain = 20'000, kValidation = 1'000, kTest = 10'000;  // sets, numbered one after another

examples::AttentionLabels labels(int odd) {
  examples::AttentionLabels result;
  for (int e = 0; e < kElements; ++e) result.keys.push_back(e == odd ? "odd" : std::to_string(e));
  result.queries = result.keys;
  return result;
}

int odd_place(const World& world, int number) {
  const seppo::TapeMark mark;
  return world.sets({&number, 1}).odd[0];
}

std::vector<examples::ReportSample> report_samples(const seppo::Predictor& model, const World& world) {
  std::vector<examples::ReportSample> samples;
  for (int number = kTrain; number < kTrain + 8; ++number) {
    const int odd = odd_place(world, number);
    examples::ReportSample sample{.input = fmt::format("set {}", number), .expected = std::to_string(odd)};
    sample.output = std::to_string(answer(model, world, number, &sample.maps));
    sample.labels.assign(sample.maps.size(), labels(odd));
    samples.push_back(std::move(sample));
  }
  return samples;
}

int train(const std::vector<std::string>& arguments) {
  Options task;
  examples::TrainingOptions options;
  options.epochs = 10;
  options.lr = 5e-4;
  options.warmup_steps = 100;
  options.clip_norm = 2;
  options.eval_interval = 1;
  options.out = "runs/odd_one";
  CommandLine line("usage: odd_one train [options]", kTask);
  line.section("Data");
  line.integer("kinds", &task.kinds, 2, 100'000, "kinds of elements");
  line.integer("features", &task.features, 1, 4096, "numbers that describe an element");
  line.number("noise", &task.noise, 0, 100, "how far elements of a kind lie from its centre; centres lie 1 from 0");
  line.section("Model");
  line.integer("d-model", &task.d_model, 1, 4096, "width");
  line.integer("heads", &task.n_heads, 1, 256, "attention heads; they divide the width");
  line.integer("layers", &task.n_layers, 1, 64, "encoder layers");
  line.number("dropout", &task.dropout, 0, 0.999, "dropout of inputs and sublayers");
  options.add_to(line);
  if (!line.parse(arguments)) return 0;
  options.validate();
  examples::check_heads(task.d_model, task.n_heads);
  examples::use_threads(options.threads);

  const World world(options.seed, task);
  seppo::Parameters parameters(options.seed);
  const seppo::Predictor model(parameters.root(), task.predictor());
  examples::prepare_folder(options.out);
  const json config = {
      {"program", "odd_one"}, {"task", task.to_json()}, {"seed", options.seed}, {"training", options.to_json()}};
  examples::TrainingResult result =
      examples::train(parameters, options,
                      {.examples = kTrain,
                       .loss = [&](std::span<const int> numbers) { return loss(model, world, numbers); },
                       .evaluate =
                           [&] {
                             return json{{"val_accuracy", accuracy(model, world, kTrain, kValidation)}};
                           },
                       .save = [&] { examples::save_model(options.out, parameters, config); },
                       .name = "seppo: the odd one of ten",
                       .about = kTask,
                       .summary = seppo::summary(parameters, [&] { answer(model, world, 0); }),
                       .config = config,
                       .samples = [&] { return report_samples(model, world); }});

  result.evaluation["test_accuracy"] = accuracy(model, world, kTrain + kValidation, kTest);
  std::cout << fmt::format("the odd one found in {:.2f} % of {} fresh sets\n",
                           100 * result.evaluation["test_accuracy"].get<double>(), kTest);
  examples::print_result(result, options);
  return 0;
}

int predict(const std::vector<std::string>& arguments) {
  std::filesystem::path path = "runs/odd_one";
  examples::AttentionOutput attention;
  std::vector<std::string> words;
  CommandLine line(
      "usage: odd_one predict [options] [NUMBER ...]",
      fmt::format("Looks for the odd one in the sets of these numbers. The model has not seen sets from {} "
                  "on.\nWithout numbers it reads them from standard input, one a line.",
                  kTrain));
  line.existing_path("model", &path, "folder or file that `odd_one train` saved");
  attention.add_to(line);
  line.words(&words);
  if (!line.parse(arguments)) return 0;

  const std::filesystem::path file = examples::model_file(path);
  const json config = examples::load_config(file, "odd_one");
  const Options task = Options::from_json(examples::config_part(config, "task"));
  const World world(examples::config_seed(config, "seed"), task);
  seppo::Parameters parameters(/*seed=*/0, examples::most_parameters(file));
  const seppo::Predictor model(parameters.root(), task.predictor());
  seppo::load_checkpoint(file, parameters);
  const auto print_answer = [&](const std::string& text) {
    const int number = parse_number(text), odd = odd_place(world, number);
    seppo::AttentionMaps maps;
    const int found = answer(model, world, number, attention.is_wanted() ? &maps : nullptr);
    std::cout << fmt::format("set {}: element {}, {}", number, found,
                             found == odd ? "right" : fmt::format("wrong: it is {}", odd))
              << std::endl;
    const auto label = [&](const seppo::AttentionMap&) { return labels(odd); };
    attention.show(maps, label);
  };
  examples::for_each_text(words, print_answer);
  return 0;
}

}  // namespace
}  // namespace odd_one

int main(int argc, char** argv) {
  return examples::run_commands(argc, argv, "odd_one: a Transformer encoder finds the odd one in a set.",
                                {{"train", "train a model, test it, and save it", odd_one::train},
                                 {"predict", "find the odd one in sets, and show the attention", odd_one::predict}});
}
