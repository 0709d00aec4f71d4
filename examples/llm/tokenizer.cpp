// Byte-pair encoding: the tokens of a word form a linked list, the pairs that can merge a heap. PCRE2 matches patterns.
#include "llm/tokenizer.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/data/text.h>
#include <seppo/nn/io/atomic_file.h>
#include <seppo/nn/io/json.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <queue>
#include <tuple>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace llm {

using seppo::character_length;
using seppo::check;
using seppo::File;
using seppo::FormatError;
using seppo::IndexError;
using seppo::printable;
using seppo::printable_path;

namespace {

std::uint64_t key_of(int left, int right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

void merge(const Tokenizer& t, std::vector<int>& tokens) {
  const std::size_t size = tokens.size();
  std::vector<std::size_t> next(size + 1), previous(size + 1);  // next is 0 for a token that was merged away
  std::iota(next.begin(), next.end(), 1);
  std::iota(previous.begin() + 1, previous.end(), 0);
  // The merge's order; the positions of both tokens, and of the one after them; the merged token.
  using Pair = std::tuple<double, std::size_t, std::size_t, std::size_t, int>;
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> pairs;
  const auto consider = [&](std::size_t left) {
    const std::size_t right = next[left];
    if (right >= size) return;
    const auto found = t.merges.find(key_of(tokens[left], tokens[right]));
    if (found != t.merges.end()) pairs.push({found->second.first, left, right, next[right], found->second.second});
  };
  for (std::size_t at = 0; at < size; ++at) consider(at);
  while (!pairs.empty()) {
    const auto [order, left, right, end, merged] = pairs.top();
    pairs.pop();
    if (next[left] != right || next[right] != end) continue;  // one of them has been merged since
    tokens[left] = merged;
    next[left] = end;
    next[right] = 0;
    previous[end] = left;
    if (left > 0) consider(previous[left]);
    consider(left);
  }
  std::size_t count = 0;
  for (std::size_t at = 0; at < size; at = next[at]) tokens[count++] = tokens[at];
  tokens.resize(count);
}

void encode_word(const Tokenizer& t, std::string_view word, std::vector<int>& tokens) {
  std::vector<int> parts;
  const bool is_token = t.takes_words && t.ids.contains(std::string(word));
  for (std::size_t length; !word.empty(); word.remove_prefix(length)) {
    length = is_token ? word.size() : t.bytes ? std::max<std::size_t>(1, character_length(word)) : 1;
    const auto found = t.ids.find(std::string(word.substr(0, length)));
    if (found != t.ids.end())
      parts.push_back(found->second);
    else
      for (const char c : word.substr(0, length)) parts.push_back(t.bytes.value() + static_cast<unsigned char>(c));
  }
  merge(t, parts);
  tokens.insert(tokens.end(), parts.begin(), parts.end());
}

void cut(const Tokenizer& t, std::string_view text, std::size_t pattern, std::vector<int>& tokens) {
  if (pattern == t.patterns.size()) return encode_word(t, text, tokens);
  const auto* const code = static_cast<pcre2_code*>(t.patterns[pattern].get());
  const std::shared_ptr<pcre2_match_data> match(pcre2_match_data_create_from_pattern(code, nullptr),
                                                pcre2_match_data_free);
  for (std::size_t at = 0, begin, end; at < text.size(); at = end) {
    const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.get(), nullptr);
    begin = found < 0 ? text.size() : pcre2_get_ovector_pointer(match.get())[0];
    end = found < 0 ? text.size() : pcre2_get_ovector_pointer(match.get())[1];
    check<FormatError>((found > 0 || found == PCRE2_ERROR_NOMATCH) && at <= begin && begin <= end && at < end,
                       "a pattern of the tokenizer fails with PCRE2's error ", found, " at '",
                       printable(text.substr(at)), "'");
    if (at < begin) cut(t, text.substr(at, begin - at), pattern + 1, tokens);
    if (begin < end) cut(t, text.substr(begin, end - begin), pattern + 1, tokens);
  }
}

std::string read_whole(const std::filesystem::path& path) {
  constexpr std::uint64_t kMost = 64 << 20;
  const File file(path, File::Open::reading);
  check<FormatError>(file.size() <= kMost, printable_path(path), ": has ", file.size(), " bytes, more than ", kMost);
  std::string all(file.size(), '\0');
  file.read_at(0, all.data(), all.size());
  return all;
}

}  // namespace

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

