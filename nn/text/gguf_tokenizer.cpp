// llama.cpp's kinds of tokenizers, written as the pipelines that they stand for.
#include "gguf_tokenizer.h"

#include "tokenizer_json.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/utf8.h"
#include "../io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

const std::string kPrefix = "tokenizer.ggml.";
const std::string kBlank = "\u2581";  // stands for a space

// tokenizer.ggml.token_type
enum TokenType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// The patterns of the words of "llama-bpe" and "qwen2", which differ in how many digits a number has.
std::string words_of(const char* digits) {
  return std::string(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)") + digits +
         R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
}

json byte_level(bool has_words) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", has_words}};
}

json split(const std::string& words) {
  return {{"type", "Split"}, {"pattern", {{"Regex", words}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json sequence(const char* type, const char* parts, const std::vector<json>& all) {
  return {{"type", type}, {parts, all}};
}

class Reader {
 public:
  explicit Reader(const GgufFile& file) : file_(file) {}

  json read() {
    const std::string kind = text("model");
    const bool is_of_bytes = kind == "gpt2";
    check<FormatError>(is_of_bytes || kind == "llama", file_.name(), ": ", kPrefix, "model: ", printable(kind),
                       " is not supported; gpt2 and llama are");
    tokens_ = texts("tokens");
    types_ = list("token_type");
    check<FormatError>(types_.empty() || types_.size() == tokens_.size(), file_.name(), ": ", kPrefix,
                       "token_type: is not of as many tokens as tokenizer.ggml.tokens");
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      check<FormatError>(vocabulary_.emplace(tokens_[i], i).second, file_.name(), ": ", kPrefix, "tokens: '",
                         printable(tokens_[i]), "' is there twice");
    json all = is_of_bytes ? byte_level_bpe() : sentencepiece_bpe();
    all["version"] = "1.0";
    all["truncation"] = nullptr;
    all["padding"] = nullptr;
    all["added_tokens"] = added();
    return all;
  }

  // The token of a key such as "bos_token_id".
  std::optional<std::string> named(const char* key) {
    if (tokens_.empty()) tokens_ = texts("tokens");
    const json value = find(key);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= tokens_.size()) return {};
    return tokens_[value.get<std::size_t>()];
  }

  std::string text(const char* key) const {
    const json value = find(key);
    check<FormatError>(value.is_string(), file_.name(), ": ", kPrefix, key, " is missing, or no text");
    return value.get<std::string>();
  }

 private:
  json find(const char* key) const { return file_.metadata().value(kPrefix + key, json()); }

  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> found;
    for (const json& item : list(key)) {
      check<FormatError>(item.is_string(), file_.name(), ": ", kPrefix, key, ": ", printable(item.dump()),
                         " is no text");
      found.push_back(item.get<std::string>());
      const bool is_text = utf8_length(found.back()) == found.back().size();
      check<FormatError>(is_text, file_.name(), ": ", kPrefix, key, ": '", printable(found.back()), "' is not UTF-8");
    }
    check<FormatError>(!found.empty(), file_.name(), ": ", kPrefix, key, " is missing, or empty");
    return found;
  }
  std::vector<json> list(const char* key) const {
    const json value = find(key);
    check<FormatError>(value.is_null() || value.is_array(), file_.name(), ": ", kPrefix, key, " is no list");
    return {value.begin(), value.end()};
  }
  bool flag(const char* key, bool fallback) const {
    const json value = find(key);
    return value.is_boolean() ? value.get<bool>() : fallback;
  }
  int type_of(std::size_t token) const {
    if (types_.empty() || !types_[token].is_number_unsigned()) return kNormal;
    return types_[token].get<int>();
  }

  json added() const {
    json all = json::array();
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      const int type = type_of(id);
      const bool is_special = type == kControl || type == kUnknown;
      if (!is_special && type != kUserDefined) continue;
      all.push_back({{"id", id},
                     {"content", tokens_[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", is_special}});
    }
    return all;
  }

  json model(const json& merges, const json& unknown, bool has_bytes) const {
    return {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", unknown},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", has_bytes},
            {"byte_fallback", has_bytes},
            {"ignore_merges", false},
            {"vocab", vocabulary_},
            {"merges", merges}};
  }

  // What puts BOS before a text, if the file asks for that.
  json processor(bool adds_by_default, const json& otherwise) {
    const auto bos = named("bos_token_id");
    if (!flag("add_bos_token", adds_by_default) || !bos) return otherwise;
    const json mark{{"SpecialToken", {{"id", *bos}, {"type_id", 0}}}};
    const auto body = [](const char* name, int type) { return json{{"Sequence", {{"id", name}, {"type_id", type}}}}; };
    const json token{{"id", *bos}, {"ids", {vocabulary_.at(*bos)}}, {"tokens", {*bos}}};
    return {{"type", "TemplateProcessing"},
            {"single", {mark, body("A", 0)}},
            {"pair", {mark, body("A", 0), mark, body("B", 1)}},
            {"special_tokens", {{*bos, token}}}};
  }

  // ---- gpt2 --------------------------------------------------------------------------------------

  json byte_level_bpe() {
    const std::string pre = text("pre");
    const bool is_llama = pre == "llama-bpe";
    json made{{"normalizer", nullptr}, {"pre_tokenizer", pre_tokenizer(pre)}, {"decoder", byte_level(true)}};
    made["post_processor"] = processor(is_llama, byte_level(true));
    made["model"] = model(texts("merges"), nullptr, false);
    made["model"]["ignore_merges"] = is_llama;
    return made;
  }

  json pre_tokenizer(const std::string& pre) const {
    const auto steps = [](const json& first, bool has_words) {
      return sequence("Sequence", "pretokenizers", {first, byte_level(has_words)});
    };
    if (pre == "gpt-2") return byte_level(true);
    if (pre == "smollm") return steps({{"type", "Digits"}, {"individual_digits", true}}, true);
    if (pre == "llama-bpe") return steps(split(words_of(R"(\p{N}{1,3})")), false);
    if (pre == "qwen2") return steps(split(words_of(R"(\p{N})")), false);
    fail<FormatError>(file_.name(), ": ", kPrefix, "pre: ", printable(pre),
                      " is not supported; gpt-2, smollm, llama-bpe and qwen2 are");
  }

  // ---- llama -------------------------------------------------------------------------------------

  json sentencepiece_bpe() {
    const json blanks{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kBlank}};
    const json spaces{{"type", "Replace"}, {"pattern", {{"String", kBlank}}}, {"content", " "}};
    const json prepend{{"type", "Prepend"}, {"prepend", kBlank}};
    const json strip{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
    std::vector<json> normalizers{blanks};
    std::vector<json> decoders{spaces, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
    if (flag("add_space_prefix", true)) {
      normalizers.insert(normalizers.begin(), prepend);
      decoders.push_back(strip);
    }
    const auto unknown = named("unknown_token_id");
    json made{{"normalizer", sequence("Sequence", "normalizers", normalizers)}, {"pre_tokenizer", nullptr}};
    made["decoder"] = sequence("Sequence", "decoders", decoders);
    made["post_processor"] = processor(true, nullptr);
    made["model"] = model(merges_by_score(), unknown ? json(*unknown) : json(), true);
    return made;
  }

  // Each two tokens whose concatenation is a token, the best score first; of equal ones, in the order of their results.
  json merges_by_score() const {
    const std::vector<json> scores = list("scores");
    check<FormatError>(scores.size() == tokens_.size(), file_.name(), ": ", kPrefix,
                       "scores: is not of as many tokens as tokenizer.ggml.tokens");
    using Merge = std::tuple<double, std::size_t, std::size_t, std::size_t>;  // -score, result, left, right
    std::vector<Merge> merges;
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (type_of(id) != kNormal) continue;
      check<FormatError>(scores[id].is_number() && std::isfinite(scores[id].get<double>()), file_.name(), ": ", kPrefix,
                         "scores: ", scores[id].dump(), " is no number");
      check<FormatError>(tokens_[id].size() <= kMostBytes, file_.name(), ": ", kPrefix, "tokens: one has ",
                         tokens_[id].size(), " bytes, more than ", kMostBytes);
      for (const auto& [left, right] : splits(tokens_[id]))
        merges.emplace_back(-scores[id].get<double>(), id, left, right);
    }
    std::ranges::sort(merges);
    json all = json::array();
    for (const auto& [order, id, left, right] : merges) all.push_back({tokens_[left], tokens_[right]});
    return all;
  }

  // The two tokens of which a text may consist.
  std::vector<std::pair<std::size_t, std::size_t>> splits(const std::string& text) const {
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (std::size_t at = 1; at < text.size(); ++at) {
      const auto left = vocabulary_.find(text.substr(0, at));
      if (left == vocabulary_.end()) continue;
      const auto right = vocabulary_.find(text.substr(at));
      if (right != vocabulary_.end()) found.emplace_back(left->second, right->second);
    }
    return found;
  }

  static constexpr std::size_t kMostBytes = 1024;

  const GgufFile& file_;
  std::vector<std::string> tokens_;
  std::vector<json> types_;
  std::unordered_map<std::string, std::size_t> vocabulary_;
};

}  // namespace

json gguf_tokenizer_json(const GgufFile& file) { return Reader(file).read(); }

Tokenizer read_gguf_tokenizer(const GgufFile& file) {
  Tokenizer made = read_tokenizer_json(gguf_tokenizer_json(file), file.name());
  Reader reader(file);
  const auto token = [&](const char* key) -> std::optional<int> {
    const auto name = reader.named(key);
    if (!name || !made.marks.contains(*name)) return {};
    return made.marks.at(*name);
  };
  if (!made.bos) made.bos = token("bos_token_id");
  made.eos = token("eos_token_id");
  return made;
}

namespace {

constexpr const char* kChat = "tokenizer.chat_template";

std::map<std::string, std::string> special_tokens(const GgufFile& file) {
  Reader reader(file);
  std::map<std::string, std::string> tokens;
  for (const auto& [name, key] :
       {std::pair{"bos_token", "bos_token_id"}, std::pair{"eos_token", "eos_token_id"},
        std::pair{"pad_token", "padding_token_id"}, std::pair{"unk_token", "unknown_token_id"}})
    if (const auto token = reader.named(key)) tokens[name] = *token;
  return tokens;
}

}  // namespace

std::optional<ChatTemplate> gguf_chat_template(const GgufFile& file) {
  const json source = file.metadata().value(kChat, json());
  if (!source.is_string()) return {};
  return ChatTemplate(source.get<std::string>(), file.name() + ": " + kChat, special_tokens(file));
}

void write_gguf_tokenizer(const std::filesystem::path& folder, const GgufFile& file, int max_length) {
  const json tokens = special_tokens(file);
  json config{{"tokenizer_class", "PreTrainedTokenizerFast"},
              {"model_max_length", max_length},
              {"clean_up_tokenization_spaces", false}};
  config.update(tokens);
  write_text(folder / "tokenizer.json", gguf_tokenizer_json(file).dump() + "\n");
  write_text(folder / "special_tokens_map.json", tokens.dump(2) + "\n");
  write_text(folder / "tokenizer_config.json", config.dump(2) + "\n");
  const json chat = file.metadata().value(kChat, json());
  if (chat.is_string()) write_text(folder / "chat_template.jinja", chat.get<std::string>());
}

}  // namespace SEPPO_ABI
}  // namespace seppo
