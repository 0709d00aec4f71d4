// Reads the normalizer of a tokenizer.json.
#include "tokenizer_json_parts.h"

#include "../io/base64.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

using nlohmann::json;

namespace {

constexpr std::size_t kMostNormalizers = 64;

Normalizer read_bert(const JsonFields& fields, const json& n) {
  BertCleaning made;
  made.cleans = fields.flag_or(n, "clean_text", true);
  made.spaces_ideographs = fields.flag_or(n, "handle_chinese_chars", true);
  made.is_lower = fields.flag_or(n, "lowercase", true);
  made.strips_accents = fields.flag_or(n, "strip_accents", made.is_lower);
  return made;
}

Normalizer read_charsmap(const JsonFields& fields, const json& n) {
  const auto table = from_base64(fields.text(n, "precompiled_charsmap"));
  if (!table) fields.refuse("'precompiled_charsmap' is not base64");
  return MapCharacters{Charsmap(*table, fields.name)};
}

Normalizer read_one(const JsonFields& fields, const json& n, const std::string& type) {
  static const std::map<std::string, NormalForm> kForms{
      {"NFC", NormalForm::nfc}, {"NFD", NormalForm::nfd}, {"NFKC", NormalForm::nfkc}, {"NFKD", NormalForm::nfkd}};
  if (const auto form = kForms.find(type); form != kForms.end()) return Normalize{form->second};
  if (type == "Lowercase") return Lowercase{};
  if (type == "StripAccents") return StripAccents{};
  if (type == "Strip") return Strip{fields.flag_or(n, "strip_left", true), fields.flag_or(n, "strip_right", true)};
  if (type == "Prepend") return Prepend{fields.inserted(n, "prepend")};
  if (type == "Replace")
    return Replace{fields.pattern(fields.part(n, "pattern", json::value_t::object)), fields.inserted(n, "content")};
  if (type == "Nmt") return NmtSpaces{};
  if (type == "BertNormalizer") return read_bert(fields, n);
  if (type == "ByteLevel") return ToAlphabet{};
  if (type == "Precompiled") return read_charsmap(fields, n);
  fields.refuse("'normalizer': ", printable(type), " is not supported");
}

}  // namespace

void read_normalizers(const JsonFields& fields, const json& normalizer, std::vector<Normalizer>& made) {
  if (normalizer.is_null()) return;
  const std::string type = fields.text(normalizer, "type");
  if (type == "Sequence") {
    for (const json& inner : fields.part(normalizer, "normalizers", json::value_t::array))
      read_normalizers(fields, inner, made);
    return;
  }
  if (made.size() == kMostNormalizers) fields.refuse("'normalizer': there are more than ", kMostNormalizers);
  made.push_back(read_one(fields, normalizer, type));
  if (needs_unicode_tables(made.back()) && !has_unicode_tables())
    fields.refuse("'normalizer': ", printable(type), " needs utf8proc, without which this seppo was built");
}

}  // namespace SEPPO_ABI
}  // namespace seppo
