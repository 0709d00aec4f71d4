// count: an encoder that answers a question about a whole sequence, such as how many zeros it has.
#include "app/digest.h"
#include "app/interrupts.h"
#include "app/memory.h"
#include "app/run.h"
#include "app/words.h"
#include "count/model.h"

#include <seppo/nn/data/text.h>
#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/metrics.h>
#include <seppo/nn/train/trainer.h>

#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <numeric>

namespace count {
namespace {

using examples::Arguments;
using examples::CommandLine;
using examples::Sample;

constexpr const char* kTask =
    "The task: one answer about a whole sequence of 16 symbols 0-15: how many are 0, which is the largest, or which "
    "is the most frequent. One vector must stand for all positions: the encoder's output for a learned class token "
    "put in front, or the mean or the maximum over all positions.";
constexpr int kTrain = 50'000, kValidation = 1'000, kTest = 10'000;

// Each part of the data is drawn from a random stream of its own.
enum class Part : std::uint64_t { train = 20, validation = 21, test = 22 };

Ragged make_sequences(std::uint64_t seed, Part part, int number) {
  seppo::RandomStream random(seed, seppo::Purpose::data, static_cast<std::uint64_t>(part));
  Ragged sequences;
  for (int i = 0; i < number; ++i) {
    int symbols[kLength];
    for (int& symbol : symbols) symbol = static_cast<int>(random.below(kSymbols));
    sequences.add(symbols);
  }
  return sequences;
}

seppo::ShardLoss loss(const Model& model, const Ragged& input) {
  std::vector<int> answers;
  for (std::size_t s = 0; s < input.size(); ++s) answers.push_back(right_answer(model.config.question, input[s]));
  return seppo::classification_loss(model(input), answers);
}

examples::Evaluation score(const Model& model, const Ragged& sequences, const std::string& part) {
  std::vector<int> all(sequences.size());
  std::iota(all.begin(), all.end(), 0);
  const seppo::Sums sums = seppo::evaluate(all, [&](std::span<const int> some) {
    examples::stop_if_interrupted();
    return loss(model, sequences.pick(some));
  });
  return {sums.mean("loss"), {{part + "_accuracy", sums.mean("correct")}}};
}

Sample answer(const Model& model, std::span<const int> symbols) {
  Ragged input;
  input.add(symbols);
  seppo::AttentionRecorder recorder;
  int output = 0;
  {
    const seppo::Inference guard;
    const seppo::Observe scope(recorder);
    output = argmax(model(input))[0];
  }
  examples::AttentionLabels labels;
  if (model.classifier.class_token) labels.keys.push_back("class");
  for (const int symbol : symbols) labels.keys.push_back(std::to_string(symbol));
  labels.queries = labels.keys;
  return {.input = fmt::format("{}", fmt::join(symbols, " ")),
          .expected = std::to_string(right_answer(model.config.question, symbols)),
          .output = std::to_string(output),
          .maps = std::move(recorder.maps),
          .labels = [=](const seppo::AttentionMap&) { return labels; }};
}

// Symbols separated by whitespace. Throws FormatError unless they are 1 to 16 integers in 0 .. 15.
std::vector<int> parse_symbols(std::string_view text) {
  std::vector<int> symbols;
  for (const std::string_view word : examples::split_blanks(text)) {
    int symbol = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), symbol);
    if (error != std::errc() || end != word.data() + word.size() || symbol < 0 || symbol >= kSymbols)
      seppo::fail<seppo::FormatError>("sequence '", seppo::printable(text), "': '", seppo::printable(word),
                                      "' is not a symbol 0-", kSymbols - 1);
    symbols.push_back(symbol);
  }
  if (symbols.empty() || symbols.size() > kLength)
    seppo::fail<seppo::FormatError>("sequence '", seppo::printable(text), "' has ", symbols.size(),
                                    " symbols, not 1 to ", kLength);
  return symbols;
}

int train(const Arguments& arguments) {
  ModelConfig config;
  examples::Run run{.out = "runs/count",
                    .measures = {"accuracy"},
                    .training = {.epochs = 10,
                                 .best = "accuracy",
                                 .sampler = {.batch_size = 128},
                                 .trainer = {.lr = 1e-3, .schedule = seppo::ScheduleKind::cosine, .warmup_steps = 50}}};
  CommandLine line("count train [options]", kTask);
  line.fields("model", config);
  run.add_to(line);
  if (!line.parse(arguments)) return 0;

  const Ragged sequences = make_sequences(run.seed(), Part::train, kTrain),
               validation = make_sequences(run.seed(), Part::validation, kValidation);
  seppo::Parameters parameters(run.seed(), examples::most_values());
  const auto model = examples::build<Model>(parameters, config);
  const examples::Task task{.title = "seppo: a question about 16 symbols",
                            .about = kTask,
                            .data = fmt::format("{} training and {} validation sequences", kTrain, kValidation),
                            .example = "predict --attention \"0 3 0 15 2 0 1 1 9 4 0 8 12 0 5 7\"",
                            .examples = sequences.size(),
                            .digest = examples::digest_of(sequences, validation),
                            .loss = [&](std::span<const int> rows) { return loss(model, sequences.pick(rows)); },
                            .evaluate = [&] { return score(model, validation, "val"); },
                            .samples =
                                [&] {
                                  std::vector<Sample> samples;
                                  for (std::size_t i = 0; i < 8; ++i) samples.push_back(answer(model, validation[i]));
                                  return samples;
                                }};
  examples::Result result = run.train(line, parameters, model, task);
  result.summary.update(score(model, make_sequences(run.seed(), Part::test, kTest), "test").measures);
  std::cout << fmt::format("{} by {}: {:.2f} % of {} fresh sequences answered right\n",
                           enum_names(Question{})[static_cast<std::size_t>(config.question)],
                           enum_names(examples::Pooling{})[static_cast<std::size_t>(config.pooling)],
                           100 * result.summary["test_accuracy"].get<double>(), kTest);
  run.finish(line, task, result);
  return 0;
}

int predict(const Arguments& arguments) {
  examples::Trained trained{.program = "count"};
  examples::AttentionOutput attention;
  Arguments words;
  CommandLine line(
      "count predict [options] [SEQUENCE ...]",
      "Prints the model's answer for each sequence of 16 symbols 0-15, and the right one where it differs:\n"
      "  count predict \"0 3 0 15 2 0 1 1 9 4 0 8 12 0 5 7\"\n"
      "Shorter sequences are answered as well, but the model has never seen any. Without sequences it "
      "reads them from standard input, one a line.");
  trained.fields(line);
  attention.fields(line);
  line.words(&words);
  if (!line.parse(arguments)) return 0;
  attention.prepare();

  const auto saved = trained.load<Model>();
  examples::for_each_text(words, [&](const std::string& text) {
    const std::vector<int> symbols = parse_symbols(text);
    const Sample sample = answer(saved.model, symbols);
    const bool is_right = sample.output == sample.expected;
    std::cout << sample.output << (is_right ? "" : "   wrong: it is " + sample.expected) << std::endl;
    if (symbols.size() < kLength)
      std::cerr << fmt::format("count: the model was trained on {} symbols; this sequence has {}\n", kLength,
                               symbols.size());
    attention.show(sample);
  });
  return 0;
}

}  // namespace
}  // namespace count

int main(int argc, char** argv) {
  return examples::run_commands(argc, argv, "count: a Transformer encoder answers a question about a whole sequence.",
                                {{"train", "train a model, test it, and save it", count::train},
                                 {"predict", "answer for sequences, and show the attention", count::predict}});
}
