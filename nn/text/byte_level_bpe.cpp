// Translates tokens from GPT-2's alphabet to bytes, and reads merges line by line.
#include "byte_level_bpe.h"

#include "alphabet.h"
#include "whole_file.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../io/json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <set>

namespace seppo {
inline namespace SEPPO_ABI {

const char* const kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

constexpr const char* kEndOfText = "<|endoftext|>";

// The bytes that a token of a merge stands for.
std::string bytes_of(std::string_view token, std::string_view name) {
  const auto bytes = from_alphabet(token);
  check<FormatError>(bytes.has_value(), name, ": '", printable(token), "' in a merge is not GPT-2's alphabet");
  return *bytes;
}

void check_all_are_tokens(const Bpe& bpe, std::string_view name) {
  for (const std::string& character : gpt2_alphabet())
    check<FormatError>(bpe.ids.contains(*from_alphabet(character)), name, ": '", character,
                       "', which stands for a byte, is no token");
}

// Adds the tokens of the vocabulary but those that are among the added ones.
void add_vocabulary(Tokenizer& made, const nlohmann::json& vocabulary, std::span<const AddedToken> added,
                    std::string_view name) {
  TextIds& ids = std::get<Bpe>(made.model).ids;
  std::set<std::string_view> added_texts;
  for (const AddedToken& token : added) added_texts.insert(token.text);
  const std::size_t size = vocabulary.size();
  made.pieces.resize(size);
  std::vector<bool> is_taken(size);
  for (const auto& [token, number] : vocabulary.items()) {
    const std::size_t id = number.is_number_unsigned() ? number.get<std::size_t>() : size;
    check<FormatError>(id < size && !is_taken[id], name, ": the token '", printable(token), "': its number, ",
                       printable_json(number), ", is another's, or not in 0..", size - 1);
    is_taken[id] = true;
    if (added_texts.contains(token)) continue;
    const auto bytes = from_alphabet(token);
    made.pieces[id] = bytes.value_or(token);
    if (bytes) ids[*bytes] = static_cast<int>(id);
  }
}

void add_added(Tokenizer& made, std::span<const AddedToken> added) {
  for (const AddedToken& token : added) {
    made.added.add(token);
    if (token.is_special) {
      made.marks[token.text] = token.id;
    } else {
      made.pieces[static_cast<std::size_t>(token.id)] = token.text;
    }
  }
}

// Adds the merge of a line "left right". False if it is no such line, or if there is no such merge.
bool add_merge(Bpe& bpe, std::string_view line, std::uint32_t order, std::string_view name) {
  const std::size_t blank = line.find(' ');
  const bool is_pair = blank != line.npos && blank > 0 && blank + 1 < line.size();
  if (!is_pair) return false;
  return bpe.add_merge(bytes_of(line.substr(0, blank), name), bytes_of(line.substr(blank + 1), name), order);
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
                         std::span<const AddedToken> added, std::string_view name) {
  check<FormatError>(vocabulary.is_object(), name, ": the vocabulary is no object");
  Tokenizer made{.model = Bpe{.is_of_bytes = true}};
  Bpe& bpe = std::get<Bpe>(made.model);
  add_vocabulary(made, vocabulary, added, name);
  add_added(made, added);
  check<FormatError>(made.size() > 0, name, ": the vocabulary has no tokens");
  check_all_are_tokens(bpe, name);
  for (std::size_t n = 0; n < merges.size(); ++n) {
    const bool is_added = add_merge(bpe, merges[n], static_cast<std::uint32_t>(n), name);
    check<FormatError>(is_added, name, ": merge ", n + 1, ", '", printable(merges[n]), "': is not of three tokens");
  }
  return made;
}

Tokenizer read_byte_level_bpe(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt) {
  const std::string vocab_name = printable_path(vocab_json);
  const std::string name = concat_text(vocab_name, ", ", printable_path(merges_txt));
  const std::vector<std::string> merges = lines_of(read_whole(merges_txt));
  const nlohmann::json vocabulary = parse_json(read_whole(vocab_json), vocab_name);
  Tokenizer made = byte_level_bpe(vocabulary, merges, {}, name);
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
  const AddedToken end[] = {{kEndOfText, kByteValues}};
  Tokenizer made = byte_level_bpe(byte_vocabulary(), {}, end, "bytes");
  made.bos = kByteValues;
  made.eos = kByteValues;
  return made;
}

}  // namespace SEPPO_ABI
}  // namespace seppo
