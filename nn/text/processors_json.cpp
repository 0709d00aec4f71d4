// Reads the post_processor and the decoder of a tokenizer.json.
#include "tokenizer_json_parts.h"

#include "../../autograd/core/utf8.h"
#include "../io/json.h"

#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

using Kind = json::value_t;

constexpr std::size_t kMostMarks = 1024;  // that a processor adds

// ---- post_processor ------------------------------------------------------------------------------

// What a step puts around a text and what earlier steps put around it.
struct Around {
  std::vector<int> before = {}, behind = {};
};

class Processors {
 public:
  Processors(const JsonFields& fields, const Tokenizer& tokenizer) : fields_(fields), tokenizer_(tokenizer) {}

  Around all = {};

  void read(const json& processor) {
    const std::string type = fields_.text(processor, "type");
    if (type == "ByteLevel") return;  // changes offsets only
    if (type == "Sequence") {
      for (const json& inner : fields_.part(processor, "processors", Kind::array)) read(inner);
    } else if (type == "TemplateProcessing") {
      put_around(read_template(processor));
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      put_around({{pair_id(processor, "cls")}, {pair_id(processor, "sep")}});
    } else {
      fields_.refuse("'post_processor': ", printable(type), " is not supported");
    }
  }

 private:
  void put_around(const Around& outer) {
    all.before.insert(all.before.begin(), outer.before.begin(), outer.before.end());
    all.behind.insert(all.behind.end(), outer.behind.begin(), outer.behind.end());
    if (all.before.size() + all.behind.size() > kMostMarks)
      fields_.refuse("'post_processor': adds more than ", kMostMarks, " tokens");
  }

  Around read_template(const json& processor) const {
    Around made;
    bool has_text = false;
    for (const json& item : fields_.part(processor, "single", Kind::array)) {
      const bool is_text = item.is_object() && item.contains("Sequence");
      if (is_text && has_text) fields_.refuse("'post_processor': a template with the text twice is not supported");
      has_text = has_text || is_text;
      if (is_text) continue;
      const std::vector<int> ids = template_tokens(processor, fields_.part(item, "SpecialToken", Kind::object));
      std::vector<int>& side = has_text ? made.behind : made.before;
      side.insert(side.end(), ids.begin(), ids.end());
      if (side.size() > kMostMarks) fields_.refuse("'post_processor': adds more than ", kMostMarks, " tokens");
    }
    if (!has_text) fields_.refuse("'post_processor': a template without the text is not supported");
    return made;
  }

  // "special_tokens" has the ids; without it, the token's name says which it is.
  std::vector<int> template_tokens(const json& processor, const json& item) const {
    const std::string mark = fields_.text(item, "id");
    const json tokens = processor.value("special_tokens", json::object());
    const bool is_listed = tokens.is_object() && tokens.contains(mark);
    if (!is_listed) {
      const auto found = tokenizer_.marks.find(mark);
      if (found == tokenizer_.marks.end())
        fields_.refuse("'post_processor': '", printable(mark), "' is no special token");
      return {found->second};
    }
    std::vector<int> ids;
    for (const json& id : fields_.part(tokens[mark], "ids", Kind::array)) ids.push_back(checked(id, mark));
    return ids;
  }

  int pair_id(const json& processor, const char* key) const {
    const json& pair = fields_.part(processor, key, Kind::array);
    return checked(pair.size() == 2 ? pair[1] : json(), key);
  }

  int checked(const json& id, const std::string& mark) const {
    const auto size = static_cast<std::uint64_t>(tokenizer_.size());
    const bool is_token = id.is_number_unsigned() && id.get<std::uint64_t>() < size;
    if (!is_token) fields_.refuse("'post_processor': '", printable(mark), "': ", printable_json(id), " is no token");
    return id.get<int>();
  }

  const JsonFields& fields_;
  const Tokenizer& tokenizer_;
};

// ---- decoder -------------------------------------------------------------------------------------

class Decoders {
 public:
  explicit Decoders(const JsonFields& fields) : fields_(fields) {}

  TokenDecoder made = {};

  void read(const json& step) {
    const std::string type = fields_.text(step, "type");
    if (type == "Sequence") {
      for (const json& inner : fields_.part(step, "decoders", Kind::array)) read(inner);
    } else if (type == "Fuse") {
      is_fused_ = true;
    } else {
      add(read_one(step, type));
      is_fused_ = is_fused_ || type == "ByteLevel";
    }
  }

 private:
  void add(DecodeStep&& step) {
    constexpr std::size_t kMostSteps = 64;
    std::vector<DecodeStep>& steps = is_fused_ ? made.of_text : made.of_tokens;
    if (steps.size() == kMostSteps) fields_.refuse("'decoder': there are more than ", kMostSteps, " steps");
    steps.push_back(std::move(step));
  }

  DecodeStep read_one(const json& step, const std::string& type) const {
    if (type == "ByteLevel") return DecodeAlphabet{};
    if (type == "ByteFallback") return DecodeBytes{};
    if (type == "Replace")
      return DecodeReplace{fields_.pattern(fields_.part(step, "pattern", Kind::object)),
                           fields_.inserted(step, "content")};
    if (type == "Strip") return read_strip(step);
    if (type == "Metaspace") return read_metaspace(step);
    if (type == "WordPiece")
      return DecodeWordPiece{fields_.text(step, "prefix"), fields_.flag_or(step, "cleanup", true)};
    if (type == "BPEDecoder") return DecodeSuffix{fields_.text_or(step, "suffix", "</w>")};
    fields_.refuse("'decoder': ", printable(type), " is not supported");
  }

  DecodeStep read_strip(const json& step) const {
    const std::string character = fields_.text(step, "content");
    if (character.empty() || character_length(character) != character.size())
      fields_.refuse("'decoder': Strip: 'content' is no character");
    return DecodeStrip{character, fields_.number(step, "start", 1 << 20), fields_.number(step, "stop", 1 << 20),
                       is_fused_};
  }

  DecodeStep read_metaspace(const json& step) const {
    DecodeMetaspace metaspace;
    metaspace.mark = fields_.text_or(step, "replacement", metaspace.mark.c_str());
    const char* const usual = fields_.flag_or(step, "add_prefix_space", true) ? "always" : "never";
    metaspace.drops_first = fields_.text_or(step, "prepend_scheme", usual) != "never";
    return metaspace;
  }

  const JsonFields& fields_;
  bool is_fused_ = false;
};

}  // namespace

void read_post_processor(const JsonFields& fields, const json& processor, Tokenizer& made) {
  if (processor.is_null()) return;
  Processors reader(fields, made);
  reader.read(processor);
  made.before = std::move(reader.all.before);
  made.behind = std::move(reader.all.behind);
  if (!made.before.empty()) made.bos = made.before.front();
}

TokenDecoder read_decoder(const JsonFields& fields, const json& decoder) {
  Decoders reader(fields);
  reader.read(decoder);
  return std::move(reader.made);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
