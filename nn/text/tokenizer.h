// Byte-pair encoding (Sennrich et al. 2016) from other tools' files: from text to token ids and back.
//
//   const Tokenizer tokenizer = read_tokenizer("gpt2");  // tokenizer_folder.h
//   const std::vector<int> tokens = tokenizer.encode("A fox saw a crow.");
//   std::cout << tokenizer.decode(tokens);
//
// Patterns split the text into words, and these into characters or bytes. Then the pair of adjacent tokens whose merge
// comes first becomes one token, the leftmost of equal pairs, until no pair has a merge: O(n log n) for n bytes. A byte
// that is not UTF-8 is a word.
#pragma once

#include "pattern.h"
#include "text_trie.h"

#include "../../autograd/core/real.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

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
  // What becomes of two adjacent tokens; those of the lowest order merge first.
  struct Merge {
    double order;
    int result;
  };

  std::vector<std::string> pieces = {};           // the bytes of each token; none for a special token
  std::unordered_map<std::string, int> ids = {};  // of the pieces into which a text may be split
  std::map<std::string, int> marks = {};          // special tokens by name
  TextTrie added = {};                            // added tokens that are not special
  std::optional<int> bos = {};                    // the special token that begins a text, if the files name it
  std::optional<int> eos = {};                    // the one that ends it
  bool adds_bos = false;                          // encode() begins with BOS
  std::optional<int> bytes = {};                  // if set, words start as characters, and unknown ones as bytes,
                                                  // with ids from here on
  bool adds_blank = false;                        // encode() prepends a space, and decode() removes it
  bool takes_words = false;                       // a word that is a token becomes it, whatever its merges
  std::unordered_map<std::uint64_t, Merge> merges = {};  // by merge_key()
  std::vector<Step> steps = {};

  int size() const { return static_cast<int>(pieces.size()); }
  // decode(encode(text)) == text, for any bytes, unless a step drops pieces or a byte is no token, and is left out; no
  // text becomes a special token. Throws FormatError if patterns take too long (pattern.h).
  std::vector<int> encode(std::string_view text) const;
  // The text of tokens[first], tokens[first + 1], ... when it follows the tokens before. Throws IndexError for an id
  // that is no token.
  std::string decode(std::span<const int> tokens, std::size_t first = 0) const;

  // Makes the number of tokens that of a model, so that decode() takes all that the model may write: additional tokens
  // have no text. Throws FormatError, "NAME: ...", if some text has a token beyond the model's.
  void fit(int model_vocabulary, std::string_view name);

  // False if this merge exists already, or if there is no token for one of the two pieces or for both together.
  bool add_merge(const std::string& left, const std::string& right, double order);
  // Oniguruma's syntax. Matches, and the text between them, are words. Throws FormatError, "NAME: the pattern ...",
  // also for more than 64 patterns.
  void add_pattern(const std::string& pattern, std::string_view name, Keep keep = Keep::all);
};

// The key of the merge of two tokens.
inline std::uint64_t merge_key(int left, int right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
