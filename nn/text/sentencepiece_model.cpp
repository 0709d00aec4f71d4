// Reads the fields of the message that matter to encoding, and passes over the others.
#include "sentencepiece_model.h"

#include "added_in_folder.h"
#include "sentencepiece_json.h"
#include "tokenizer_json.h"
#include "tokenizer_json_writer.h"
#include "whole_file.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/utf8.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

// A field of a message: a number, or bytes.
struct MessageField {
  std::uint64_t id = 0, number = 0;
  std::string_view bytes = {};

  bool is_true() const { return number != 0; }
  float as_float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(number)); }
};

// The fields of a message, one after the other.
class Message {
 public:
  Message(std::string_view bytes, const std::string& name) : rest_(bytes), name_(name) {}

  std::optional<MessageField> next() {
    if (rest_.empty()) return {};
    const std::uint64_t key = read_varint();
    MessageField field{.id = key >> 3};
    switch (key & 7) {
      case 0:
        field.number = read_varint();
        break;
      case 1:
        field.number = read_fixed(8);
        break;
      case 2:
        field.bytes = read_bytes(read_varint());
        break;
      case 5:
        field.number = read_fixed(4);
        break;
      default:
        fail<FormatError>(name_, ": is no model of SentencePiece: a field of type ", key & 7);
    }
    return field;
  }

 private:
  std::string_view read_bytes(std::uint64_t count) {
    check<FormatError>(count <= rest_.size(), name_, ": is no model of SentencePiece, or is cut off");
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  std::uint64_t read_fixed(std::size_t size) {
    const std::string_view bytes = read_bytes(size);
    std::uint64_t number = 0;
    for (std::size_t i = size; i-- > 0;) number = number << 8 | static_cast<unsigned char>(bytes[i]);
    return number;
  }

  // Seven bits a byte, the lowest first; all bytes but the last have the high bit.
  std::uint64_t read_varint() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(read_bytes(1)[0]);
      number |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) return number;
    }
    fail<FormatError>(name_, ": is no model of SentencePiece: a number of more than ten bytes");
  }

  std::string_view rest_;
  const std::string& name_;
};

class ModelFileReader {
 public:
  explicit ModelFileReader(const std::filesystem::path& file) : name_(printable_path(file)), bytes_(read_whole(file)) {
    Message model(bytes_, name_);
    while (const auto field = model.next()) {
      if (field->id == 1) read_piece(field->bytes);
      if (field->id == 2) read_trainer(field->bytes);
      if (field->id == 3) read_normalizer(field->bytes);
    }
    check<FormatError>(!pieces_.texts.empty(), name_, ": is no model of SentencePiece: it has no tokens");
    check<FormatError>(pieces_.unknown.has_value(), name_, ": has no token for what is unknown");
  }

  json document(const SentencePieceOptions& options) const {
    SentencePieces pieces = pieces_;
    pieces.adds_space = pieces.adds_space && options.adds_space;
    pieces.adds_once = options.adds_once;
    json added = options.added;
    rename(pieces, added);
    const auto is_of_another = [&](const json& token) {
      const auto id = token.at("id").get<std::size_t>();
      return id < pieces.texts.size() && token.at("content") != pieces.texts[id];
    };
    added.erase(std::remove_if(added.begin(), added.end(), is_of_another), added.end());
    for (json& token : added) token["normalized"] = false;  // the mark before a text would become part of it
    json parts = sentencepiece_json(pieces, name_);
    parts["added_tokens"] = joined_added_tokens(parts["added_tokens"], added);
    return whole_json(parts);
  }

  // SentencePiece finds neither bytes nor unused pieces in texts, and takes the lowest score of the usual ones.
  void restrict(Unigram& model) const {
    bool has_usual = false;
    for (std::size_t id = 0; id < pieces_.texts.size(); ++id) {
      const PieceType type = pieces_.types[id];
      const bool is_hidden = type == PieceType::byte || type == PieceType::unused;
      if (is_hidden) model.pieces.remove(pieces_.texts[id], static_cast<int>(id));
      if (type != PieceType::normal) continue;
      model.lowest = has_usual ? std::min(model.lowest, pieces_.scores[id]) : pieces_.scores[id];
      has_usual = true;
    }
  }

  const std::vector<double>& scores() const { return pieces_.scores; }
  std::optional<int> bos() const { return token(bos_); }
  std::optional<int> eos() const { return token(eos_); }
  const std::string& name() const { return name_; }

