// count: an encoder that answers a question about a whole sequence, such as how many zeros it has.
#include "app/run_program.h"
#include "app/sequences.h"
#include "app/words.h"
#include "count/model.h"

#include <fmt/format.h>

#include <charconv>

namespace count {
namespace {

using nlohmann::json;

// Throws FormatError, naming the text, unless the word is a symbol.
int parse_symbol(std::string_view word, std::string_view text) {
  int symbol = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), symbol);
  if (error != std::errc() || end != word.data() + word.size() || symbol < 0 || symbol >= kSymbols)
    seppo::fail<seppo::FormatError>("sequence '", seppo::printable(text), "': '", seppo::printable(word),
                                    "' is not a symbol 0-", kSymbols - 1);
  return symbol;
}

struct Count {
  using Model = count::Model;
  using Examples = Ragged;

  ModelConfig model = {};
  app::TrainingConfig training = {.epochs = 10,
                                  .best = "accuracy",
                                  .sampler = {.batch_size = 128},
                                  .trainer = {.lr = 1e-3, .schedule = seppo::ScheduleKind::cosine, .warmup_steps = 50}};

  static app::About about() {
    return {.name = "count",
            .summary = "a Transformer encoder answers a question about a whole sequence.",
            .title = "seppo: a question about 16 symbols",
            .task =
                "The task: one answer about a whole sequence of 16 symbols 0-15: how many are 0, which is the "
                "largest, or which is the most frequent. One vector must stand for all positions: the encoder's "
                "output for a learned class token put in front, or the mean or the maximum over all positions.",
            .measures = {"accuracy"},
            .shown = {"question", "loss", "pooling", "d-model", "layers"},
            .query = "SEQUENCE",
            .predicts = "answer for sequences, and show the attention",
            .predict_help =
                "Prints the model's answer for each sequence of 16 symbols 0-15, and the right one where "
                "it differs:\n"
                "  count predict \"0 3 0 15 2 0 1 1 9 4 0 8 12 0 5 7\"\n"
                "Shorter sequences are answered as well, but the model has never seen any. Without "
                "sequences it reads them from standard input, one a line.",
            .next = "predict --attention \"0 3 0 15 2 0 1 1 9 4 0 8 12 0 5 7\"",
            .ends_with_test = true};
  }

  void data_options(app::CommandLine& line, const app::Arguments&) {
    line("question", model.question, "the question about each sequence");
  }

  app::Data<Ragged> data() const {
    constexpr app::Lengths kLengths{kLength, kLength};
    return app::random_data(training.trainer.seed, 20, kLengths, kLengths, kSymbols);
  }

  std::string row(const Ragged& sequences, std::size_t i) const {
    return fmt::format("{}  ->  {}", app::spaced(sequences[i]), right_answer(model.question, sequences[i]));
  }

  seppo::ShardLoss loss(const Model& model, const Ragged& sequences) const { return count::loss(model, sequences); }

  json measures(const seppo::Sums& sums) const { return {{"accuracy", sums.mean("correct")}}; }

  void print(const json& summary, const std::string& part, std::size_t count) const {
    const char* const question = enum_names(model.question)[static_cast<std::size_t>(model.question)];
    const char* const pooling = enum_names(model.pooling)[static_cast<std::size_t>(model.pooling)];
    const double accuracy = summary[part + "_accuracy"];
    app::print_fitted(fmt::format("{} by {}: {:.2f} % of {} fresh sequences answered right", question, pooling,
                                  100 * accuracy, count));
  }

  // Symbols separated by whitespace. Throws FormatError unless they are 1 to 16 integers in 0 .. 15.
  Ragged parse(std::string_view text) const {
    std::vector<int> symbols;
    for (const std::string_view word : app::split_blanks(text)) symbols.push_back(parse_symbol(word, text));
    if (symbols.empty() || symbols.size() > kLength)
      seppo::fail<seppo::FormatError>("sequence '", seppo::printable(text), "' has ", symbols.size(),
                                      " symbols, not 1 to ", kLength);
    Ragged one;
    one.add(symbols);
    return one;
  }

  app::Sample answer(const Model& model, const Ragged& sequence) const {
    int output = 0;
    const auto maps = app::attention_maps([&] { output = model.answers(model(sequence))[0]; });
    const std::vector<int>& symbols = sequence.tokens;
    app::AttentionLabels labels;
    if (model.classifier.class_token) labels.keys.push_back("class");
    for (const int symbol : symbols) labels.keys.push_back(std::to_string(symbol));
    labels.queries = labels.keys;
    app::Sample sample{.input = app::spaced(symbols),
                       .expected = std::to_string(right_answer(model.config.question, symbols)),
                       .output = std::to_string(output),
                       .maps = maps,
                       .labels = app::same_labels(labels)};
    if (symbols.size() < kLength)
      sample.warning =
          fmt::format("the model was trained on {} symbols; this sequence has {}", kLength, symbols.size());
    return sample;
  }

  // Only with cross-entropy: the page takes scores for logits of one distribution.
  std::optional<app::PageNetwork> page_network(const Model& model, const app::Data<Ragged>&) const {
    if (model.config.loss != Loss::ce || !app::is_on_page(model.config.positions)) return {};
    const char* const question = enum_names(model.config.question)[static_cast<std::size_t>(model.config.question)];
    return {{.config = seppo::to_json_object(model.classifier.config),
             .task = {{"name", "count"}, {"question", question}},
             .positions = app::whole_table(model.classifier.predictor.positions)}};
  }
};

}  // namespace
}  // namespace count

int main(int argc, char** argv) { return app::run<count::Count>(argc, argv); }
