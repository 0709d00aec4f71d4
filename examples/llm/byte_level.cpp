// Reads GPT-2's byte-level BPE.
#include "llm/tokenizer.h"
#include "llm/whole_file.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/utf8.h>
#include <seppo/nn/io/json.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace llm {

using seppo::character_length;
using seppo::check;
using seppo::FormatError;
using seppo::printable;
using seppo::printable_path;

const char* const kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::vector<std::string> gpt2_alphabet() {
  std::vector<std::string> characters;
  for (int byte = 0, next = 256; byte < 256; ++byte) {
    const bool is_shown = (byte >= '!' && byte <= '~') || (byte > 0xA0 && byte != 0xAD);
    const int code = is_shown ? byte : next++;
    const char lead = static_cast<char>(0xC0 | code >> 6), last = static_cast<char>(0x80 | (code & 0x3F));
    characters.push_back(code < 0x80 ? std::string{static_cast<char>(code)} : std::string{lead, last});
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
    for (std::size_t length; !token.empty(); token.remove_prefix(length)) {
      length = character_length(token);
      const auto found = bytes_.find(token.substr(0, length));
      check<FormatError>(found != bytes_.end(), name_, ": '", printable(token), "' in a token is not GPT-2's alphabet");
      bytes += found->second;
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

void add_tokens(Tokenizer& made, const nlohmann::json& vocabulary, std::span<const AddedToken> added,
                const Alphabet& alphabet, std::string_view name) {
  std::set<std::string_view> added_texts;
  for (const AddedToken& token : added) added_texts.insert(token.text);
  made.pieces.resize(vocabulary.size());
  std::vector<bool> taken(vocabulary.size());
  for (const auto& [token, number] : vocabulary.items()) {
    const std::size_t id = number.is_number_unsigned() ? number.get<std::size_t>() : taken.size();
    check<FormatError>(id < taken.size() && !taken[id], name, ": the token '", printable(token), "': its number, ",
                       printable(number.dump()), ", is another's, or not in 0..", taken.size() - 1);
    taken[id] = true;
    if (!added_texts.contains(token)) made.ids[made.pieces[id] = alphabet.bytes_of(token)] = static_cast<int>(id);
  }
  for (const AddedToken& token : added) {
    if (token.is_special) {
      made.marks[token.text] = token.id;
      continue;
    }
    made.pieces[static_cast<std::size_t>(token.id)] = token.text;
    made.added.add(token.text, token.id);
  }
}

// The lines of merges.txt, from the first pair to the last.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
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
  add_tokens(made, vocabulary, added, alphabet, name);
  check<FormatError>(made.size() > 0, name, ": the vocabulary has no tokens");
  if (all_bytes) alphabet.check_all_are_tokens(made);
  for (std::size_t n = 0; n < merges.size(); ++n) {
    const std::string_view line = merges[n];
    const std::size_t blank = std::min(line.find(' '), line.size());
    const bool is_pair = blank > 0 && blank + 1 < line.size();
    const auto left = line.substr(0, blank), right = line.substr(std::min(blank + 1, line.size()));
    check<FormatError>(
        is_pair && made.add_merge(alphabet.bytes_of(left), alphabet.bytes_of(right), static_cast<double>(n)), name,
        ": merge ", n + 1, ", '", printable(line), "': comes twice, or is not of three tokens");
  }
  return made;
}

Tokenizer read_byte_level_bpe(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt) {
  const std::string vocab_name = printable_path(vocab_json);
  const std::string name = seppo::concat_text(vocab_name, ", ", printable_path(merges_txt));
  const std::vector<std::string> merges = lines_of(read_whole(merges_txt));
  const nlohmann::json vocabulary = seppo::parse_json(read_whole(vocab_json), vocab_name);
  Tokenizer made = byte_level_bpe(vocabulary, merges, {}, /*all_bytes=*/true, name);
  made.add_pattern(kGpt2Words, name);
  return made;
}

}  // namespace llm
