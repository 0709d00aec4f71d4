// Reads tokenizer.json part by part, and puts the pipeline together.
#include "tokenizer_json.h"

#include "alphabet.h"
#include "tokenizer_json_parts.h"

#include "../io/json.h"
#include "../io/text_file.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

using Kind = json::value_t;

constexpr std::uint64_t kMostTokens = 1 << 30;
constexpr std::size_t kMostOfAddedToken = 1024;
constexpr std::size_t kMostAddedBytes = 2 << 20;
constexpr std::size_t kMostGaps = 1 << 16;  // ids without a token

class TokenizerJsonReader {
 public:
  TokenizerJsonReader(json all, std::string name) : fields_{std::move(name)}, all_(std::move(all)) {}

  Tokenizer read() {
    const json& model = fields_.part(all_, "model", Kind::object);
    read_normalizers(fields_, all_.value("normalizer", json()), made_.normalizers);
    made_.is_of_alphabet = std::ranges::any_of(made_.normalizers, is_alphabet);
    const bool has_bytes = read_pre_tokenizers(fields_, all_.value("pre_tokenizer", json()), made_);
    const bool is_bpe = model_type(fields_, model) == "BPE";
    is_of_bytes_ = is_bpe && (has_bytes || made_.is_of_alphabet);
    if (!is_of_bytes_) keep_alphabet();
    for (const json& token : all_.value("added_tokens", json::array()))
      if (fields_.text(token, "content") != "") added_.push_back(read_added_token(token));
    texts_ = read_model(fields_, model, added_, is_of_bytes_, made_);
    add_added();
    add_pieces();
    read_post_processor(fields_, all_.value("post_processor", json()), made_);
    cut_at_marks();
    return std::move(made_);
  }

 private:
  static bool is_alphabet(const Normalizer& normalizer) { return std::holds_alternative<ToAlphabet>(normalizer); }

  // Other models than BPE see words in the alphabet.
  void keep_alphabet() {
    made_.is_of_alphabet = false;
    for (PreTokenizer& step : made_.steps)
      if (ByteLevel* const level = std::get_if<ByteLevel>(&step)) level->is_written = true;
  }

  // ---- added tokens ------------------------------------------------------------------------------

  AddedToken read_added_token(const json& token) {
    AddedToken made{.text = fields_.text(token, "content"), .is_special = fields_.flag(token, "special")};
    made.strips_left = fields_.flag_or(token, "lstrip", false);
    made.strips_right = fields_.flag_or(token, "rstrip", false);
    made.is_word = fields_.flag_or(token, "single_word", false);
    made.is_normalized = fields_.flag_or(token, "normalized", !made.is_special);
    const std::size_t size = made.text.size();
    const auto shown = [&] { return concat_text("the added token '", printable(made.text), "'"); };
    if (size == 0 || size > kMostOfAddedToken)
      fields_.refuse(shown(), " has ", size, " bytes, not 1 to ", kMostOfAddedToken);
    const auto id = fields_.part(token, "id", Kind::number_unsigned).get<std::uint64_t>();
    if (id >= kMostTokens) fields_.refuse(shown(), ": its number, ", id, ", is not below ", kMostTokens);
    made.id = static_cast<int>(id);
    added_bytes_ += size;
    if (added_bytes_ > kMostAddedBytes) fields_.refuse("the added tokens have more than ", kMostAddedBytes, " bytes");
    return made;
  }

  void add_added() {
    std::stable_partition(added_.begin(), added_.end(), [](const AddedToken& token) { return token.is_special; });
    const std::size_t most = texts_.size() + added_.size() + kMostGaps;
    for (AddedToken& token : added_) {
      const auto id = static_cast<std::size_t>(token.id);
      const bool is_other = id < texts_.size() && !texts_[id].empty() && texts_[id] != token.text;
      if (is_other || id >= most)
        fields_.refuse("the added token '", printable(token.text), "': its number, ", id,
                       ", is another's, or not in 0..", most - 1);
      texts_.resize(std::max(texts_.size(), id + 1));
      texts_[id] = token.text;
      if (token.is_special) made_.marks[token.text] = token.id;
      if (!token.is_normalized) {
        made_.added.add(token);
        continue;
      }
      Matcher matcher(token.text.size());
      token.text = normalized(made_.normalizers, token.text, {}, matcher);
      made_.added_normalized.add(token);
      texts_[id] = token.text;  // it is written so
    }
  }

  // ---- from tokens to text -----------------------------------------------------------------------

