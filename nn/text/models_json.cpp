// Reads the model of a tokenizer.json: its vocabulary, merges and options.
#include "tokenizer_json_parts.h"

#include "alphabet.h"

#include "../../autograd/core/utf8.h"
#include "../io/json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

using Kind = json::value_t;
using Texts = std::vector<std::string>;

constexpr std::size_t kMostGaps = 1 << 16;          // ids without a token
constexpr std::size_t kMostOfToken = 1024;          // bytes of one that is looked for byte by byte
constexpr std::size_t kMostOfTokens = 8 << 20;      // and of all of them
constexpr std::size_t kMostCharacters = 1'000'000;  // of a word of WordPiece

class ModelReader {
 public:
  ModelReader(const JsonFields& fields, const json& model, std::span<const AddedToken> added, bool is_of_bytes)
      : fields_(fields), model_(model), is_of_bytes_(is_of_bytes) {
    for (const AddedToken& token : added)
      if (token.is_special && character_length(token.text) != token.text.size()) special_.insert(token.text);
    const json dropout = model.value("dropout", json());
    const bool is_unset = dropout.is_null() || dropout == 0;
    if (!is_unset) fields.refuse("'dropout': ", printable_json(dropout), " is not supported");
  }

  Texts read(Tokenizer& made) {
    const std::string type = model_type(fields_, model_);
    if (type == "Unigram") {
      read_scores();
      made.model = read_unigram();
      return std::move(texts_);
    }
    read_vocabulary();
    if (type == "BPE") {
      made.model = read_bpe();
    } else if (type == "WordPiece") {
      made.model = read_word_piece();
    } else if (type == "WordLevel") {
      made.model = read_word_level();
    } else {
      fields_.refuse("'model': ", printable(type), " is not supported");
    }
    return std::move(texts_);
  }

 private:
  // ---- vocabularies

  void read_vocabulary() {
    const json& vocabulary = fields_.part(model_, "vocab", Kind::object);
    if (vocabulary.empty()) fields_.refuse("the vocabulary has no tokens");
    const std::size_t most = vocabulary.size() + kMostGaps;
    for (const auto& [token, number] : vocabulary.items()) {
      const std::uint64_t id = number.is_number_unsigned() ? number.get<std::uint64_t>() : most;
      const bool is_free = id < most && (id >= texts_.size() || !is_taken_[id]);
      if (!is_free)
        fields_.refuse("the token '", printable(token), "': its number, ", printable_json(number),
                       ", is another's, or not in 0..", most - 1);
      if (id >= texts_.size()) {
        texts_.resize(id + 1);
        is_taken_.resize(id + 1);
      }
      texts_[id] = token;
      is_taken_[id] = true;
    }
  }

  void read_scores() {
    for (const json& pair : fields_.part(model_, "vocab", Kind::array)) {
      const bool is_pair = pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_number();
      if (!is_pair) fields_.refuse("'vocab': entry ", texts_.size(), " is no pair of a token and a score");
      texts_.push_back(pair[0].get<std::string>());
      scores_.push_back(pair[1].get<double>());
      if (!std::isfinite(scores_.back())) fields_.refuse("'vocab': the score ", texts_.size() - 1, " is not finite");
    }
    if (texts_.empty()) fields_.refuse("the vocabulary has no tokens");
  }

  bool is_token(const char* key) const {
    return std::ranges::find(texts_, fields_.text_or(model_, key, "")) != texts_.end();
  }

  // The token named by an option; none if it is null.
  std::optional<int> token_of(const char* key) const {
    const std::string name = fields_.text_or(model_, key, "");
    if (name.empty()) return {};
    const auto found = std::ranges::find(texts_, name);
    if (found == texts_.end()) fields_.refuse("'", key, "': '", printable(name), "' is no token");
    return static_cast<int>(found - texts_.begin());
  }

  // The tokens of all bytes, if the option says that unknown characters become them.
  std::optional<Bpe::Bytes> read_fallback() const {
    if (!fields_.flag_or(model_, "byte_fallback", false)) return {};
    TextIds ids;
    for (std::size_t id = 0; id < texts_.size(); ++id)
      if (texts_[id].size() == 6) ids.emplace(texts_[id], static_cast<int>(id));
    Bpe::Bytes bytes;
    for (int byte = 0; byte < 256; ++byte) {
      const auto found = ids.find(name_of_byte(byte));
      bytes[static_cast<std::size_t>(byte)] = found == ids.end() ? Bpe::kNone : found->second;
    }
    return bytes;
  }

  // What marks tokens that begin within a word or end it. Texts have it once for each character.
  std::string affix(const char* key, const char* missing) const {
    std::string text = fields_.text_or(model_, key, missing);
    if (text.size() > kMostOfToken) fields_.refuse("'", key, "' has ", text.size(), " bytes, more than ", kMostOfToken);
    return text;
  }

  // ---- models

  // As words are: bytes, or the text itself. None for what is not GPT-2's alphabet, which no word contains.
  std::optional<std::string> inner(const std::string& text) const {
    return is_of_bytes_ ? from_alphabet(text) : std::optional(text);
  }