 private:
  // Makers of models give names to pieces that were kept for that. A name that another piece keeps is passed over.
  static void rename(SentencePieces& pieces, const json& added) {
    std::map<std::size_t, std::string> names;
    for (const json& token : added) {
      const auto id = token.at("id").get<std::size_t>();
      const json& text = token.at("content");
      const bool is_other = id < pieces.texts.size() && text.is_string() && text != "" && text != pieces.texts[id];
      if (is_other) names[id] = text.get<std::string>();
    }
    for (const auto& [id, name] : names) pieces.ids.erase(pieces.texts[id]);
    for (const auto& [id, name] : names) {
      const bool is_free = pieces.ids.emplace(name, id).second;
      if (!is_free) pieces.ids.emplace(pieces.texts[id], id);
      if (!is_free) continue;
      pieces.texts[id] = name;
      pieces.types[id] = PieceType::user_defined;
    }
  }

  void read_piece(std::string_view bytes) {
    std::string text;
    float score = 0;
    std::uint64_t type = 1;
    Message piece(bytes, name_);
    while (const auto field = piece.next()) {
      if (field->id == 1) text = field->bytes;
      if (field->id == 2) score = field->as_float();
      if (field->id == 3) type = field->number;
    }
    const std::size_t id = pieces_.texts.size();
    const bool is_text = !text.empty() && utf8_length(text) == text.size();
    check<FormatError>(is_text, name_, ": token ", id, " is empty, or not UTF-8");
    check<FormatError>(std::isfinite(score), name_, ": the score of token ", id, " is not finite");
    check<FormatError>(type >= 1 && type <= 6, name_, ": token ", id, " is of the unknown type ", type);
    check<FormatError>(pieces_.ids.emplace(text, id).second, name_, ": '", printable(text), "' is there twice");
    pieces_.texts.push_back(text);
    pieces_.scores.push_back(static_cast<double>(score));
    pieces_.types.push_back(static_cast<PieceType>(type));
    if (pieces_.types.back() == PieceType::unknown) pieces_.unknown = id;
  }

  void read_trainer(std::string_view bytes) {
    std::uint64_t kind = 1;
    pieces_.has_bytes = false;
    Message trainer(bytes, name_);
    while (const auto field = trainer.next()) {
      if (field->id == 3) kind = field->number;
      if (field->id == 24) refuse_if(field->is_true(), "treat_whitespace_as_suffix");
      if (field->id == 35) pieces_.has_bytes = field->is_true();
      if (field->id == 41) bos_ = field->number;
      if (field->id == 42) eos_ = field->number;
    }
    check<FormatError>(kind == 1 || kind == 2, name_, ": model_type ", kind,
                       " is not supported; 1 (unigram) and 2 (BPE) are");
    pieces_.is_unigram = kind == 1;
  }

  void read_normalizer(std::string_view bytes) {
    pieces_.trims_spaces = true;
    Message normalizer(bytes, name_);
    while (const auto field = normalizer.next()) {
      if (field->id == 2) pieces_.charsmap = field->bytes;
      if (field->id == 3) pieces_.adds_space = field->is_true();
      if (field->id == 4) pieces_.trims_spaces = field->is_true();
      if (field->id == 5) refuse_if(!field->is_true(), "escape_whitespaces: false");
    }
  }

  void refuse_if(bool is_other, const char* option) const {
    check<FormatError>(!is_other, name_, ": ", option, " is not supported");
  }

  // -1, which is the largest number here, stands for none.
  std::optional<int> token(std::uint64_t id) const {
    if (id >= pieces_.texts.size()) return {};
    return static_cast<int>(id);
  }

  std::string name_, bytes_;
  SentencePieces pieces_ = {.is_unigram = true, .has_bytes = false, .trims_spaces = true};
  std::uint64_t bos_ = 1, eos_ = 2;
};

}  // namespace

json sentencepiece_model_json(const std::filesystem::path& file, const SentencePieceOptions& options) {
  return ModelFileReader(file).document(options);
}

Tokenizer read_sentencepiece_model(const std::filesystem::path& file, const SentencePieceOptions& options) {
  const ModelFileReader reader(file);
  Tokenizer made = read_tokenizer_json(reader.document(options), reader.name());
  if (Bpe* const bpe = std::get_if<Bpe>(&made.model)) bpe->order_by_scores(reader.scores());
  if (Unigram* const unigram = std::get_if<Unigram>(&made.model)) reader.restrict(*unigram);
  made.bos = reader.bos();
  made.eos = reader.eos();
  return made;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
