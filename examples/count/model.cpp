#include "count/model.h"

#include "app/checkpoint_config.h"
#include "app/training.h"

#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/data/vocabulary.h>

#include <algorithm>
#include <charconv>
#include <numeric>

namespace count {

using seppo::Ragged;
using seppo::Tensor;

const std::vector<std::string>& questions() {
  static const std::vector<std::string> names{"zeros", "largest", "most-frequent"};
  return names;
}

int classes(const std::string& question) { return question == "zeros" ? kLength + 1 : kSymbols; }

int right_answer(const std::string& question, std::span<const int> symbols) {
  if (question == "zeros") return static_cast<int>(std::count(symbols.begin(), symbols.end(), 0));
  if (question == "largest") return *std::max_element(symbols.begin(), symbols.end());
  int counts[kSymbols] = {};
  for (const int symbol : symbols) ++counts[symbol];
  return static_cast<int>(std::max_element(counts, counts + kSymbols) - counts);
}

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

const std::vector<std::string>& pooling_names() {
  static const std::vector<std::string> names{"class-token", "mean", "max"};
  return names;
}

nlohmann::json ModelOptions::to_json() const {
  return {{"d_model", d_model}, {"n_heads", n_heads}, {"d_ff", d_ff},           {"n_layers", n_layers},
          {"dropout", dropout}, {"pooling", pooling}, {"positions", positions}, {"question", question}};
}

ModelOptions ModelOptions::from_json(const nlohmann::json& config) {
  using examples::config_integer;
  ModelOptions o{.d_model = config_integer(config, "d_model", 1, 1 << 16),
                 .n_heads = config_integer(config, "n_heads", 1, 1 << 16),
                 .d_ff = config_integer(config, "d_ff", 1, 1 << 20),
                 .n_layers = config_integer(config, "n_layers", 0, 1000),
                 .dropout = examples::config_number(config, "dropout", 0, 1),
                 .pooling = examples::config_text(config, "pooling"),
                 .positions = examples::config_text(config, "positions"),
                 .question = examples::config_text(config, "question")};
  const auto knows = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  seppo::check<seppo::FormatError>(knows(pooling_names(), o.pooling) && knows(questions(), o.question),
                                   "the model's configuration: unknown pooling or question");
  return o;
}

seppo::Classifier ModelOptions::classifier(const seppo::Scope& scope) const {
  return {scope,
          {.features = kSymbols,
           .classes = classes(question),
           .d_model = d_model,
           .n_heads = n_heads,
           .d_ff = d_ff,
           .n_layers = n_layers,
           .dropout = dropout,
           .positions = examples::parse_positions(positions),
           .max_length = kLength},
          pooling == "mean"  ? seppo::Pooling::mean
          : pooling == "max" ? seppo::Pooling::max
                             : seppo::Pooling::class_token};
}

namespace {

Tensor logits(const seppo::Classifier& model, const Ragged& input, seppo::AttentionMaps* maps = nullptr) {
  return model(seppo::one_hot(input.tokens, kSymbols), input.offsets, maps);  // [sequences, classes]
}

}  // namespace

seppo::ShardLoss loss(const seppo::Classifier& model, const std::string& question, const Ragged& sequences,
                      std::span<const int> picks) {
  Ragged input;
  std::vector<int> answers;
  for (const int pick : picks) {
    input.add(sequences[static_cast<std::size_t>(pick)]);
    answers.push_back(right_answer(question, sequences[static_cast<std::size_t>(pick)]));
  }
  return examples::classification_loss(logits(model, input), answers);
}

double accuracy(const seppo::Classifier& model, const std::string& question, const Ragged& sequences) {
  constexpr std::size_t kChunk = 64;  // sequences answered at a time by one thread
  std::vector<double> correct((sequences.size() + kChunk - 1) / kChunk);
  seppo::parallel_for(0, sequences.size(), kChunk, [&](std::size_t first, std::size_t last) {
    const seppo::UseMode eval(seppo::Mode::eval);
    const seppo::TapeMark mark;
    std::vector<int> picks(last - first);
    std::iota(picks.begin(), picks.end(), static_cast<int>(first));
    correct[first / kChunk] = loss(model, question, sequences, picks).correct;
  });
  return std::accumulate(correct.begin(), correct.end(), 0.0) / static_cast<double>(sequences.size());
}

int answer(const seppo::Classifier& model, std::span<const int> symbols, seppo::AttentionMaps* maps) {
  const seppo::UseMode eval(seppo::Mode::eval);
  const seppo::TapeMark mark;
  Ragged input;
  input.add(symbols);
  return argmax(logits(model, input, maps))[0];
}

std::vector<int> parse_symbols(std::string_view text) {
  std::vector<int> symbols;
  for (const std::string_view word : seppo::split_blanks(text)) {
    int symbol = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), symbol);
    seppo::check<seppo::FormatError>(
        error == std::errc() && end == word.data() + word.size() && symbol >= 0 && symbol < kSymbols, "sequence '",
        seppo::printable(text), "': '", seppo::printable(word), "' is not a symbol 0-", kSymbols - 1);
    symbols.push_back(symbol);
  }
  seppo::check<seppo::FormatError>(!symbols.empty() && symbols.size() <= kLength, "sequence '", seppo::printable(text),
                                   "' has ", symbols.size(), " symbols, not 1 to ", kLength);
  return symbols;
}

}  // namespace count
