// odd_one: an encoder without positions that finds the element of a set that is not like the others.
#include "app/digest.h"
#include "app/interrupts.h"
#include "app/memory.h"
#include "app/run.h"
#include "odd_one/model.h"

#include <seppo/nn/data/text.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <numeric>

namespace odd_one {
namespace {

using examples::Arguments;
using examples::CommandLine;
using examples::Sample;

constexpr const char* kTask =
    "The task: of ten elements, nine are of one kind and one is of another; which? Kinds are random points, elements "
    "lie around them. Nothing depends on the order of a set, and so the encoder has no positions.";
constexpr int kTrain = 20'000, kValidation = 1'000, kTest = 10'000;  // sets, numbered consecutively
constexpr int kMostSets = 1'000'000'000;

seppo::ShardLoss loss(const Model& model, const World& world, std::span<const int> numbers) {
  const World::Sets sets = world.sets(numbers);
  return seppo::classification_loss(model(sets.elements), sets.odd);
}

// The score on the sets first .. first + number - 1.
examples::Evaluation score(const Model& model, const World& world, int first, int number, const std::string& part) {
  std::vector<int> numbers(static_cast<std::size_t>(number));
  std::iota(numbers.begin(), numbers.end(), first);
  const seppo::Sums sums = seppo::evaluate(numbers, [&](std::span<const int> some) {
    examples::stop_if_interrupted();
    return loss(model, world, some);
  });
  return {sums.mean("loss"), {{part + "_accuracy", sums.mean("correct")}}};
}

Sample answer(const Model& model, const World& world, int number) {
  const seppo::Inference guard;
  seppo::AttentionRecorder recorder;
  const seppo::Observe scope(recorder);
  const World::Sets set = world.sets({&number, 1});
  const int found = argmax(model(set.elements))[0];
  examples::AttentionLabels labels;
  for (int e = 0; e < kElements; ++e) labels.keys.push_back(e == set.odd[0] ? "odd" : std::to_string(e));
  labels.queries = labels.keys;
  return {.input = fmt::format("set {}", number),
          .expected = std::to_string(set.odd[0]),
          .output = std::to_string(found),
          .maps = std::move(recorder.maps),
          .labels = [=](const seppo::AttentionMap&) { return labels; }};
}

// A set's number; throws FormatError for anything other than 0 .. kMostSets.
int parse_number(std::string_view text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > kMostSets)
    seppo::fail<seppo::FormatError>("set '", seppo::printable(text), "' is not a number 0-", kMostSets);
  return number;
}

int train(const Arguments& arguments) {
  ModelConfig config;
  examples::Run run{
      .out = "runs/odd_one",
      .measures = {"accuracy"},
      .training = {
          .epochs = 10,
          .best = "accuracy",
          .trainer = {.lr = 5e-4, .schedule = seppo::ScheduleKind::cosine, .warmup_steps = 100, .clip_norm = 2}}};
  CommandLine line("odd_one train [options]", kTask);
  line.fields("model", config);
  run.add_to(line);
  if (!line.parse(arguments)) return 0;
  if (!line.given("d-ff")) config.layer.d_ff = 2 * config.layer.d_model;

  const World world(run.seed(), config.world);
  seppo::Parameters parameters(run.seed(), examples::most_values());
  const auto model = examples::build<Model>(parameters, config);
  const examples::Task task{.title = "seppo: the odd one of ten",
                            .about = kTask,
                            .data = fmt::format("{} training and {} validation sets", kTrain, kValidation),
                            .example = "predict " + std::to_string(kTrain),
                            .examples = kTrain,
                            .digest = examples::digest_of(world.centres),
                            .loss = [&](std::span<const int> numbers) { return loss(model, world, numbers); },
                            .evaluate = [&] { return score(model, world, kTrain, kValidation, "val"); },
                            .samples =
                                [&] {
                                  std::vector<Sample> samples;
                                  for (int number = kTrain; number < kTrain + 8; ++number)
                                    samples.push_back(answer(model, world, number));
                                  return samples;
                                }};
  examples::Result result = run.train(line, parameters, model, task);
  result.summary.update(score(model, world, kTrain + kValidation, kTest, "test").measures);
  std::cout << fmt::format("the odd one found in {:.2f} % of {} fresh sets\n",
                           100 * result.summary["test_accuracy"].get<double>(), kTest);
  run.finish(line, task, result);
  return 0;
}

int predict(const Arguments& arguments) {
  examples::Trained trained{.program = "odd_one"};
  examples::AttentionOutput attention;
  Arguments words;
  CommandLine line("odd_one predict [options] [NUMBER ...]",
                   fmt::format("Finds the odd one out in sets of these numbers. The model has not seen sets from "
                               "{} on. Without numbers it reads them from standard input, one a line.",
                               kTrain));
  trained.fields(line);
  attention.fields(line);
  line.words(&words);
  if (!line.parse(arguments)) return 0;
  attention.prepare();

  const auto saved = trained.load<Model>();
  const std::uint64_t seed = examples::config_part<examples::TrainingConfig>(saved.config, "training").trainer.seed;
  const World world(seed, saved.model.config.world);
  examples::for_each_text(words, [&](const std::string& text) {
    const Sample sample = answer(saved.model, world, parse_number(text));
    std::cout << fmt::format("{}: element {}, {}", sample.input, sample.output,
                             sample.output == sample.expected ? "right" : "wrong: it is " + sample.expected)
              << std::endl;
    attention.show(sample);
  });
  return 0;
}

}  // namespace
}  // namespace odd_one

int main(int argc, char** argv) {
  return examples::run_commands(argc, argv, "odd_one: a Transformer encoder finds the odd one in a set.",
                                {{"train", "train a model, test it, and save it", odd_one::train},
                                 {"predict", "find the odd one in sets, and show the attention", odd_one::predict}});
}
