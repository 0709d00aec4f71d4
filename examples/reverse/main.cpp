// reverse: a one-layer Transformer, an encoder or an encoder and a decoder, that learns to reverse a sequence of
// digits.
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

// What the decoder reads and writes.
const seppo::Vocabulary& vocabulary() {
  static const seppo::Vocabulary tokens{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "BOS", "EOS"};
  return tokens;
}

// "3 1 4 1": an answer without the EOS at its end.
std::string text_of(std::span<const int> answer) {
  const bool has_end = !answer.empty() && answer.back() == kEos;
  return vocabulary().text(answer.first(answer.size() - (has_end ? 1 : 0)));
}

std::vector<std::string> texts_of(std::span<const int> digits) {
  std::vector<std::string> texts;
  for (const int digit : digits) texts.push_back(std::to_string(digit));
  return texts;
}

constexpr const char* kLengthsHelp = "digits of a sequence, a number or a range such as 4-16";

// How many digits sequences have.
struct DataConfig {
  std::string lengths = std::to_string(kLength), test_lengths;  // a number or a range

  void fields(seppo::ConfigVisitor& v) {
    v("lengths", lengths, kLengthsHelp, {.may_be_missing = true});
    v("test_lengths", test_lengths, "digits of a sequence of the test, if others", {.may_be_missing = true});
  }
  app::Lengths for_training() const { return app::lengths_in(lengths, "lengths"); }
  app::Lengths for_test() const {
    return test_lengths.empty() ? for_training() : app::lengths_in(test_lengths, "test_lengths");
  }
  app::Lengths all() const {
    return {std::min(for_training().least, for_test().least), std::max(for_training().most, for_test().most)};
  }
  bool fits(int length) const { return all().least <= length && length <= all().most; }
  void validate() const { all(); }
};