std::vector<int> Tokenizer::encode(std::string_view text) const {
  std::vector<int> tokens;
  if (bos) tokens.push_back(*bos);
  const std::string all = (adds_blank && !text.empty() ? " " : "") + std::string(text);
  const std::string_view view = all;
  for (std::size_t begin = 0, end = 0, length; begin < all.size(); begin = end) {
    while (end < all.size() && (length = character_length(view.substr(end))) > 0) end += length;
    if (begin < end)
      cut(*this, view.substr(begin, end - begin), 0, tokens);
    else
      encode_word(*this, view.substr(end++, 1), tokens);
  }
  return tokens;
}

std::string Tokenizer::decode(std::span<const int> tokens, std::size_t first) const {
  std::string text;
  for (std::size_t i = first; i < tokens.size(); ++i) {
    check<IndexError>(tokens[i] >= 0 && tokens[i] < size(), "decode: token ", tokens[i], " of ", size());
    const std::string& piece = pieces[static_cast<std::size_t>(tokens[i])];
    const bool drops_blank = adds_blank && (i == 0 || tokens[i - 1] == bos) && piece.starts_with(' ');
    text += piece.substr(drops_blank);
  }
  return text;
}

bool Tokenizer::add_merge(const std::string& left, const std::string& right, double order) {
  const auto a = ids.find(left), b = ids.find(right), both = ids.find(left + right), none = ids.end();
  return a != none && b != none && both != none &&
         merges.try_emplace(key_of(a->second, b->second), order, both->second).second;
}

void Tokenizer::add_pattern(const std::string& pattern, std::string_view name) {
  const std::string limited = "(*LIMIT_MATCH=10000000)(*LIMIT_HEAP=65536)" + pattern;
  int error = 0;
  PCRE2_SIZE at = 0;
  patterns.emplace_back(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(limited.data()), limited.size(),
                                      PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr),
                        [](void* code) { pcre2_code_free(static_cast<pcre2_code*>(code)); });
  std::array<unsigned char, 128> why{};
  pcre2_get_error_message(error, why.data(), why.size());
  check<FormatError>(patterns.back() != nullptr, name, ": the pattern '", printable(pattern),
                     "': ", reinterpret_cast<const char*>(why.data()));
}

Tokenizer read_sentencepiece(const std::filesystem::path& path) {
  constexpr int kBytes = 3, kPieces = kBytes + 256;
  const std::string file = read_whole(path), name = printable_path(path);
  std::size_t at = 0;
  const auto take = [&](int size) {
    check<FormatError>(static_cast<std::size_t>(size) <= file.size() - at, name, ": byte ", at, ": the end, but ", size,
                       " bytes are to come");
    at += static_cast<std::size_t>(size);
    return &file[at] - size;
  };
  const auto number = [&]<class T>(T value) { return std::memcpy(&value, take(sizeof value), sizeof value), value; };
  Tokenizer made{.bos = 1, .eos = 2, .bytes = kBytes, .adds_blank = true};
  std::vector<float> scores;
  bool has_inner_blanks = false;
  const int longest = std::min(number(int{}), 1024);
  while (at < file.size() || made.size() < kPieces) {
    const int id = made.size();
    const std::size_t begin = at;
    scores.push_back(number(float{}));
    const int size = number(int{});
    check<FormatError>(std::isfinite(scores.back()) && size > 0 && size <= longest, name, ": byte ", begin, ": token ",
                       id, ": has the score ", scores.back(), " and ", size, " bytes, of at most ", longest);
    std::string piece(take(size), static_cast<std::size_t>(size));
    if (id >= kPieces) {
      check<FormatError>(made.ids.emplace(piece, id).second, name, ": byte ", begin, ": token ", id, ": '",
                         printable(piece), "' is there twice");
      has_inner_blanks |= piece.find(' ', piece.find_first_not_of(' ')) != piece.npos;
    } else if (id >= kBytes) {
      const int byte = id - kBytes;
      const std::string expected{'<', '0', 'x', "0123456789ABCDEF"[byte >> 4], "0123456789ABCDEF"[byte & 15], '>'};
      check<FormatError>(piece == expected, name, ": byte ", begin, ": token ", id, ": is not the byte ", expected);
      piece = static_cast<char>(byte);
    }
    made.pieces.push_back(id < kBytes ? "" : piece);
  }
  for (std::size_t id = kPieces; id < scores.size(); ++id)
    for (std::size_t cut = 1; cut < made.pieces[id].size(); ++cut)
      made.add_merge(made.pieces[id].substr(0, cut), made.pieces[id].substr(cut), -double{scores[id]});
  if (!has_inner_blanks) made.add_pattern(" *+[^ ]*+", name);  // the same tokens in less time and memory
  return made;
}

