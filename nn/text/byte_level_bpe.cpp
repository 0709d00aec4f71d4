// Translates tokens from GPT-2's alphabet to bytes, and reads merges line by line.
#include "byte_level_bpe.h"

#include "whole_file.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../../autograd/core/utf8.h"
#include "../io/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace seppo {
inline namespace SEPPO_ABI {

const char* const kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

constexpr const char* kEndOfText = "<|endoftext|>";
constexpr int kBytes = 256;

// UTF-8 of a code point below 0x800.
std::string utf8(int code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

}  // namespace

std::vector<std::string> gpt2_alphabet() {
  std::vector<std::string> characters;
  int next = kBytes;  // the code point of the next byte that has no printable character of its own
  for (int byte = 0; byte < kBytes; ++byte) {
    const bool is_printable = (byte >= '!' && byte <= '~') || (byte > 0xA0 && byte != 0xAD);
    characters.push_back(utf8(is_printable ? byte : next));
    if (!is_printable) ++next;
  }
  return characters;
}

namespace {

// From GPT-2's alphabet to bytes.
class Alphabet {
 public:
  explicit Alphabet(std::string_view name) : name_(name) {
    const std::vector<std::string> characters = gpt2_alphabet();
    for (std::size_t byte = 0; byte < characters.size(); ++byte) bytes_[characters[byte]] = static_cast<char>(byte);
  }

  std::string bytes_of(std::string_view token) const {
    std::string bytes;
    while (!token.empty()) {
      const std::size_t length = character_length(token);
      const auto found = bytes_.find(token.substr(0, length));
      check<FormatError>(found != bytes_.end(), name_, ": '", printable(token), "' in a token is not GPT-2's alphabet");
      bytes += found->second;
      token.remove_prefix(length);
    }
    return bytes;
  }

  void check_all_are_tokens(const Tokenizer& t) const {
    for (const auto& [shown, byte] : bytes_)
      check<FormatError>(t.ids.contains({byte}), name_, ": '", shown, "', which stands for a byte, is no token");
  }

 private:
  std::string_view name_;
  std::map<std::string, char, std::less<>> bytes_;
};

// Adds the tokens of the vocabulary but those that are among the added ones.
void add_vocabulary(Tokenizer& made, const nlohmann::json& vocabulary, std::span<const AddedToken> added,
                    const Alphabet& alphabet, std::string_view name) {
  std::set<std::string_view> added_texts;
  for (const AddedToken& token : added) added_texts.insert(token.text);
  const std::size_t size = vocabulary.size();
  made.pieces.resize(size);
  std::vector<bool> is_taken(size);
  for (const auto& [token, number] : vocabulary.items()) {
    const std::size_t id = number.is_number_unsigned() ? number.get<std::size_t>() : size;
    check<FormatError>(id < size && !is_taken[id], name, ": the token '", printable(token), "': its number, ",
                       printable(number.dump()), ", is another's, or not in 0..", size - 1);
    is_taken[id] = true;
    if (added_texts.contains(token)) continue;
    made.pieces[id] = alphabet.bytes_of(token);
    made.ids[made.pieces[id]] = static_cast<int>(id);
  }
}

void add_added(Tokenizer& made, std::span<const AddedToken> added) {
  for (const AddedToken& token : added) {
    if (token.is_special) {
      made.marks[token.text] = token.id;
    } else {
      made.pieces[static_cast<std::size_t>(token.id)] = token.text;
      made.added.add(token.text, token.id);
    }
  }
}

// Adds the merge of a line "left right". False if it is no such line, or if there is no such merge.
bool add_merge(Tokenizer& made, std::string_view line, double order, const Alphabet& alphabet) {
  const std::size_t blank = line.find(' ');
  const bool is_pair = blank != line.npos && blank > 0 && blank + 1 < line.size();
  if (!is_pair) return false;
  const std::string left = alphabet.bytes_of(line.substr(0, blank));
  return made.add_merge(left, alphabet.bytes_of(line.substr(blank + 1)), order);
}

// The lines of merges.txt, from the first pair to the last.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (!lines.empty() && lines[0].starts_with("#version")) lines.erase(lines.begin());
  return lines;
}

}  // namespace

Tokenizer byte_level_bpe(const nlohmann::json& vocabulary, std::span<const std::string> merges,
                         std::span<const AddedToken> added, bool all_bytes, std::string_view name) {
  check<FormatError>(vocabulary.is_object(), name, ": the vocabulary is no object");
  const Alphabet alphabet(name);
  Tokenizer made;
  add_vocabulary(made, vocabulary, added, alphabet, name);
  add_added(made, added);
  check<FormatError>(made.size() > 0, name, ": the vocabulary has no tokens");
  if (all_bytes) alphabet.check_all_are_tokens(made);
  for (std::size_t n = 0; n < merges.size(); ++n) {
    const bool is_added = add_merge(made, merges[n], static_cast<double>(n), alphabet);
    check<FormatError>(is_added, name, ": merge ", n + 1, ", '", printable(merges[n]),
                       "': comes twice, or is not of three tokens");
  }
  return made;
}

Tokenizer read_byte_level_bpe(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt) {
  const std::string vocab_name = printable_path(vocab_json);
  const std::string name = concat_text(vocab_name, ", ", printable_path(merges_txt));
  const std::vector<std::string> merges = lines_of(read_whole(merges_txt));
  const nlohmann::json vocabulary = parse_json(read_whole(vocab_json), vocab_name);
  Tokenizer made = byte_level_bpe(vocabulary, merges, {}, /*all_bytes=*/true, name);
  made.add_pattern(kGpt2Words, name);
  return made;
}

nlohmann::json byte_vocabulary() {
  nlohmann::json all;
  for (const std::string& character : gpt2_alphabet()) all[character] = all.size();
  all[kEndOfText] = all.size();
  return all;
}

Tokenizer byte_tokenizer() {
  const AddedToken end[] = {{kEndOfText, kBytes}};
  Tokenizer made = byte_level_bpe(byte_vocabulary(), {}, end, /*all_bytes=*/true, "bytes");
  made.bos = kBytes;
  made.eos = kBytes;
  return made;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
