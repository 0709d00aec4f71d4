// Reading parallel text, tokenizers, and vocabularies.
#include "translate/text.h"

#include "app/printable.h"
#include "app/words.h"
#include "translate/d2l.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/utf8.h>
#include <seppo/nn/config.h>
#include <seppo/nn/io/text_file.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <span>

namespace translate {

using nlohmann::json;
using seppo::FormatError;

namespace {

const std::array<std::string, kSpecials> kSpecialTokens{"<unk>", "<bos>", "<eos>"};

std::vector<std::string> read_file(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  seppo::TextReader(path).for_each_line([&](std::string_view line) { lines.emplace_back(line); });
  seppo::check<FormatError>(!lines.empty(), seppo::printable_path(path), ": is empty");
  return lines;
}

}  // namespace

std::vector<Pair> read_lines(const std::filesystem::path& source, const std::filesystem::path& target) {
  std::vector<std::string> sources = read_file(source), targets = read_file(target);
  seppo::check<FormatError>(sources.size() == targets.size(), seppo::printable_path(source), " has ", sources.size(),
                            " lines, but ", seppo::printable_path(target), " has ", targets.size());
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < sources.size(); ++i) pairs.push_back({std::move(sources[i]), std::move(targets[i])});
  return pairs;
}

std::vector<Pair> read_tab_separated(const std::filesystem::path& path) {
  std::vector<Pair> pairs;
  for (const std::string& line : read_file(path)) {
    const std::size_t tab = line.find('\t');
    seppo::check<FormatError>(tab != std::string::npos, seppo::printable_path(path), ":", pairs.size() + 1, ": '",
                              seppo::printable(line), "' has no tab between source and target");
    const std::size_t end = std::min(line.find('\t', tab + 1), line.size());
    pairs.push_back({line.substr(0, tab), line.substr(tab + 1, end - tab - 1)});
  }
  return pairs;
}

std::vector<std::string> words_of(std::string_view text) {
  const std::vector<std::string_view> pieces = examples::split_blanks(text);
  return {pieces.begin(), pieces.end()};
}

std::string Tokenizer::prepare(std::string_view text) const {
  return normalises_ ? normalised(text) : std::string(text);
}

std::vector<std::string> Tokenizer::split(std::string_view text) const {
  const std::string prepared = prepare(text);
  if (kind_ == Kind::words) return words_of(prepared);
  if (kind_ == Kind::subwords) return subwords_->split(prepared);
  std::vector<std::string> characters;
  for (std::string_view rest = prepared; !rest.empty();) {
    const std::size_t length = std::max<std::size_t>(1, seppo::character_length(rest));
    characters.emplace_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return characters;
}

std::string Tokenizer::join(std::span<const std::string> tokens) const {
  if (kind_ == Kind::subwords) return subwords_->join(tokens);
  std::string text;
  for (const std::string& token : tokens) {
    if (kind_ == Kind::words && !text.empty()) text += ' ';
    text += token;
  }
  return text;
}

seppo::Vocabulary make_vocabulary(std::span<const std::vector<std::string>> texts, int min_frequency) {
  std::vector<std::string> tokens(kSpecialTokens.begin(), kSpecialTokens.end());
  std::map<std::string, int> counts;
  for (const auto& text : texts)
    for (const std::string& token : text) ++counts[token];
  for (const std::string& special : tokens) counts.erase(special);
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [token, count] : sorted)
    if (count >= min_frequency && !examples::has_controls(token)) tokens.push_back(token);
  return seppo::Vocabulary(tokens);
}

std::vector<int> Languages::encode(const seppo::Vocabulary& vocabulary, std::string_view text) const {
  std::vector<int> ids;
  for (const std::string& token : tokenizer.split(text)) {
    const int id = vocabulary.contains(token) ? vocabulary.id(token) : kUnknown;
    ids.push_back(id < kSpecials ? kUnknown : id);  // "<eos>" in a text does not end it
  }
  ids.push_back(kEos);
  return ids;
}

std::string Languages::decode(std::span<const int> ids) const {
  std::vector<std::string> tokens;
  for (const int id : ids) {
    if (id == kEos) break;
    tokens.push_back(target.token(id));
  }
  return tokenizer.join(tokens);
}

namespace {

// How texts are split into tokens, as stored in the model file.
struct Cut {
  Tokenizer::Kind tokens = Tokenizer::Kind::words;
  bool normalise = false;

  void fields(seppo::ConfigVisitor& v) {
    v("tokens", tokens);
    v("normalise", normalise);
  }
};

seppo::Vocabulary vocabulary_of(const json& config, const char* key) {
  const json& tokens = config.contains(key) ? config[key] : json();
  seppo::check<FormatError>(tokens.is_array() && tokens.size() >= kSpecials,
                            "the model's configuration lacks the vocabulary '", key, "'");
  std::vector<std::string> texts;
  for (const json& token : tokens) {
    seppo::check<FormatError>(token.is_string(), "the vocabulary '", key, "' has an entry that is not text");
    texts.push_back(token.get<std::string>());
    seppo::check<FormatError>(!examples::has_controls(texts.back()), "the vocabulary '", key, "' has '",
                              seppo::printable(texts.back()), "', which has a control character");
  }
  seppo::check<FormatError>(std::ranges::equal(std::span(texts).first(kSpecials), kSpecialTokens), "the vocabulary '",
                            key, "' does not begin with <unk>, <bos>, <eos>");
  return seppo::Vocabulary(texts);
}

}  // namespace

json Languages::to_json() const {
  json object = seppo::to_json_object(Cut{tokenizer.kind(), tokenizer.normalises()});
  object.update({{"source", source.tokens()}, {"target", target.tokens()}});
  if (tokenizer.subwords()) object["subwords"] = tokenizer.subwords()->base64();
  return object;
}

Languages Languages::from_json(const json& config) {
  json rest = config;
  rest.erase("source");
  rest.erase("target");
  rest.erase("subwords");
  const Cut cut = seppo::from_json_object<Cut>(rest);
  Languages languages{Tokenizer(cut.tokens, cut.normalise), vocabulary_of(config, "source"),
                      vocabulary_of(config, "target")};
  if (cut.tokens == Tokenizer::Kind::subwords) {
    const json text = config.value("subwords", json());
    seppo::check<FormatError>(text.is_string(), "the model's configuration lacks its subwords");
    languages.tokenizer =
        Tokenizer(std::make_shared<const Subwords>(Subwords::from_base64(text.get<std::string>())), cut.normalise);
  }
  return languages;
}

}  // namespace translate