  void add_pieces() {
    const json decoder = all_.value("decoder", json());
    if (!decoder.is_null()) {
      made_.decoder = read_decoder(fields_, decoder);
    } else if (is_of_bytes_) {
      made_.decoder.of_tokens.emplace_back(DecodeAlphabet{});
    } else {
      made_.decoder.of_tokens.emplace_back(DecodeSpaced{});
    }
    for (const std::string& text : texts_)  // of ids without a token, none
      made_.pieces.push_back(text.empty() ? "" : made_.decoder.of_token(text, {}));
    const bool is_normalized_to_alphabet = std::ranges::any_of(made_.normalizers, is_alphabet);
    const bool writes_bytes = std::ranges::any_of(
        made_.decoder.of_tokens, [](const DecodeStep& step) { return std::holds_alternative<DecodeAlphabet>(step); });
    for (const AddedToken& token : added_) {
      std::string& piece = made_.pieces[static_cast<std::size_t>(token.id)];
      if (token.is_special) {
        piece.clear();
      } else if (writes_bytes && !(token.is_normalized && is_normalized_to_alphabet)) {
        piece = token.text;
      }
    }
    if (made_.decoder.sees_first() || made_.decoder.sees_last()) made_.texts = std::move(texts_);
  }

  // ---- words of texts that are one word ----------------------------------------------------------

  // As in SentencePiece's models, spaces are marks, with which tokens begin: no merge crosses the beginning of one.
  void cut_at_marks() {
    const std::string mark = Metaspace{}.mark;
    const Bpe* const bpe = std::get_if<Bpe>(&made_.model);
    const auto keeps_all = [](const PreTokenizer& step) {
      const Metaspace* const marks = std::get_if<Metaspace>(&step);
      return marks && !marks->splits;
    };
    const bool can_be_cut = bpe && std::ranges::all_of(made_.steps, keeps_all) && !bpe->is_of_bytes &&
                            !bpe->takes_words && bpe->prefix.empty() && bpe->suffix.empty() && bpe->ids.contains(mark);
    if (!can_be_cut) return;
    const auto has_inner_mark = [&](const auto& token) {
      std::string_view rest = token.first;
      while (rest.starts_with(mark)) rest.remove_prefix(mark.size());
      return rest.find(mark) != rest.npos;
    };
    if (std::ranges::none_of(bpe->ids, has_inner_mark)) made_.add_step(CutAtMarks{mark}, fields_.name);
  }

  JsonFields fields_;
  json all_;
  Tokenizer made_;
  bool is_of_bytes_ = false;
  std::vector<AddedToken> added_;
  std::size_t added_bytes_ = 0;
  std::vector<std::string> texts_;  // of the tokens by id
};

}  // namespace

const json& JsonFields::part(const json& object, const char* key, Kind kind) const {
  const bool is_there = object.is_object() && object.contains(key) && object[key].type() == kind;
  if (!is_there) refuse("'", key, "' is missing, or no ", json(kind).type_name());
  return object[key];
}

std::string JsonFields::text(const json& object, const char* key) const { return part(object, key, Kind::string); }

std::string JsonFields::inserted(const json& object, const char* key) const {
  constexpr std::size_t kMostInserted = 1024;
  std::string made = text(object, key);
  if (made.size() > kMostInserted) refuse("'", key, "' has ", made.size(), " bytes, more than ", kMostInserted);
  return made;
}

bool JsonFields::flag(const json& object, const char* key) const {
  return part(object, key, Kind::boolean).get<bool>();
}

std::string JsonFields::text_or(const json& object, const char* key, const char* missing) const {
  const bool is_there = object.is_object() && object.contains(key) && !object[key].is_null();
  return is_there ? text(object, key) : missing;
}

bool JsonFields::flag_or(const json& object, const char* key, bool missing) const {
  const bool is_there = object.is_object() && object.contains(key) && !object[key].is_null();
  return is_there ? flag(object, key) : missing;
}

std::size_t JsonFields::number(const json& object, const char* key, std::size_t most) const {
  const auto value = part(object, key, Kind::number_unsigned).get<std::uint64_t>();
  if (value > most) refuse("'", key, "': ", value, " is more than ", most);
  return value;
}

Pattern JsonFields::pattern(const json& object) const {
  constexpr std::size_t kMostOfPatterns = 1 << 16;
  const bool is_text = object.is_object() && object.contains("String");
  const std::string made = is_text ? quoted_pattern(text(object, "String")) : text(object, "Regex");
  pattern_bytes += made.size();
  if (pattern_bytes > kMostOfPatterns) refuse("the patterns have more than ", kMostOfPatterns, " bytes");
  return {made, name};
}

Tokenizer read_tokenizer_json(const std::filesystem::path& file) {
  const std::string name = printable_path(file);
  return read_tokenizer_json(parse_json(read_text(file), name), name);
}

Tokenizer read_tokenizer_json(json content, std::string name) {
  return TokenizerJsonReader(std::move(content), std::move(name)).read();
}

}  // namespace SEPPO_ABI
}  // namespace seppo
