// Other tools' tokenizers: from text to token ids and back.
//
//   const Tokenizer tokenizer = read_tokenizer("gpt2");  // tokenizer_folder.h
//   const std::vector<int> tokens = tokenizer.encode("A fox saw a crow.");
//   std::cout << tokenizer.decode(tokens);
//
// A tokenizer is a pipeline, as in Hugging Face's tokenizer.json: a text is cut at added tokens (added_tokens.h),
// normalized (normalizers.h) and cut into words (pre_tokenizers.h), each of which a model makes tokens of: BPE (bpe.h),
// unigram (unigram.h) or WordPiece (word_piece.h). Tokens may precede and follow those of the text. A byte that is not
// UTF-8 is a word.
#pragma once

#include "added_tokens.h"
#include "bpe.h"
#include "decoders.h"
#include "normalizers.h"
#include "pre_tokenizers.h"
#include "unigram.h"
#include "word_piece.h"

#include "../../autograd/core/real.h"

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

// What becomes of a text that spells a special token: the tokens of its letters, or that token.
enum class SpecialText { letters, tokens };

struct Tokenizer {
  // ---- from text to tokens
  AddedTokens added = {};             // looked for in texts
  AddedTokens added_normalized = {};  // looked for in normalized texts
  std::vector<Normalizer> normalizers = {};
  std::vector<PreTokenizer> steps = {};
  bool is_of_alphabet = false;  // words are written in GPT-2's alphabet, and become bytes again for the model
  std::variant<Bpe, Unigram, WordPiece, WordLevel> model = Bpe{};
  std::vector<int> before = {}, behind = {};  // the tokens of each text

  // ---- from tokens to text
  std::vector<std::string> pieces = {};  // the text of each token that is neither first nor last; none if it is special
  std::vector<std::string> texts = {};   // as the vocabulary has them, if the place of a token matters
  TokenDecoder decoder = {};

  std::map<std::string, int> marks = {};  // special tokens by name
  std::optional<int> bos = {};            // the special token that begins a text, if the files name it
  std::optional<int> eos = {};            // the one that ends it

  int size() const { return static_cast<int>(pieces.size()); }
  // Do texts begin with BOS?
  bool adds_bos() const { return bos && !before.empty() && before.front() == *bos; }

  // For byte-level tokenizers without normalizers, decode(encode(text)) == text, for any bytes, unless a step drops
  // pieces or a byte is no token: it is left out, and counted in `left_out`. Throws FormatError if patterns take too
  // long (pattern.h), or normalizers too much memory.
  std::vector<int> encode(std::string_view text, SpecialText special = SpecialText::letters,
                          std::size_t* left_out = nullptr) const;
  // The text of tokens[first], tokens[first + 1], ... when it follows the tokens before. Special tokens have none.
  // Throws IndexError for an id that is no token.
  std::string decode(std::span<const int> tokens, std::size_t first = 0) const;

  // The token of this text, added or not.
  std::optional<int> id(std::string_view text) const;

  // Makes the number of tokens that of a model, so that decode() takes all that the model may write: additional tokens
  // have no text. Added tokens beyond the model's are forgotten, with BOS and EOS if they are such. Throws FormatError,
  // "NAME: ...", if some text has a token beyond the model's.
  void fit(int model_vocabulary, std::string_view name);

  // A pattern in Oniguruma's syntax. Throws FormatError, "NAME: the pattern ...".
  void add_pattern(std::string_view pattern, std::string_view name);
  // Throws FormatError, "NAME: ...", for more than 64.
  void add_step(PreTokenizer step, std::string_view name);
};

}  // namespace SEPPO_ABI
}  // namespace seppo
