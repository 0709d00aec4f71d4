// llama.cpp's kinds of tokenizers, written as the pipelines that they stand for.
#include "gguf_tokenizer.h"

#include "gguf_words.h"
#include "sentencepiece_json.h"
#include "tokenizer_json.h"
#include "tokenizer_json_writer.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/utf8.h"
#include "../io/json.h"
#include "../io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

// ---- reading keys --------------------------------------------------------------------------------

// GgufKeys that begin with "tokenizer.ggml.". Those that are missing have a fallback, or are refused.
class GgufKeys {
 public:
  explicit GgufKeys(const GgufFile& file) : file_(file) {}

  json find(const char* key) const { return file_.metadata().value(kGgufTokenizer + key, json()); }

  template <class... Parts>
  void check(bool holds, const char* key, const Parts&... parts) const {
    seppo::check<FormatError>(holds, file_.name(), ": ", kGgufTokenizer, key, parts...);
  }
  template <class... Parts>
  [[noreturn]] void refuse(const char* key, const Parts&... parts) const {
    fail<FormatError>(file_.name(), ": ", kGgufTokenizer, key, parts...);
  }

  std::string text(const char* key) const {
    const json value = find(key);
    check(value.is_string(), key, " is missing, or no text");
    return value.get<std::string>();
  }
  bool flag(const char* key, bool fallback) const {
    const json value = find(key);
    check(value.is_null() || value.is_boolean(), key, ": ", printable_json(value), " is neither true nor false");
    return value.is_null() ? fallback : value.get<bool>();
  }
  std::vector<json> list(const char* key) const {
    const json value = find(key);
    check(value.is_null() || value.is_array(), key, " is no list");
    return {value.begin(), value.end()};
  }
  // UTF-8.
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> found;
    check(!find(key).is_null(), key, " is missing");
    for (const json& item : list(key)) {
      check(item.is_string(), key, ": ", printable_json(item), " is no text");
      found.push_back(item.get<std::string>());
      check(utf8_length(found.back()) == found.back().size(), key, ": '", printable(found.back()), "' is not UTF-8");
    }
    return found;
  }

 private:
  const GgufFile& file_;
};

// The file's tokens, and what it says of each.
class GgufVocabulary {
 public:
  explicit GgufVocabulary(const GgufKeys& keys) : texts(keys.texts("tokens")), types(texts.size(), PieceType::normal) {
    keys.check(!texts.empty(), "tokens", " is empty");
    const std::vector<json> numbers = keys.list("token_type");
    keys.check(numbers.empty() || numbers.size() == texts.size(), "token_type", " is not of as many tokens as ",
               kGgufTokenizer, "tokens");
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i].is_number_integer()) types[i] = static_cast<PieceType>(numbers[i].get<int>());
    for (std::size_t i = 0; i < texts.size(); ++i)
      keys.check(ids.emplace(texts[i], i).second, "tokens", ": '", printable(texts[i]), "' is there twice");
  }

  // The token of a key such as "bos_token_id".
  std::optional<std::string> named(const GgufKeys& keys, const char* key) const {
    const json value = keys.find(key);
    if (!value.is_number_integer()) return {};
    const auto id = value.get<std::uint64_t>();  // too large if it is negative
    if (id >= texts.size()) return {};
    return texts[id];
  }

  std::vector<std::string> texts;
  std::vector<PieceType> types;
  std::unordered_map<std::string, std::size_t> ids;
};

// ---- parts of a tokenizer.json -------------------------------------------------------------------

// What puts marks before and behind a text, if the file asks for that.
json processor(const GgufKeys& keys, const GgufVocabulary& vocabulary, bool adds_bos, const json& otherwise) {
  const auto mark = [&](const char* flag, bool usual, const char* key) -> std::optional<NamedToken> {
    const auto name = vocabulary.named(keys, key);
    if (!name || !keys.flag(flag, usual)) return {};
    return NamedToken{*name, vocabulary.ids.at(*name)};
  };
  const auto bos = mark("add_bos_token", adds_bos, "bos_token_id");
  const auto eos = mark("add_eos_token", false, "eos_token_id");
  if (!bos && !eos) return otherwise;
  return marks_json(bos, eos);
}

// ---- gpt2 ----------------------------------------------------------------------------------------

// Other names of the same words, of models whose vocabularies differ.
const std::map<std::string_view, const char*> kSameWords{
    {"phi-2", "gpt-2"},    {"olmo", "gpt-2"},          {"mpt", "gpt-2"},         {"jais", "gpt-2"},
    {"refact", "smollm"},  {"starcoder", "smollm"},    {"command-r", "smollm"},  {"codeshell", "smollm"},
    {"exaone", "smollm"},  {"minerva-7b", "smollm"},   {"llama3", "llama-bpe"},  {"llama-v3", "llama-bpe"},
    {"dbrx", "llama-bpe"}, {"smaug-bpe", "llama-bpe"}, {"falcon3", "llama-bpe"}, {"deepseek-r1-qwen", "qwen2"},
    {"megrez", "qwen2"}};

// In these, a word that is a token is that token, whatever merges would make of it, and texts begin with a mark.
bool is_of_llama3(const std::string& pre) {
  return pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3" || pre == "falcon3";
}

// Of a merge that comes twice the first counts in llama.cpp, and the last in a tokenizer.json.
std::vector<std::string> first_of_equal(const std::vector<std::string>& merges) {
  std::set<std::string_view> seen;
  std::vector<std::string> kept;
  for (const std::string& merge : merges)
    if (seen.insert(merge).second) kept.push_back(merge);
  return kept;
}

