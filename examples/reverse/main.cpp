// reverse: a one-layer Transformer encoder that learns to reverse a sequence of digits.
#include "app/run_program.h"
#include "app/sequences.h"
#include "app/words.h"
#include "reverse/model.h"

#include <seppo/nn/train/metrics.h>

#include <fmt/format.h>

#include <iostream>

namespace reversal {
namespace {

using nlohmann::json;

std::vector<int> reversed(const Ragged& sequences) {
  std::vector<int> all;
  for (std::size_t s = 0; s < sequences.size(); ++s) all.insert(all.end(), sequences[s].rbegin(), sequences[s].rend());
  return all;
}

enum class Preset { uva, plain };
std::span<const char* const> enum_names(Preset) {
  static constexpr const char* kNames[] = {"uva", "plain"};
  return kNames;
}

// The UvA course uses lr 5e-4, with which one seed in ten needs a fourth epoch.
app::TrainingConfig uva_recipe() {
  return {.epochs = 10,
          .best = "exact",
          .sampler = {.batch_size = 128},
          .trainer = {.lr = 7e-4, .schedule = seppo::ScheduleKind::cosine, .warmup_steps = 50, .clip_norm = 5}};
}

app::TrainingConfig plain_recipe() {
  return {.epochs = 5,
          .best = "exact",
          .sampler = {.batch_size = 128},
          .trainer = {.lr = 1e-3, .adam = {.weight_decay = 0.01}, .clip_norm = 0}};
}

struct Reverse {
  using Model = reversal::Model;
  using Examples = Ragged;

  Preset preset = Preset::uva;
  ModelConfig model = {};
  app::TrainingConfig training = uva_recipe();

  static app::About about() {
    return {.name = "reverse",
            .summary = "a one-layer Transformer encoder learns to reverse 16 digits.",
            .title = "seppo: reversing 16 digits",
            .task =
                "The task: 16 random digits -> the same digits in reverse order. Exact match counts whole "
                "sequences.",
            .measures = {"exact", "token_accuracy"},
            .shown = {"d-model", "heads", "layers", "positions"},
            .query = "SEQUENCE",
            .predicts = "reverse sequences, and show the attention",
            .predict_help =
                "Prints the model's reversal of each sequence of 16 digits, and the right one where it "
                "differs:\n"
                "  reverse predict 3141592653589793 \"2 7 1 8 2 8 1 8 2 8 4 5 9 0 4 5\"\n"
                "Without sequences it reads them from standard input, one a line.",
            .next = "predict --attention 3141592653589793"};
  }

  void options(app::CommandLine& line, const app::Arguments& arguments) {
    preset = app::option_in(arguments, "preset", preset);
    if (preset == Preset::plain) {
      model.plain = true;
      training = plain_recipe();
    }
    line("preset", preset, "model and recipe of the UvA course, or of a course with a plainer model");
  }

  app::Data<Ragged> data() const { return app::random_data(training.trainer.seed, 10, kLength, kSymbols); }

  std::string row(const Ragged& sequences, std::size_t i) const {
    return fmt::format("{}  ->  {}", app::spaced(sequences[i]),
                       app::spaced(reversed(sequences.pick({{static_cast<int>(i)}}))));
  }

  seppo::ShardLoss loss(const Model& model, const Ragged& sequences) const {
    return seppo::classification_loss(model(sequences), reversed(sequences));
  }

  seppo::Sums score(const Model& model, const Ragged& sequences) const {
    const std::vector<int> target = reversed(sequences);
    const Tensor logits = model(sequences);
    const std::vector<int> output = argmax(logits);
    int exact = 0;
    for (std::size_t at = 0; at < output.size(); at += kLength)
      exact += std::equal(&output[at], &output[at] + kLength, &target[at]);
    seppo::Sums sums = seppo::classification_loss(logits, target);
    sums.add("sequences", static_cast<double>(sequences.size()));
    sums.add("exact", exact);
    return sums;
  }

  json measures(const seppo::Sums& sums) const {
    return {{"exact", sums.mean("exact", "sequences")}, {"token_accuracy", sums.mean("correct")}};
  }

  void print(const json& summary, const std::string& part, std::size_t count) const {
    const double exact = summary[part + "_exact"], tokens = summary[part + "_token_accuracy"];
    std::cout << fmt::format("{:<12} exact match {:8.4f} %  token accuracy {:8.4f} %   ({} fresh sequences)\n", part,
                             100 * exact, 100 * tokens, count);
  }

  // `predict 3 1 4 1 ...`, without quotes, is one sequence.
  static bool is_one_query(const app::Arguments& words) {
    return !words.empty() && std::ranges::all_of(words, [](const std::string& word) { return word.size() == 1; });
  }

  // "0 1 2 ..." or "012...": throws FormatError unless it is 16 digits.
  Ragged parse(std::string_view text) const {
    std::vector<int> digits;
    for (const std::string_view word : app::split_blanks(text))
      for (const char c : word) {
        if (c < '0' || c > '9')
          seppo::fail<seppo::FormatError>("sequence '", seppo::printable(text), "': '", seppo::printable(word),
                                          "' is not made of digits 0-9");
        digits.push_back(c - '0');
      }
    seppo::check<seppo::FormatError>(digits.size() == kLength, "sequence '", seppo::printable(text), "' has ",
                                     digits.size(), " digits, not ", kLength);
    Ragged one;
    one.add(digits);
    return one;
  }

  app::Sample answer(const Model& model, const Ragged& sequence) const {
    std::vector<int> output;
    const auto maps = app::attention_maps([&] { output = argmax(model(sequence)); });
    app::AttentionLabels labels;
    for (const int digit : output) labels.queries.push_back(std::to_string(digit));
    for (const int digit : sequence.tokens) labels.keys.push_back(std::to_string(digit));
    return {.input = app::spaced(sequence.tokens),
            .expected = app::spaced(reversed(sequence)),
            .output = app::spaced(output),
            .maps = maps,
            .labels = app::same_labels(labels)};
  }

  std::optional<app::PageNetwork> page_network(const Model& model, const app::Data<Ragged>&) const {
    json config = seppo::to_json_object(model.predictor.config);
    config["plain_layers"] = model.layers.size();
    return {
        {.config = config, .task = {{"name", "reverse"}}, .positions = app::whole_table(model.predictor.positions)}};
  }
};

}  // namespace
}  // namespace reversal

int main(int argc, char** argv) { return app::run<reversal::Reverse>(argc, argv); }