enum class Preset { uva, plain, longer };
std::span<const char* const> enum_names(Preset) {
  static constexpr const char* kNames[] = {"uva", "plain", "longer"};
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

app::TrainingConfig decoder_recipe() {
  return {.epochs = 5,
          .best = "loss",  // most evaluations have no wrong answer
          .sampler = {.batch_size = 128},
          .trainer = {.lr = 3e-3,
                      .schedule = seppo::ScheduleKind::cosine,
                      .warmup_steps = 50,
                      .adam = {.weight_decay = 0.1},
                      .clip_norm = 5}};
}

// For sequences that are longer than those of the training. The validation's are not, and do not tell which model is
// the best.
app::TrainingConfig longer_recipe() {
  app::TrainingConfig training = decoder_recipe();
  training.epochs = 15;
  training.best = "last";
  training.trainer.adam = {.betas = {0.9, 0.98}};
  return training;
}

struct Reverse {
  using Model = reversal::Model;
  using Examples = Ragged;

  Preset preset = Preset::uva;
  DataConfig source = {};
  ModelConfig model = {};
  app::TrainingConfig training = uva_recipe();
  std::string other_lengths = {};  // of the test, instead of those that the model was trained for

  static app::About about() {
    return {.name = "reverse",
            .summary = "a one-layer Transformer learns to reverse 16 digits.",
            .task =
                "The task: random digits -> the same digits in reverse order. Exact match counts whole "
                "sequences, those of a decoder decoded greedily; its token accuracy counts single tokens predicted "
                "from the correct ones before them.",
            .measures = {"exact", "token_accuracy"},
            .shown = {"lengths", "test-lengths", "architecture", "d-model", "heads", "layers", "positions"},
            .query = "SEQUENCE",
            .predicts = "reverse sequences, and show the attention",
            .predict_help =
                "Prints the model's reversal of each sequence of 16 digits, or of as many as it was trained or tested "
                "with, and the right one where it differs:\n"
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
    const bool is_longer = preset == Preset::longer;
    if (is_longer) {
      model.architecture = Architecture::encoder_decoder;
      model.positions = examples::Positions::coupled;
      model.layer.d_ff = 128;
      model.layer.dropout = 0.1;
      source = {.lengths = "1-16", .test_lengths = "160"};
    }
    model.architecture = app::option_in(arguments, "architecture", model.architecture);
    if (model.writes()) training = is_longer ? longer_recipe() : decoder_recipe();
    line("preset", preset,
         "model and recipe of the UvA course, or of a course with a plainer model; longer learns to reverse 160 digits "
         "from 1 to 16");
  }

  void parts(const auto& part) {
    part("data", source);
    part("model", model);
  }

  void eval_options(app::CommandLine& line) {
    line("test-lengths", other_lengths, "digits of a sequence of the test, instead of those of the training's options");
    line.check([this] {
      if (!other_lengths.empty()) app::lengths_in(other_lengths, "--test-lengths");
    });
  }

  void data_options(app::CommandLine& line, const app::Arguments&) {
    line("lengths", source.lengths, kLengthsHelp);
    line.check([this] { app::lengths_in(source.lengths, "--lengths"); });
  }

  void begin() { model.max_length = source.all().most; }

  app::Data<Ragged> data() const {
    const bool has_others = !other_lengths.empty();
    const app::Lengths tested = has_others ? app::lengths_in(other_lengths, "--test-lengths") : source.for_test();
    if (tested.most > model.max_length)
      throw app::UsageError(fmt::format("--test-lengths: {} digits are more than {}, the model's longest", tested.most,
                                        model.max_length));
    app::Data<Ragged> data = app::random_data(training.trainer.seed, 10, source.for_training(), tested, kSymbols);
    if (!source.fits(kLength)) data.next = fmt::format("predict --attention {}", fmt::join(data.validation[0], ""));
    return data;
  }

  std::string title() const { return fmt::format("seppo: reversing {} digits", app::text_of(source.for_training())); }

  std::string row(const Ragged& sequences, std::size_t i) const {
    return fmt::format("{}  ->  {}", app::spaced(sequences[i]),
                       app::spaced(std::vector(sequences[i].rbegin(), sequences[i].rend())));
  }

  seppo::ShardLoss loss(const Model& model, const Ragged& sequences) const {
    return seppo::classification_loss(model(sequences), targets(sequences, model.config.architecture).tokens);
  }

  seppo::Sums score(const Model& model, const Ragged& sequences) const {
    const Ragged right = targets(sequences, model.config.architecture), answers = model.answers(sequences);
    int exact = 0;
    for (std::size_t i = 0; i < right.size(); ++i) exact += std::ranges::equal(answers[i], right[i]);
    seppo::Sums sums = seppo::classification_loss(model(sequences), right.tokens);
    sums.add("sequences", static_cast<double>(sequences.size()));
    sums.add("exact", exact);
    return sums;
  }

  json measures(const seppo::Sums& sums) const {
    return {{"exact", sums.mean("exact", "sequences")}, {"token_accuracy", sums.mean("correct")}};
  }

  void print(const json& summary, const std::string& part, std::size_t count) const {
    const double exact = summary[part + "_exact"], tokens = summary[part + "_token_accuracy"];
    app::print_fitted(fmt::format("{:<12} exact match {:8.4f} %  token accuracy {:8.4f} %   ({} fresh sequences)", part,
                                  100 * exact, 100 * tokens, count));
  }

  // `predict 3 1 4 1 ...`, without quotes, is one sequence.
  static bool is_one_query(const app::Arguments& words) {
    return !words.empty() && std::ranges::all_of(words, [](const std::string& word) { return word.size() == 1; });
  }

  // "0 1 2 ..." or "012...": throws FormatError unless it is 16 digits, or as many as the model has seen.
  Ragged parse(std::string_view text) const {
    std::vector<int> digits;
    for (const std::string_view word : app::split_blanks(text))
      for (const char c : word) {
        if (c < '0' || c > '9')
          seppo::fail<seppo::FormatError>("sequence '", seppo::printable(text), "': '", seppo::printable(word),
                                          "' is not made of digits 0-9");
        digits.push_back(c - '0');
      }
    seppo::check<seppo::FormatError>(source.fits(static_cast<int>(digits.size())), "sequence '", seppo::printable(text),
                                     "' has ", digits.size(), " digits, not ", app::text_of(source.all()));
    Ragged one;
    one.add(digits);
    return one;
  }

  app::Sample answer(const Model& model, const Ragged& sequence) const {
    const Ragged written = model.answers(sequence);
    app::Sample sample{.input = app::spaced(sequence.tokens),
                       .expected = text_of(targets(sequence, model.config.architecture).tokens),
                       .output = text_of(written.tokens)};
    if (model.encoder) {
      sample.forward = [&model, sequence] { model(sequence); };
      sample.labels = app::same_labels({texts_of(written.tokens), texts_of(sequence.tokens)});
    } else {
      const Ragged read = read_for(written);
      sample.forward = [&model, sequence, read] { model.logits(sequence, read); };
      sample.labels = app::encoder_decoder_labels({vocabulary(), model.source(sequence).tokens},
                                                  {vocabulary(), read.tokens}, {vocabulary(), written.tokens});
    }
    return sample;
  }

  std::optional<app::PageNetwork> page_network(const Model& model, const app::Data<Ragged>&) const {
    if (!app::is_on_page(model.config.positions)) return {};
    const app::Lengths lengths = source.all();
    json task = {{"hint", app::text_of(lengths) + " digits"}, {"lengths", {lengths.least, lengths.most}}};
    if (model.transformer) {
      task.update({{"name", "reverse_written"}, {"vocabulary", vocabulary().tokens()}});
      return {{.config = seppo::to_json_object(model.transformer->config),
               .task = task,
               .positions = app::whole_table(model.transformer->positions)}};
    }
    task["name"] = "reverse";
    json config = seppo::to_json_object(model.encoder->predictor.config);
    config["plain_layers"] = model.encoder->layers.size();
    return {{.config = config, .task = task, .positions = app::whole_table(model.encoder->predictor.positions)}};
  }
};

}  // namespace
}  // namespace reversal

int main(int argc, char** argv) { return app::run<reversal::Reverse>(argc, argv); }