json byte_level_bpe(const GgufKeys& keys, const GgufVocabulary& vocabulary) {
  const std::string said = keys.text("pre");
  const bool is_llama = is_of_llama3(said);
  const auto same = kSameWords.find(said);
  const std::string pre = same == kSameWords.end() ? said : same->second;
  const json steps = gguf_pre_tokenizer(pre);
  if (steps.is_null())
    keys.refuse("pre", ": ", printable(said), " is not supported; known are ", gguf_words_that_are_known());
  json model = bpe_json(vocabulary.ids, first_of_equal(keys.texts("merges")));
  model["ignore_merges"] = is_llama;
  return {{"normalizer", gguf_normalizer(pre)},
          {"pre_tokenizer", steps},
          {"post_processor", processor(keys, vocabulary, is_llama, byte_level_json(true))},
          {"decoder", byte_level_json(true)},
          {"model", model},
          {"added_tokens", added_tokens_json(vocabulary.texts, vocabulary.types)}};
}

// ---- llama ---------------------------------------------------------------------------------------

// The score of each token.
std::vector<double> read_scores(const GgufKeys& keys, std::size_t tokens) {
  std::vector<double> scores;
  for (const json& score : keys.list("scores")) {
    keys.check(score.is_number() && std::isfinite(score.get<double>()), "scores", ": ", printable_json(score),
               " is no number");
    scores.push_back(score.get<double>());
  }
  keys.check(scores.size() == tokens, "scores", " is not of as many tokens as ", kGgufTokenizer, "tokens");
  return scores;
}

json sentencepiece_bpe(const GgufKeys& keys, const GgufVocabulary& vocabulary, const std::string& name) {
  SentencePieces pieces{.texts = vocabulary.texts,
                        .scores = read_scores(keys, vocabulary.texts.size()),
                        .types = vocabulary.types,
                        .ids = vocabulary.ids,
                        .adds_space = keys.flag("add_space_prefix", true),
                        .adds_users = true};
  const auto unknown = vocabulary.named(keys, "unknown_token_id");
  if (unknown) pieces.unknown = vocabulary.ids.at(*unknown);
  json parts = sentencepiece_json(pieces, name);
  parts["post_processor"] = processor(keys, vocabulary, /*adds_bos=*/true, nullptr);
  return parts;
}

// ---- Phi-3

// Files do not say which tokens take the white space behind them: llama.cpp knows it by the model's name.
bool is_phi3(const GgufFile& file) {
  const json said = file.metadata().value("general.name", json());
  std::string name = said.is_string() ? said.get<std::string>() : "";
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name.find("phi-3") != name.npos || name.find("phi3") != name.npos;
}

void strip_behind(json& added) {
  for (json& token : added) token["rstrip"] = strips_in_phi3(token["content"].get<std::string>());
}

}  // namespace

bool strips_in_phi3(const std::string& token) { return token != "<unk>" && token != "<s>" && token != "<|endoftext|>"; }

json gguf_tokenizer_json(const GgufFile& file) {
  const GgufKeys keys(file);
  const std::string kind = keys.text("model");
  keys.check(kind == "gpt2" || kind == "llama", "model", ": ", printable(kind),
             " is not supported; gpt2 and llama are");
  const GgufVocabulary vocabulary(keys);
  json all = kind == "gpt2" ? byte_level_bpe(keys, vocabulary)
                            : sentencepiece_bpe(keys, vocabulary, file.name() + ": " + kGgufTokenizer + "tokens");
  if (is_phi3(file)) strip_behind(all["added_tokens"]);
  return whole_json(all);
}

Tokenizer read_gguf_tokenizer(const GgufFile& file) {
  const GgufKeys keys(file);
  Tokenizer made = read_tokenizer_json(gguf_tokenizer_json(file), file.name());
  if (keys.text("model") == "llama")
    std::get<Bpe>(made.model).order_by_scores(read_scores(keys, keys.list("tokens").size()));
  const std::map<std::string, std::string> special = gguf_special_tokens(file);
  const auto token = [&](const char* key) -> std::optional<int> {
    const auto name = special.find(key);
    if (name == special.end() || !made.marks.contains(name->second)) return {};
    return made.marks.at(name->second);
  };
  if (!made.bos) made.bos = token("bos_token");
  made.eos = token("eos_token");
  return made;
}

std::map<std::string, std::string> gguf_special_tokens(const GgufFile& file) {
  const GgufKeys keys(file);
  const GgufVocabulary vocabulary(keys);
  std::map<std::string, std::string> tokens;
  for (const auto& [name, key] :
       {std::pair{"bos_token", "bos_token_id"}, std::pair{"eos_token", "eos_token_id"},
        std::pair{"pad_token", "padding_token_id"}, std::pair{"unk_token", "unknown_token_id"}})
    if (const auto token = vocabulary.named(keys, key)) tokens[name] = *token;
  return tokens;
}

std::optional<std::string> gguf_chat_template(const GgufFile& file) {
  const json source = file.metadata().value("tokenizer.chat_template", json());
  if (!source.is_string()) return {};
  return source.get<std::string>();
}

void write_gguf_tokenizer(const std::filesystem::path& folder, const GgufFile& file, int max_length) {
  const json tokens = gguf_special_tokens(file);
  json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
              {"model_max_length", max_length},
              {"clean_up_tokenization_spaces", false}};
  config.update(tokens);
  write_text(folder / "tokenizer.json", gguf_tokenizer_json(file).dump() + "\n");
  write_text(folder / "special_tokens_map.json", tokens.dump(2) + "\n");
  write_text(folder / "tokenizer_config.json", config.dump(2) + "\n");
  const auto chat = gguf_chat_template(file);
  if (chat) write_text(folder / "chat_template.jinja", *chat);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
