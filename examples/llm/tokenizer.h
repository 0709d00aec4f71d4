// Byte-pair encoding (Sennrich et al. 2016) from other tools' files: from text to token ids and back.
//
// Patterns split the text into words, and these into characters or bytes. Then the pair of adjacent tokens whose merge
// comes first becomes one token, the leftmost of equal pairs, until no pair has a merge: O(n log n) for n bytes. A byte
// that is not UTF-8 is a word.
#pragma once

#include "llm/pattern.h"
#include "llm/text_trie.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace llm {

// A token that an added_tokens list has beside the vocabulary. A special one, such as EOS, is not written as text, and
// no text becomes it. Texts are cut at the others first: the longest of those that begin leftmost.
struct AddedToken {
  std::string text;
  int id = 0;
  bool is_special = true;
};

struct Tokenizer {
  // The patterns, each of which splits the pieces left by those before, and what is kept of its pieces.
  struct Step {
    Pattern pattern;
    Keep keep = Keep::all;
  };

  std::vector<std::string> pieces = {};           // the bytes of each token; none for a special token
  std::unordered_map<std::string, int> ids = {};  // of the pieces into which a text may be split
  std::map<std::string, int> marks = {};          // special tokens by name
  TextTrie added = {};                            // added tokens that are not special
  std::optional<int> bos = {}, eos = {};          // special tokens, if the files name them
  bool adds_bos = false;                          // encode() begins with BOS
  std::optional<int> bytes = {};  // if set, words start as characters, and unknown ones as bytes, with ids from here on
  bool adds_blank = false;        // encode() prepends a space to a text, and decode() removes it
  bool takes_words = false;       // a word that is a token becomes that token, whatever its merges
  std::unordered_map<std::uint64_t, std::pair<double, int>> merges = {};  // of two tokens: the order and the result
  std::vector<Step> steps = {};

  int size() const { return static_cast<int>(pieces.size()); }
  // decode(encode(text)) == text, for any bytes, unless a step drops pieces or a byte is no token, and is left out; no
  // text becomes a special token. Throws seppo::FormatError if patterns take too long (pattern.h).
  std::vector<int> encode(std::string_view text) const;
  // The text of tokens[first], tokens[first + 1], ... when it follows the tokens before. Throws seppo::IndexError for
  // an id that is no token.
  std::string decode(std::span<const int> tokens, std::size_t first = 0) const;

  // False if this merge exists already, or if there is no token for one of the two pieces or for both together.
  bool add_merge(const std::string& left, const std::string& right, double order);
  // Oniguruma's syntax. Matches, and the text between them, are words. Throws seppo::FormatError, "NAME: the pattern
  // ...", also for more than 64 patterns.
  void add_pattern(const std::string& pattern, std::string_view name, Keep keep = Keep::all);
};

// The key of the merge of two tokens.
inline std::uint64_t merge_key(int left, int right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

// The pattern of GPT-2's words, and its alphabet: the character that represents each of the 256 bytes.
extern const char* const kGpt2Words;
std::vector<std::string> gpt2_alphabet();

// All throw seppo::FormatError naming the file, the place and the rule if a file deviates from these formats, has two
// equal tokens, or is larger than 64 MiB; seppo::FileError if one cannot be read.

// SentencePiece's BPE (Kudo and Richardson 2018) as llama2.c stores it, tokenizer.bin. Little-endian: int32, the size
// of the longest token in bytes, at most 1024; for each token a float32 score, an int32 size and the bytes. Tokens 0,
// 1, 2 are the special tokens unknown, BOS, EOS; 3 to 258 are the bytes "<0x00>" to "<0xFF>". BOS and a space precede
// the text, and words are first split into characters. Any two tokens whose concatenation is a token can merge; the
// pair whose result has the highest score merges first.
Tokenizer read_sentencepiece(const std::filesystem::path& file);

// Byte-level BPE, GPT-2's (Radford et al. 2019), as Hugging Face stores it: vocab.json, {"token": id, ...}, and
// merges.txt, in which "#version: 0.2" is followed by one pair "left right" per line, in the order of merging; blank
// lines may follow. Tokens are written in GPT-2's alphabet, which has a printable character for each of the 256 bytes,
// and each of these is a token; ids count from 0 without gaps. Words are first split into bytes.
Tokenizer read_byte_level_bpe(const std::filesystem::path& vocab_json, const std::filesystem::path& merges_txt);
// The same from data already read, such as a tokenizer.json, without a pattern. `added` are tokens of the vocabulary.
// With `all_bytes`, each byte must be a token.
Tokenizer byte_level_bpe(const nlohmann::json& vocabulary, std::span<const std::string> merges,
                         std::span<const AddedToken> added, bool all_bytes, std::string_view name);

}  // namespace llm
