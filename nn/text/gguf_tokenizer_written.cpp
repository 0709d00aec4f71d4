// A tokenizer.json as one of llama.cpp's kinds of tokenizers, if it is that.
#include "gguf_tokenizer.h"

#include "gguf_words.h"
#include "sentencepiece_json.h"
#include "text_ids.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <ranges>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

// A part of a tokenizer.json without what has no influence on tokens, or is what it is if it is missing.
json essence(json part) {
  if (part.is_array())
    for (json& item : part) item = essence(item);
  if (!part.is_object()) return part;
  part.erase("trim_offsets");
  if (part.value("use_regex", false)) part.erase("use_regex");
  for (auto& [key, value] : part.items()) value = essence(value);
  return part;
}

// Which of kGgufWords has the steps of this tokenizer; nothing if none has.
std::string words_of(const json& tokenizer) {
  for (const char* pre : kGgufWords) {
    const bool has_steps = essence(tokenizer.value("pre_tokenizer", json())) == essence(gguf_pre_tokenizer(pre));
    if (has_steps && tokenizer.value("normalizer", json()) == gguf_normalizer(pre)) return pre;
  }
  return "";
}

// The name that says all of a byte-level BPE: words, and whether those that are tokens are merged nevertheless.
std::string name_of_words(const json& tokenizer, const std::string& name) {
  const json& model = tokenizer["model"];
  const auto is_set = [&](const char* key) { return !model.value(key, json()).is_null() && model[key] != ""; };
  const bool takes_words = model.value("ignore_merges", json()) == true;
  std::string words = words_of(tokenizer);
  if (words == "llama-bpe" && !takes_words) words = "dbrx";
  const bool is_known = !words.empty() && takes_words == (words == "llama-bpe") &&
                        !is_set("continuing_subword_prefix") && !is_set("end_of_word_suffix");
  check<FormatError>(is_known, name,
                     ": is no byte-level BPE with words that GGUF files know: ", gguf_words_that_are_known());
  return words;
}

// "a b", which is also written as ["a", "b"].
std::string merge_text(const json& merge) {
  if (merge.is_string()) return merge.get<std::string>();
  return merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>();
}

// The texts and types of all tokens of a model.
struct NewTokens {
  explicit NewTokens(int vocabulary)
      : types(static_cast<std::size_t>(vocabulary), static_cast<std::int32_t>(PieceType::unused)) {
    for (int id = 0; id < vocabulary; ++id) texts.push_back("[unused " + std::to_string(id) + "]");
  }
  void set(const json& id, const std::string& text, PieceType type, const std::string& name) {
    const auto place = id.get<std::size_t>();
    check<FormatError>(place < texts.size(), name, ": token ", place, " is beyond the model's ", texts.size());
    texts[place] = text;
    types[place] = static_cast<std::int32_t>(type);
  }

  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
};

// Those that are tokens: readers pass over one without a text.
std::vector<json> added_tokens_of(const json& tokenizer) {
  std::vector<json> all;
  for (const json& added : tokenizer.value("added_tokens", json::array()))
    if (added.at("content") != "") all.push_back(added);
  return all;
}

NewTokens new_tokens(const json& tokenizer, int vocabulary, const std::string& name) {
  NewTokens tokens(vocabulary);
  for (const auto& [text, id] : tokenizer["model"]["vocab"].items()) tokens.set(id, text, PieceType::normal, name);
  for (const json& added : added_tokens_of(tokenizer)) {
    const PieceType type = added.value("special", json()) == true ? PieceType::control : PieceType::user_defined;
    tokens.set(added.at("id"), added.at("content").get<std::string>(), type, name);
  }
  return tokens;
}

// Whether white space at added tokens is as everywhere else, or as in Phi-3, whose name says it; or else is refused.
bool strips_as_phi3(const json& tokenizer, const std::string& name) {
  bool strips = false, is_like_phi3 = true;
  for (const json& added : added_tokens_of(tokenizer)) {
    const auto text = added.at("content").get<std::string>();
    for (const char* flag : {"lstrip", "single_word"})
      check<FormatError>(added.value(flag, json()) != true, name, ": a GGUF file cannot say '", flag,
                         "' of the token '", printable(text), "'");
    const bool strips_right = added.value("rstrip", json()) == true;
    strips = strips || strips_right;
    is_like_phi3 = is_like_phi3 && strips_right == strips_in_phi3(text);
  }
  check<FormatError>(!strips || is_like_phi3, name, ": a GGUF file cannot say which of its tokens have 'rstrip'");
  return strips;
}

std::vector<std::string> merge_texts(const json& merges) {
  std::vector<std::string> texts;
  for (const json& merge : merges) texts.push_back(merge_text(merge));
  return texts;
}

// ---- gpt2

// Of a merge that comes twice the last counts in a tokenizer.json, and the first in llama.cpp.
std::vector<std::string> last_of_equal(std::vector<std::string> merges) {
  std::set<std::string> seen;
  std::vector<std::string> kept;
  for (std::string& merge : std::views::reverse(merges))
    if (seen.insert(merge).second) kept.push_back(std::move(merge));
  std::ranges::reverse(kept);
  return kept;
}

void add_byte_level_bpe(GgufBuilder& file, const json& tokenizer, const NewTokens& tokens, const std::string& name) {
  file.add(kGgufTokenizer + "pre", name_of_words(tokenizer, name));
  file.add(kGgufTokenizer + "model", "gpt2");
  file.add(kGgufTokenizer + "tokens", tokens.texts);
  file.add(kGgufTokenizer + "token_type", tokens.types);
  file.add(kGgufTokenizer + "merges", last_of_equal(merge_texts(tokenizer["model"]["merges"])));
}

// ---- llama

