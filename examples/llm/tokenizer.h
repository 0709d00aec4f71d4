// Tokenizers of byte pairs (Sennrich et al. 2016): a text as numbers and back, by the files of others.
//
// Patterns cut the text into words, which begin as characters or bytes. Then, of the neighbours that have a merge,
// those of the lowest order become one token, of equal ones the leftmost, until none has: O(n log n) for n bytes. A
// byte that is not UTF-8 is a word.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace llm {

struct Tokenizer {
  std::vector<std::string> pieces = {};           // the bytes of each token; none for a mark, such as the end of a text
  std::unordered_map<std::string, int> ids = {};  // of the pieces that a text may become
  std::optional<int> bos = {}, eos = {};          // marks; encode() begins with the first
  std::optional<int> bytes = {};  // words begin as characters; as bytes, from this token on, where it is no token
  bool adds_blank = false;        // encode() puts a blank before a text, which decode() leaves out
  bool takes_words = false;       // a word that is a token becomes it, whatever its merges
  std::unordered_map<std::uint64_t, std::pair<double, int>> merges = {};  // of two tokens: the order and the one made
  std::vector<std::shared_ptr<void>> patterns = {};                       // each cuts what those before have cut

  int size() const { return static_cast<int>(pieces.size()); }
  // decode(encode(text)) == text, for any bytes; no text becomes a mark. Throws seppo::FormatError if a pattern takes
  // more than 10 million steps, or 64 MiB, at one place.
  std::vector<int> encode(std::string_view text) const;
  // The text of tokens[first], tokens[first + 1], ..., behind those before. Throws seppo::IndexError for no token.
  std::string decode(std::span<const int> tokens, std::size_t first = 0) const;

  // False if there is such a merge already, or no token for one of the two pieces or for both together.
  bool add_merge(const std::string& left, const std::string& right, double order);
  // PCRE2's syntax, with Unicode's classes. Matches, if not empty, and what is between are words. Throws
  // seppo::FormatError, "NAME: the pattern ...".
  void add_pattern(const std::string& pattern, std::string_view name);
};

// The pattern of GPT-2's words, and its alphabet: the character that stands for each of the 256 bytes.
extern const char* const kGpt2Words;
std::vector<std::string> gpt2_alphabet();

// All throw seppo::FormatError naming file, place and rule where something is not as here, or two tokens are equal, and
// for files of more than 64 MiB; seppo::FileError if one cannot be read.

// SentencePiece's BPE (Kudo and Richardson 2018) as llama2.c stores it, tokenizer.bin. Little-endian: int32, the bytes
// of the longest token, at most 1024; for each token float32 score, int32 number of bytes, and these. Tokens 0, 1, 2
// are marks: unknown, BOS, EOS; 3 to 258 the bytes "<0x00>" to "<0xFF>". BOS and a blank come before the text, words
// begin as characters; any two tokens merge that make a token, first those that make the one of the highest score.
Tokenizer read_sentencepiece(const std::filesystem::path& file);

// Byte-level BPE, GPT-2's (Radford et al. 2019), as Hugging Face stores it: vocab.json, {"token": number, ...}, and
// merges.txt, below "#version: 0.2" a pair "left right" a line, the first to be merged first. Tokens are written in
// GPT-2's alphabet, a printable character for each of the 256 bytes, each a token; they are numbered from 0 without
// gaps. Words begin as bytes.
Tokenizer read_byte_level_bpe(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt);
// The same of what has been read, such as a tokenizer.json; without a pattern. `marks` are tokens of the vocabulary.
Tokenizer byte_level_bpe(const nlohmann::json& vocabulary, std::span<const std::string> merges,
                         std::span<const std::string> marks, std::string_view name);

}  // namespace llm
