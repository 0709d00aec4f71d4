// A file is read twice, in pieces: once to know its characters and their number, once to number them.
#include "charlm/text.h"

#include "app/text_file.h"
#include "app/words.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/data/text.h>

#include <algorithm>
#include <limits>

namespace charlm {

using examples::TextReader;
using seppo::check;
using seppo::FormatError;

namespace {

constexpr std::size_t kCodePoints = 0x110000;
constexpr Token kNone = std::numeric_limits<Token>::max();
constexpr std::size_t kMostCharacters = std::numeric_limits<int>::max();  // examples have int numbers

// Calls f(code point, place of its first byte, its bytes) for each character of a text that is UTF-8.
template <class F>
void for_each_character(std::string_view text, const F& f) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = byte < 0x80 ? 1 : seppo::character_length(text.substr(at));
    const std::string_view character = text.substr(at, length);
    f(byte < 0x80 ? byte : examples::code_point(character), at, character);
    at += length;
  }
}

struct Census {
  std::vector<std::string> characters;  // in the order of their bytes
  std::size_t count = 0;
};

Census take_census(const std::filesystem::path& file) {
  Census census;
  std::vector<bool> is_known(kCodePoints);
  TextReader reader(file);
  for (std::string_view piece; !(piece = reader.next()).empty();) {
    for_each_character(piece, [&](char32_t code, std::size_t, std::string_view character) {
      ++census.count;
      if (is_known[code]) return;
      is_known[code] = true;
      census.characters.emplace_back(character);
    });
    check<FormatError>(census.count <= kMostCharacters, seppo::printable_path(file), ": more than the allowed ",
                       kMostCharacters, " characters");
  }
  check<FormatError>(census.characters.size() <= kNone, seppo::printable_path(file), ": ", census.characters.size(),
                     " different characters are more than the allowed ", kNone);
  std::sort(census.characters.begin(), census.characters.end());
  return census;
}

std::size_t size_of_training(const Census& census, double train_share) {
  return static_cast<std::size_t>(train_share * static_cast<double>(census.count));
}

// The tokens of a vocabulary by code point.
class Numbers {
 public:
  explicit Numbers(const examples::Vocabulary& vocabulary) : size_(vocabulary.size()), tokens_(kCodePoints, kNone) {
    check<FormatError>(size_ <= kNone, "the vocabulary has more than the allowed ", kNone, " characters");
    for (int id = 0; id < vocabulary.size(); ++id)
      tokens_[examples::code_point(vocabulary.token(id))] = static_cast<Token>(id);
  }
  // `where` tells where the character is.
  template <class Where>
  Token of(char32_t code, std::string_view character, const Where& where) const {
    const Token token = tokens_[code];
    if (token == kNone)
      seppo::fail<FormatError>(where(), ": the character '", seppo::printable(character), "' is not among the model's ",
                               size_);
    return token;
  }

 private:
  int size_;
  std::vector<Token> tokens_;
};

// Calls f(token) for the characters from number `first` on.
template <class F>
void for_each_token(const std::filesystem::path& file, const Numbers& numbers, std::size_t first, const F& f) {
  TextReader reader(file);
  std::size_t i = 0;
  for (std::string_view piece; !(piece = reader.next()).empty();)
    for_each_character(piece, [&](char32_t code, std::size_t at, std::string_view character) {
      if (i++ >= first) f(numbers.of(code, character, [&] { return reader.where(at); }));
    });
}

void check_window(std::size_t characters, int window, const char* part, const std::filesystem::path& file) {
  check<FormatError>(characters > static_cast<std::size_t>(window), seppo::printable_path(file),
                     ": characters are too few: ", part, " has ", characters, ", and a window takes ", window + 1);
}

}  // namespace

Corpus read_corpus(const std::filesystem::path& file, double train_share, int window) {
  const Census census = take_census(file);
  const std::size_t cut = size_of_training(census, train_share);
  check_window(cut, window, "training", file);
  check_window(census.count - cut, window, "validation", file);
  Corpus corpus{examples::Vocabulary(census.characters), {}, {}};
  corpus.train.reserve(cut);
  corpus.validation.reserve(census.count - cut);
  for_each_token(file, Numbers(corpus.vocabulary), 0,
                 [&](Token token) { (corpus.train.size() < cut ? corpus.train : corpus.validation).push_back(token); });
  return corpus;
}

std::vector<Token> read_validation(const std::filesystem::path& file, double train_share,
                                   const examples::Vocabulary& vocabulary) {
  const Census census = take_census(file);
  const std::size_t cut = size_of_training(census, train_share);
  check_window(census.count - cut, 1, "validation", file);
  std::vector<Token> tokens;
  tokens.reserve(census.count - cut);
  for_each_token(file, Numbers(vocabulary), cut, [&](Token token) { tokens.push_back(token); });
  return tokens;
}

std::vector<int> encode(const examples::Vocabulary& vocabulary, std::string_view text, const std::string& source) {
  const std::size_t length = examples::utf8_length(text);
  check<FormatError>(length == text.size(), source, ": byte ", length, " of '", seppo::printable(text),
                     "' is not UTF-8");
  const Numbers numbers(vocabulary);
  std::vector<int> ids;
  for_each_character(text, [&](char32_t code, std::size_t, std::string_view character) {
    ids.push_back(numbers.of(code, character, [&] { return source; }));
  });
  return ids;
}

}  // namespace charlm
