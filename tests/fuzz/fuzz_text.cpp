// Untrusted text: walking and displaying UTF-8, vocabularies and tokenizers, expressions and their JSON file. The
// first byte chooses between them.
#include "addsub/data.h"
#include "app/words.h"
#include "charlm/text.h"
#include "fuzz/fuzz.h"
#include "translate/text.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/utf8.h>
#include <seppo/nn/text/vocabulary.h>

#include <nlohmann/json.hpp>

#include <optional>
#include <set>
#include <vector>

namespace {

using fuzz::require;
using nlohmann::json;

// ---- UTF-8 ----------------------------------------------------------------------------------------

std::string utf8_of(unsigned code) {
  const auto byte = [](unsigned value) { return static_cast<char>(value); };
  const auto tail = [&](int shift) { return byte(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), tail(0)};
  if (code < 0x10000) return {byte(0xE0 | code >> 12), tail(6), tail(0)};
  return {byte(0xF0 | code >> 18), tail(12), tail(6), tail(0)};
}

// Length of the first character by re-encoding: decode so many bytes, encode that code point, and expect them again.
std::size_t length_by_encoding(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, text.size()); ++length) {
    unsigned code = static_cast<unsigned char>(text[0]) & (length == 1 ? 0x7F : 0xFF >> (length + 1));
    for (const char c : text.substr(1, length - 1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3F);
    const bool is_character = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    if (is_character && text.starts_with(utf8_of(code))) return utf8_of(code).size();
  }
  return 0;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = length_by_encoding(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void walk(std::string_view text, std::size_t limit) {
  for (std::size_t at = 0; at < text.size(); ++at)
    require(seppo::character_length(text.substr(at)) == length_by_encoding(text.substr(at)), "another length");

  const std::string shown = seppo::printable(text, limit);
  require(fuzz::is_one_line(shown), "shown with control characters:", shown);
  require(shown.size() <= limit + 7, "shown at length:", shown);
  if (is_utf8(text) && fuzz::is_one_line(text) && text.size() <= limit)
    require(shown == text, "shown otherwise:", shown);

  std::string rest(text);
  std::erase_if(rest, [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
  std::string joined;
  for (const std::string_view piece : examples::split_blanks(text)) {
    require(!piece.empty(), "an empty piece between blanks");
    joined += piece;
  }
  require(joined == rest, "splitting at blanks lost text");
}

// ---- vocabularies and tokenizers ------------------------------------------------------------------

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines{""};
  for (const char c : text)
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  return lines;
}

void number_lines(std::string_view text) {
  const std::vector<std::string> tokens = lines_of(text);
  const std::set<std::string> distinct(tokens.begin(), tokens.end());
  std::optional<seppo::Vocabulary> vocabulary;
  const bool refused = fuzz::refuses<seppo::ArgumentError>([&] { vocabulary.emplace(tokens); });
  require(refused == (distinct.size() < tokens.size() || distinct.contains("")), "empty or repeated tokens");
  if (refused) return;
  for (int id = 0; id < vocabulary->size(); ++id) require(vocabulary->id(vocabulary->token(id)) == id, "another id");
  require(fuzz::refuses<seppo::IndexError>([&] { (void)vocabulary->token(vocabulary->size()); }), "an id too many");
}

// The vocabulary contains the characters of the first line; then the whole text is encoded.
void encode_characters(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  if (!is_utf8(first)) return;
  std::set<std::string> known;
  for (std::size_t at = 0, length; at < first.size(); at += length) {
    length = length_by_encoding(first.substr(at));
    known.emplace(first.substr(at, length));
  }
  const seppo::Vocabulary vocabulary(std::vector<std::string>(known.begin(), known.end()));
  std::vector<int> ids;
  if (fuzz::refuses<seppo::FormatError>([&] { ids = charlm::encode(vocabulary, text, "text"); })) {
    require(first.size() < text.size(), "what is known was refused");
    return;
  }
  std::string decoded;
  for (const int id : ids) decoded += vocabulary.token(id);
  require(decoded == text, "encoding and decoding changed the text");
}

void tokenize(std::string_view text, translate::Tokenizer::Kind kind, bool normalises) {
  const translate::Tokenizer tokenizer{.kind = kind, .normalises = normalises};
  const std::vector<std::string> tokens = tokenizer.split(text);
  const std::string joined = tokenizer.join(tokens);
  if (kind == translate::Tokenizer::Kind::characters)
    require(joined == tokenizer.prepare(text), "joined characters are another text");
  else
    require(translate::words_of(joined) == tokens, "joined words are others");

  const seppo::Vocabulary vocabulary = translate::make_vocabulary(std::vector<std::vector<std::string>>{tokens}, 1);
  const translate::Languages languages{tokenizer, vocabulary, vocabulary};
  const std::vector<int> ids = languages.encode(vocabulary, text);
  require(ids.size() == tokens.size() + 1 && ids.back() == translate::kEos, "one id for each token and the end");
  if (std::find(ids.begin(), ids.end(), translate::kUnknown) == ids.end())
    require(languages.decode(ids) == joined, "decoded to another text");

  if (!is_utf8(text)) return;
  const json saved = json::parse(languages.to_json().dump());
  require(translate::Languages::from_json(saved).to_json() == saved, "languages changed in their file");
}

// ---- addsub ---------------------------------------------------------------------------------------

void require_same(const addsub::Expression& a, const addsub::Expression& b) {
  require(a.index() == b.index() && a.arithmetic() == b.arithmetic(), "another expression:", b.arithmetic());
}

void express(std::string_view text) {
  addsub::Expression e;
  if (fuzz::refuses<seppo::FormatError, seppo::IndexError>([&] { e = addsub::parse_expression(text); })) return;
  require_same(e, addsub::parse_expression(e.arithmetic()));
  require_same(e, addsub::parse_expression(addsub::token_text(e.source())));
}

void read_expressions(std::string_view text) {
  static fuzz::MemoryFile file;
  addsub::Dataset data;
  if (fuzz::refuses<seppo::FormatError>([&] { data = addsub::read_dataset(file.hold(text)); })) return;
  require(data.source.size() == data.rows.size() && data.target.size() == data.rows.size(), "rows without tokens");
  for (std::size_t i = 0; i < data.rows.size(); ++i)
    require_same(data.rows[i], addsub::parse_expression(addsub::token_text(data.source[i])));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes bytes(std::string_view(reinterpret_cast<const char*>(data), size));
  using Kind = translate::Tokenizer::Kind;
  const int choice = bytes.byte();
  const std::string_view text = bytes.rest();
  switch (choice % 8) {
    case 0:
      walk(text, static_cast<std::size_t>(choice));
      break;
    case 1:
      number_lines(text);
      break;
    case 2:
      encode_characters(text);
      break;
    case 3:
    case 4:
      tokenize(text, choice & 16 ? Kind::words : Kind::characters, choice & 32);
      break;
    case 5:
      express(text);
      break;
    default:
      read_expressions(text);
  }
  return 0;
}
