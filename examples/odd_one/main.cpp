// odd_one: an encoder without positions that finds the element of a set that is not like the others.
#include "common/checkpoint_config.h"
#include "common/command_line.h"
#include "common/training.h"
#include "odd_one/model.h"

#include <seppo/autograd/parallel.h>
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

std::vector<examples::ReportSample> report_samples(const seppo::Predictor& model, const World& world) {
  std::vector<examples::ReportSample> samples;
  for (int i = 0; i < 8; ++i) {
    const seppo::UseMode eval(seppo::Mode::eval);
    const seppo::TapeMark mark;
    const int number = kTrain + i;
    const World::Sets sets = world.sets({&number, 1});
    examples::ReportSample sample{.input = fmt::format("set {}", number), .expected = std::to_string(sets.odd[0])};
    sample.output = std::to_string(argmax(scores(model, sets.elements, &sample.maps))[0]);
    examples::AttentionLabels labels;
    for (int e = 0; e < kElements; ++e) labels.keys.push_back(e == sets.odd[0] ? "odd" : std::to_string(e));
    labels.queries = labels.keys;
    sample.labels.assign(sample.maps.size(), labels);
    samples.push_back(std::move(sample));
  }
  return samples;
}

int train(const std::vector<std::string>& arguments) {
  int kinds = 100, features = 32, d_model = 64, n_heads = 4, n_layers = 2;
  double noise = 1, dropout = 0.1;
  examples::TrainingOptions options;
  options.epochs = 10;
  options.lr = 5e-4;
  options.warmup_steps = 100;
  options.clip_norm = 2;
  options.eval_interval = 1;
  options.out = "runs/odd_one";
  CommandLine line("usage: odd_one train [options]", kTask);
  line.section("Data");
  line.integer("kinds", &kinds, 2, 100'000, "kinds of elements");
  line.integer("features", &features, 1, 4096, "numbers that describe an element");
  line.number("noise", &noise, 0, 100, "how far elements of a kind lie from its centre; centres lie 1 from 0");
  line.section("Model");
  line.integer("d-model", &d_model, 1, 4096, "width");
  line.integer("heads", &n_heads, 1, 256, "attention heads; they divide the width");
  line.integer("layers", &n_layers, 1, 64, "encoder layers");
  line.number("dropout", &dropout, 0, 0.999, "dropout of inputs and sublayers");
  options.add_to(line);
  if (!line.parse(arguments)) return 0;
  options.validate();
  examples::check_heads(d_model, n_heads);
  examples::use_threads(options.threads);

  const World world(options.seed, kinds, features, noise);
  seppo::Parameters parameters(options.seed);
  const seppo::Predictor model(parameters.root(), {.features = features,
                                                   .classes = 1,
                                                   .d_model = d_model,
                                                   .n_heads = n_heads,
                                                   .d_ff = 2 * d_model,
                                                   .n_layers = n_layers,
                                                   .dropout = dropout,
                                                   .input_dropout = dropout,
                                                   .positions = seppo::Positions::none,
                                                   .max_length = kElements});
  examples::prepare_folder(options.out);
  const json config = {
      {"program", "odd_one"},
      {"data", {{"kinds", kinds}, {"features", features}, {"noise", noise}}},
      {"model", {{"d_model", d_model}, {"n_heads", n_heads}, {"n_layers", n_layers}, {"dropout", dropout}}},
      {"training", options.to_json()}};
  const int first = 0;
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
                       .summary = seppo::summary(parameters,
                                                 [&] {
                                                   scores(model, world.sets({&first, 1}).elements);
                                                 }),
                       .config = config,
                       .samples = [&] { return report_samples(model, world); }});

  result.evaluation["test_accuracy"] = accuracy(model, world, kTrain + kValidation, kTest);
  std::cout << fmt::format("the odd one found in {:.2f} % of {} fresh sets\n",
                           100 * result.evaluation["test_accuracy"].get<double>(), kTest);
  examples::print_result(result, options);
  return 0;
}

}  // namespace
}  // namespace odd_one

int main(int argc, char** argv) {
  return examples::run_commands(argc, argv, "odd_one: a Transformer encoder finds the odd one in a set.",
                                {{"train", "train a model, test it, and save it", odd_one::train}});
}