Tokenizer byte_level_bpe(const nlohmann::json& vocabulary, std::span<const std::string> merges,
                         std::span<const std::string> marks, std::string_view name) {
  const std::vector<std::string> characters = gpt2_alphabet();
  std::map<std::string, char, std::less<>> alphabet;
  for (std::size_t byte = 0; byte < characters.size(); ++byte) alphabet[characters[byte]] = static_cast<char>(byte);
  const auto bytes_of = [&](std::string_view token) {
    std::string bytes;
    for (std::size_t length; !token.empty(); token.remove_prefix(length)) {
      length = character_length(token);
      const auto found = alphabet.find(token.substr(0, length));
      check<FormatError>(found != alphabet.end(), name, ": '", printable(token),
                         "' in a token is not GPT-2's alphabet");
      bytes += found->second;
    }
    return bytes;
  };
  check<FormatError>(vocabulary.is_object(), name, ": the vocabulary is no object");
  Tokenizer made;
  made.pieces.resize(vocabulary.size());
  std::vector<bool> taken(vocabulary.size());
  for (const auto& [token, number] : vocabulary.items()) {
    const std::size_t id = number.is_number_unsigned() ? number.get<std::size_t>() : taken.size();
    check<FormatError>(id < taken.size() && !taken[id], name, ": the token '", printable(token), "': its number, ",
                       printable(number.dump()), ", is another's, or not in 0..", taken.size() - 1);
    taken[id] = true;
    if (std::ranges::find(marks, token) == marks.end())
      made.ids[made.pieces[id] = bytes_of(token)] = static_cast<int>(id);
  }
  for (const auto& [shown, byte] : alphabet)
    check<FormatError>(made.ids.contains({byte}), name, ": '", shown, "', which stands for a byte, is no token");
  for (std::size_t n = 0; n < merges.size(); ++n) {
    const std::string_view line = merges[n];
    const std::size_t blank = std::min(line.find(' '), line.size());
    const bool is_pair = blank > 0 && blank + 1 < line.size();
    check<FormatError>(is_pair && made.add_merge(bytes_of(line.substr(0, blank)), bytes_of(line.substr(blank + 1)),
                                                 static_cast<double>(n)),
                       name, ": merge ", n + 1, ", '", printable(line), "': comes twice, or is not of three tokens");
  }
  return made;
}

Tokenizer read_byte_level_bpe(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt) {
  std::vector<std::string> merges;
  const std::string text = read_whole(merges_txt), vocab_name = printable_path(vocab_json);
  const std::string name = seppo::concat_text(vocab_name, ", ", printable_path(merges_txt));
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    merges.push_back(text.substr(begin, end - begin));
  }
  if (!merges.empty() && merges[0].starts_with("#version")) merges.erase(merges.begin());
  Tokenizer made = byte_level_bpe(seppo::parse_json(read_whole(vocab_json), vocab_name), merges, {}, name);
  made.add_pattern(kGpt2Words, name);
  return made;
}

}  // namespace llm
