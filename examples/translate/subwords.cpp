// What translate makes subwords of: the tokenizer of the library, without its special token.
#include "translate/subwords.h"

#include "app/printable.h"
#include "app/words.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/io/json.h>
#include <seppo/nn/text/learn_bpe.h>
#include <seppo/nn/text/tokenizer_json.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <set>
#include <utility>

namespace translate {
namespace {

// Token 0 of the tokenizer, a special one, is in no text.
constexpr int kFirst = 1;

const char* const kNoCharacter = "\xef\xbf\xbd";  // U+FFFD

std::string label_of(std::string_view piece) {
  std::string label;
  for (const std::string_view character : examples::split_characters(piece)) {
    if (character == " ") {
      label += "\xe2\x96\x81";  // U+2581
    } else if (examples::has_controls(character)) {
      for (const char byte : character) label += fmt::format("<{:02X}>", static_cast<unsigned char>(byte));
    } else {
      label += character;
    }
  }
  return label;
}

}  // namespace

std::vector<int> Subwords::encode(std::string_view text) const {
  std::vector<int> tokens = tokenizer.encode(text);
  for (int& token : tokens) token -= kFirst;
  return tokens;
}

std::string Subwords::decode(std::span<const int> tokens) const {
  std::vector<int> ids;
  for (const int token : tokens) ids.push_back(token + kFirst);
  const std::string bytes = tokenizer.decode(ids);
  std::string text;
  for (const std::string_view character : examples::split_characters(bytes))
    text += examples::has_controls(character) ? kNoCharacter : character;
  return text;
}

std::vector<std::string> Subwords::labels(std::span<const std::string> taken) const {
  std::vector<std::string> labels;
  std::set<std::string> known(taken.begin(), taken.end());
  for (int id = kFirst; id < tokenizer.size(); ++id) {
    std::string label = label_of(tokenizer.pieces[static_cast<std::size_t>(id)]);
    while (!known.insert(label).second) label += "'";
    labels.push_back(label);
  }
  return labels;
}

Subwords learn_subwords(std::span<const std::string> texts, int size) {
  seppo::BpeLearner learner;
  for (const std::string& text : texts) learner.add(text);
  return load_subwords(learner.learn({.tokens = size + kFirst}).dump());
}

Subwords load_subwords(std::string model) {
  constexpr const char* kName = "the model's configuration: its subwords";
  seppo::Tokenizer tokenizer = seppo::read_tokenizer_json(seppo::parse_json(model, kName), kName);
  const bool fits = tokenizer.size() > kFirst && tokenizer.before.empty() && tokenizer.behind.empty();
  seppo::check<seppo::FormatError>(fits, "the model's configuration: its subwords are not those of translations");
  return {.model = std::move(model), .tokenizer = std::move(tokenizer)};
}

}  // namespace translate
