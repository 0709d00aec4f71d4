// Tokenizers, vocabularies, and both as part of a model file.
#include "translate/text.h"

#include "app/printable.h"
#include "app/words.h"
#include "translate/d2l.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

namespace translate {

using nlohmann::json;
using seppo::check;
using seppo::FormatError;

namespace {

const std::array<std::string, kSpecials> kSpecialTokens{"<unk>", "<bos>", "<eos>"};

seppo::Vocabulary vocabulary_of(const json& config, const char* key) {
  const json& tokens = config.contains(key) ? config[key] : json();
  check<FormatError>(tokens.is_array() && tokens.size() >= kSpecials,
                     "the model's configuration lacks the vocabulary '", key, "'");
  Words texts;
  for (const json& token : tokens) {
    check<FormatError>(token.is_string(), "the vocabulary '", key, "' has an entry that is not text");
    texts.push_back(token.get<std::string>());
    check<FormatError>(!examples::has_controls(texts.back()), "the vocabulary '", key, "' has '",
                       seppo::printable(texts.back()), "', which has a control character");
  }
  check<FormatError>(std::ranges::equal(std::span(texts).first(kSpecials), kSpecialTokens), "the vocabulary '", key,
                     "' does not begin with <unk>, <bos>, <eos>");
  return seppo::Vocabulary(texts);
}

}  // namespace

Words words_of(std::string_view text) {
  const auto words = examples::split_blanks(text);
  return {words.begin(), words.end()};
}

Words characters_of(std::string_view text) {
  const auto characters = examples::split_characters(text);
  return {characters.begin(), characters.end()};
}

std::string Tokenizer::prepare(std::string_view text) const {
  return normalises ? normalised(text) : std::string(text);
}

Words Tokenizer::split(std::string_view text) const {
  const std::string prepared = prepare(text);
  return kind == Kind::words ? words_of(prepared) : characters_of(prepared);
}

std::string Tokenizer::join(std::span<const std::string> tokens) const {
  return examples::joined(tokens, kind == Kind::words ? " " : "");
}

seppo::Vocabulary make_vocabulary(std::span<const Words> texts, int min_frequency) {
  std::map<std::string, int> counts;
  for (const Words& text : texts)
    for (const std::string& token : text) ++counts[token];
  for (const std::string& special : kSpecialTokens) counts.erase(special);
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater<>(), &std::pair<std::string, int>::second);
  Words tokens(kSpecialTokens.begin(), kSpecialTokens.end());
  for (const auto& [token, count] : sorted)
    if (count >= min_frequency && !examples::has_controls(token)) tokens.push_back(token);
  return seppo::Vocabulary(tokens);
}

seppo::Vocabulary make_vocabulary(const Subwords& subwords) {
  Words tokens(kSpecialTokens.begin(), kSpecialTokens.end());
  std::ranges::move(subwords.labels(kSpecialTokens), std::back_inserter(tokens));
  return seppo::Vocabulary(tokens);
}

std::vector<int> Languages::encode(const seppo::Vocabulary& vocabulary, std::string_view text) const {
  std::vector<int> ids;
  if (tokenizer.has_subwords()) {
    for (const int token : tokenizer.subwords.encode(tokenizer.prepare(text))) ids.push_back(kSpecials + token);
  } else {
    for (const std::string& token : tokenizer.split(text)) {
      const int id = vocabulary.contains(token) ? vocabulary.id(token) : kUnknown;
      ids.push_back(id < kSpecials ? kUnknown : id);  // "<eos>" in a text does not end it
    }
  }
  ids.push_back(kEos);
  return ids;
}

std::string Languages::decode(std::span<const int> ids) const {
  const auto text = ids.first(static_cast<std::size_t>(std::ranges::find(ids, kEos) - ids.begin()));
  if (tokenizer.has_subwords()) {
    std::vector<int> tokens;
    for (const int id : text)
      if (id >= kSpecials) tokens.push_back(id - kSpecials);
    return tokenizer.subwords.decode(tokens);
  }
  Words tokens;
  for (const int id : text) tokens.push_back(target.token(id));
  return tokenizer.join(tokens);
}

json Languages::to_json() const {
  json object = seppo::to_json_object(tokenizer);
  if (tokenizer.has_subwords()) {
    object["subwords"] = tokenizer.subwords.model;
  } else {
    object.update({{"source", source.tokens()}, {"target", target.tokens()}});
  }
  return object;
}

Languages Languages::from_json(const json& config) {
  json rest = config;
  for (const char* key : {"source", "target", "subwords"}) rest.erase(key);
  Languages languages{.tokenizer = seppo::from_json_object<Tokenizer>(rest)};
  if (languages.tokenizer.has_subwords()) {
    const json text = config.value("subwords", json());
    check<FormatError>(text.is_string(), "the model's configuration lacks its subwords");
    languages.tokenizer.subwords = load_subwords(text.get<std::string>());
    languages.source = languages.target = make_vocabulary(languages.tokenizer.subwords);
  } else {
    languages.source = vocabulary_of(config, "source");
    languages.target = vocabulary_of(config, "target");
  }
  return languages;
}

}  // namespace translate
