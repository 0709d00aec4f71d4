// Untrusted tokenizer files: any that is accepted encodes and decodes all bytes; others are refused in one line. The
// first byte chooses the format, a NUL ends the file, and the text follows.
#include "fuzz/fuzz.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/text/byte_level_bpe.h>
#include <seppo/nn/text/sentencepiece.h>
#include <seppo/nn/text/tokenizer_json.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <functional>

namespace {

using fuzz::require;
using nlohmann::json;
using seppo::Tokenizer;

// A vocabulary of all bytes, in GPT-2's alphabet, and three more tokens.
json vocabulary() {
  json all;
  for (int byte = 0, next = 256; byte < 256; ++byte) {
    const bool is_shown = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    const int code = is_shown ? byte : next++;
    const auto character = [](int c) { return static_cast<char>(c); };
    const std::string shown = code < 0x80 ? std::string{character(code)}
                                          : std::string{character(0xC0 | code >> 6), character(0x80 | (code & 63))};
    all[shown] = all.size();
  }
  for (const char* token : {"ab", "aba", "Ġa"}) all[token] = all.size();
  return all;
}

json document() {
  return {{"pre_tokenizer", {{"type", "ByteLevel"}}},
          {"model", {{"vocab", vocabulary()}, {"merges", {"a b", "ab a", "Ġ a"}}}}};
}

// The beginning that every tokenizer.bin has in common.
std::string marks_and_bytes() {
  std::string file("\x40\0\0\0", 4);
  const auto add = [&](const std::string& piece) {
    file += std::string("\0\0\0\0", 4) + static_cast<char>(piece.size()) + std::string("\0\0\0", 3) + piece;
  };
  for (const char* mark : {"<unk>", "<s>", "</s>"}) add(mark);
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    add({'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'});
  }
  return file;
}

bool changes_text(const seppo::PreTokenizer& step) {
  const seppo::ByteLevel* const level = std::get_if<seppo::ByteLevel>(&step);
  const seppo::SplitText* const split = std::get_if<seppo::SplitText>(&step);
  return !(level && !level->adds_space) && !(split && split->matches != seppo::Matches::removed);
}

// Does it have a token for each byte, and nothing that changes texts or drops parts of them?
bool keeps_all(const Tokenizer& t) {
  const seppo::Bpe* const bpe = std::get_if<seppo::Bpe>(&t.model);
  const bool is_plain = bpe && t.added.empty() && t.added_normalized.empty() && t.behind.empty();
  if (!is_plain || !bpe->prefix.empty() || !bpe->suffix.empty()) return false;
  if (!bpe->is_of_bytes) return t.normalizers.size() == 1 && bpe->fallback && !t.decoder.of_text.empty();
  for (int byte = 0; byte < 256; ++byte)
    if (!bpe->ids.contains(std::string(1, static_cast<char>(byte)))) return false;
  const bool is_decoded =
      t.decoder.of_tokens.size() <= 1 && t.decoder.of_text.empty() && !t.decoder.sees_first() && !t.decoder.sees_last();
  return is_decoded && t.normalizers.empty() && std::ranges::none_of(t.steps, changes_text);
}

void check_tokenizer(const std::function<Tokenizer()>& read, std::string_view text) {
  std::optional<Tokenizer> made;
  if (fuzz::refuses<seppo::FormatError>([&] { made = read(); })) return;
  std::vector<int> tokens;
  if (fuzz::refuses<seppo::FormatError>([&] { tokens = made->encode(text); })) {
    require(!made->steps.empty() || !made->normalizers.empty(), "a text was refused, but not by a pattern");
    return;
  }
  if (!keeps_all(*made)) return;
  require(made->decode(tokens) == text, "decoded to another text");
  require(tokens == made->encode(text), "encoded in two ways");
  std::string streamed;
  for (std::size_t n = 0; n < tokens.size(); ++n) streamed += made->decode(std::span(tokens).first(n + 1), n);
  require(streamed == text, "decoded token by token to another text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Bytes bytes(std::string_view(reinterpret_cast<const char*>(data), size));
  static fuzz::MemoryFile file, other;
  static const json kDocument = document();
  static const std::string kPieces = marks_and_bytes(), kVocabulary = vocabulary().dump();
  const int choice = bytes.byte();
  const std::string_view rest = bytes.rest();
  const std::size_t end = std::min(choice % 5 < 2 ? rest.rfind('\0') : rest.find('\0'), rest.size());
  const std::string_view content = rest.substr(0, end);
  const std::string_view text = rest.substr(std::min(end + 1, rest.size())).substr(0, 64);
  switch (choice % 5) {
    case 0:
      check_tokenizer([&] { return seppo::read_sentencepiece(file.hold(content)); }, text);
      break;
    case 1:
      check_tokenizer([&] { return seppo::read_sentencepiece(file.hold(kPieces + std::string(content))); }, text);
      break;
    case 2:
      check_tokenizer([&] { return seppo::read_tokenizer_json(file.hold(content)); }, text);
      break;
    case 3: {  // a valid file with changes
      const json changes = json::parse(content, nullptr, false);
      if (changes.is_discarded()) break;
      json changed = kDocument;
      changed.merge_patch(changes);
      check_tokenizer([&] { return seppo::read_tokenizer_json(file.hold(changed.dump())); }, text);
      break;
    }
    default:
      check_tokenizer([&] { return seppo::read_byte_level_bpe(other.hold(kVocabulary), file.hold(content)); }, text);
  }
  return 0;
}