// Scores by which the merges come in their order: the sooner, the better.
std::vector<double> scores_of(const NewTokens& tokens, const json& merges) {
  std::map<std::string, double> scores;
  for (const json& merge : merges) {
    const std::string text = merge_text(merge);
    const std::size_t blank = text.find(' ');
    scores.emplace(text.substr(0, blank) + text.substr(blank + 1), -static_cast<double>(scores.size()));
  }
  std::vector<double> all;
  for (const std::string& text : tokens.texts) {
    const auto found = scores.find(text);
    all.push_back(found == scores.end() ? -static_cast<double>(scores.size()) : found->second);
  }
  return all;
}

SentencePieces pieces_of(const json& model, const NewTokens& tokens) {
  SentencePieces pieces{.texts = tokens.texts, .scores = scores_of(tokens, model["merges"]), .adds_users = true};
  const std::string unknown = model.value("unk_token", json()).is_string() ? model["unk_token"].get<std::string>() : "";
  for (std::size_t id = 0; id < pieces.texts.size(); ++id) {
    const std::string& text = pieces.texts[id];
    pieces.ids.emplace(text, id);
    pieces.types.push_back(byte_named(text) ? PieceType::byte : static_cast<PieceType>(tokens.types[id]));
    if (text != unknown) continue;
    pieces.unknown = id;
    pieces.types.back() = PieceType::unknown;
  }
  return pieces;
}

// Nothing, or Gemma's step, which splits at spaces where none are left.
bool has_whole_texts(const json& tokenizer) {
  const json steps = tokenizer.value("pre_tokenizer", json());
  return steps.is_null() ||
         (steps.value("type", "") == "Split" && steps.value("pattern", json()) == json{{"String", " "}} &&
          steps.value("behavior", "") == "MergedWithPrevious");
}

// Whether a tokenizer is what becomes of these pieces.
bool is_of(const json& tokenizer, const SentencePieces& pieces, const std::string& name) {
  const json made = sentencepiece_json(pieces, name);
  const auto is_same = [&](const char* part) { return essence(tokenizer.value(part, json())) == essence(made[part]); };
  return is_same("normalizer") && is_same("decoder") && has_whole_texts(tokenizer) &&
         merge_texts(made["model"]["merges"]) == merge_texts(tokenizer["model"]["merges"]);
}

void add_pieces(GgufBuilder& file, const SentencePieces& pieces) {
  std::vector<std::int32_t> types;
  for (const PieceType type : pieces.types) types.push_back(static_cast<std::int32_t>(type));
  file.add(kGgufTokenizer + "model", "llama");
  file.add(kGgufTokenizer + "pre", "default");
  file.add(kGgufTokenizer + "tokens", pieces.texts);
  file.add(kGgufTokenizer + "token_type", types);
  file.add(kGgufTokenizer + "scores", std::vector<float>(pieces.scores.begin(), pieces.scores.end()));
  if (pieces.unknown) file.add(kGgufTokenizer + "unknown_token_id", static_cast<std::uint32_t>(*pieces.unknown));
  file.add(kGgufTokenizer + "add_space_prefix", pieces.adds_space);
}

void add_sentencepiece_bpe(GgufBuilder& file, const json& tokenizer, const NewTokens& tokens, const std::string& name) {
  SentencePieces pieces = pieces_of(tokenizer["model"], tokens);
  for (const bool adds_space : {true, false}) {
    pieces.adds_space = adds_space;
    if (is_of(tokenizer, pieces, name)) return add_pieces(file, pieces);
  }
  fail<FormatError>(name, ": is no BPE of SentencePiece, where any two tokens whose concatenation is a token merge");
}

// Further tokens that end what a model writes: those that readers do not know by their texts have two keys.
void add_ends(GgufBuilder& file, const NewTokens& tokens, std::span<const int> ends, const std::string& name) {
  std::vector<std::string> keys{"eom_token_id", "eot_token_id"};
  for (const int end : ends) {
    const auto id = static_cast<std::size_t>(end);
    if (id < tokens.texts.size() && gguf_ends_text(tokens.texts[id])) continue;
    check<FormatError>(!keys.empty(), name, ": a GGUF file cannot name token ", end, " as one more that ends a text");
    file.add(kGgufTokenizer + keys.back(), static_cast<std::uint32_t>(end));
    keys.pop_back();
  }
}

}  // namespace

void add_gguf_tokenizer(GgufBuilder& file, const json& tokenizer, const GgufTexts& texts, const std::string& name) {
  const json model = tokenizer.value("model", json::object());
  const bool is_bpe = model.is_object() && (model.value("type", json()).is_null() || model["type"] == "BPE") &&
                      model.contains("vocab") && model.contains("merges");
  check<FormatError>(is_bpe, name, ": is no BPE, of which alone GGUF files are written");
  const NewTokens tokens = new_tokens(tokenizer, texts.vocabulary, name);
  const auto add = model.value("byte_fallback", json()) == true ? add_sentencepiece_bpe : add_byte_level_bpe;
  add(file, tokenizer, tokens, name);
  if (texts.bos) file.add(kGgufTokenizer + "bos_token_id", static_cast<std::uint32_t>(*texts.bos));
  if (texts.eos) file.add(kGgufTokenizer + "eos_token_id", static_cast<std::uint32_t>(*texts.eos));
  add_ends(file, tokens, texts.ends, name);
  if (strips_as_phi3(tokenizer, name)) file.add("general.name", "Phi-3");
  file.add(kGgufTokenizer + "add_bos_token", texts.adds_bos);
  file.add(kGgufTokenizer + "add_eos_token", texts.adds_eos);
  if (texts.chat_template) file.add("tokenizer.chat_template", *texts.chat_template);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