  std::string inner_of_merge(const std::string& text) const {
    const auto own = inner(text);
    if (!own) fields_.refuse("'", printable(text), "' in a merge is not GPT-2's alphabet");
    return *own;
  }

  Bpe read_bpe() const {
    Bpe made;
    made.is_of_bytes = is_of_bytes_;
    if (is_token("unk_token")) made.unknown = token_of("unk_token");  // else what has no token is left out
    made.fuses_unknown = fields_.flag_or(model_, "fuse_unk", false);
    made.fallback = read_fallback();
    made.prefix = affix("continuing_subword_prefix", "");
    made.suffix = affix("end_of_word_suffix", "");
    made.takes_words = fields_.flag_or(model_, "ignore_merges", false);
    for (std::size_t id = 0; id < texts_.size(); ++id) {
      const bool is_looked_for = is_taken_[id] && !special_.contains(texts_[id]);
      if (!is_looked_for) continue;
      if (const auto own = inner(texts_[id])) made.ids.emplace(*own, static_cast<int>(id));
    }
    std::uint32_t order = 0;
    for (const json& merge : fields_.part(model_, "merges", Kind::array)) add_merge(made, merge, order++);
    return made;
  }

  void add_merge(Bpe& made, const json& merge, std::uint32_t order) const {
    const auto [left, right] = pair_of(merge, order);
    const bool is_special = special_.contains(left) || special_.contains(right) || special_.contains(left + right);
    if (is_special) return;  // texts are cut at them first
    if (!made.add_merge(inner_of_merge(left), inner_of_merge(right), order))
      fields_.refuse("merge ", order + 1, ", '", printable(left + " " + right), "': is not of three tokens");
  }

  // ["left", "right"] or "left right"
  std::pair<std::string, std::string> pair_of(const json& merge, std::uint32_t order) const {
    const bool is_pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (is_pair) return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    if (!merge.is_string()) fields_.refuse("merge ", order + 1, ": is no pair of tokens");
    const std::string line = merge.get<std::string>();
    const std::size_t blank = line.find(' ');
    if (blank == line.npos || blank == 0) fields_.refuse("merge ", order + 1, ", '", printable(line), "': is no pair");
    return {line.substr(0, blank), line.substr(blank + 1)};
  }

  // May this token be looked for? `bytes` counts those of all.
  bool is_looked_for(const std::string& text, std::size_t& bytes) const {
    bytes += text.size();
    if (text.size() > kMostOfToken) fields_.refuse("the token '", printable(text), "' has ", text.size(), " bytes");
    if (bytes > kMostOfTokens) fields_.refuse("the tokens have more than ", kMostOfTokens, " bytes");
    return !text.empty() && !special_.contains(text);
  }

  Unigram read_unigram() const {
    Unigram made;
    made.scores = scores_;
    made.lowest = std::ranges::min(scores_);
    made.fallback = read_fallback();
    if (!model_.value("unk_id", json()).is_null())
      made.unknown = static_cast<int>(fields_.number(model_, "unk_id", texts_.size() - 1));
    std::size_t bytes = 0;
    for (std::size_t id = texts_.size(); id-- > 0;)  // of two equal ones, the last counts
      if (is_looked_for(texts_[id], bytes)) made.pieces.add(texts_[id], static_cast<int>(id));
    return made;
  }

  WordPiece read_word_piece() const {
    WordPiece made;
    const std::string prefix = affix("continuing_subword_prefix", "##");
    const auto unknown = token_of("unk_token");
    if (!unknown) fields_.refuse("'unk_token' is missing, or no string");
    made.unknown = *unknown;
    made.most_characters = fields_.number(model_, "max_input_chars_per_word", kMostCharacters);
    std::size_t bytes = 0;
    for (std::size_t id = 0; id < texts_.size(); ++id) {
      const std::string& text = texts_[id];
      if (!is_looked_for(text, bytes)) continue;
      made.first.add(text, static_cast<int>(id));
      if (text.starts_with(prefix)) made.inner.add(text.substr(prefix.size()), static_cast<int>(id));
    }
    return made;
  }

  WordLevel read_word_level() const {
    WordLevel made;
    made.unknown = token_of("unk_token").value_or(WordLevel::kNone);
    for (std::size_t id = 0; id < texts_.size(); ++id)
      if (is_taken_[id] && !special_.contains(texts_[id])) made.ids.emplace(texts_[id], static_cast<int>(id));
    return made;
  }

  const JsonFields& fields_;
  const json& model_;
  bool is_of_bytes_;
  std::set<std::string> special_;  // but those that are one letter, which texts have
  Texts texts_;
  std::vector<bool> is_taken_;
  std::vector<double> scores_;
};

}  // namespace

std::string model_type(const JsonFields& fields, const json& model) {
  const std::string said = fields.text_or(model, "type", "");
  if (!said.empty()) return said;
  if (model.contains("merges")) return "BPE";
  if (model.contains("max_input_chars_per_word")) return "WordPiece";
  return model.value("vocab", json()).is_array() ? "Unigram" : "WordLevel";
}

std::vector<std::string> read_model(const JsonFields& fields, const json& model, std::span<const AddedToken> added,
                                    bool is_of_bytes, Tokenizer& made) {
  return ModelReader(fields, model, added, is_of_bytes).read(made);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
