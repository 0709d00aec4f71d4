// Texts as tokens, and tokens as ids.
#pragma once

#include "translate/subwords.h"

#include <seppo/nn/config.h>
#include <seppo/nn/text/vocabulary.h>

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace translate {

using Words = std::vector<std::string>;

Words words_of(std::string_view text);       // separated by spaces
Words characters_of(std::string_view text);  // a byte that is not UTF-8 is one, too

// How a text is split into tokens.
struct Tokenizer {
  enum class Kind { words, characters, subwords };
  friend std::span<const char* const> enum_names(Kind) {
    static constexpr const char* kNames[] = {"words", "characters", "subwords"};
    return kNames;
  }

  Kind kind = Kind::words;
  bool normalises = false;
  Subwords subwords = {};  // for their kind

  void fields(seppo::ConfigVisitor& v) {
    v("tokens", kind, "what a token is; subwords are learned from the training texts of both languages");
    v("normalise", normalises, "make letters lower-case and put blanks before , . ! ?");
  }
  bool has_subwords() const { return kind == Kind::subwords; }
  std::string prepare(std::string_view text) const;  // normalised (d2l.h), if the tokenizer normalises
  // Of words or characters.
  Words split(std::string_view text) const;
  std::string join(std::span<const std::string> tokens) const;
};

// The first entries of each vocabulary: unknown token, start of text, end of text.
enum Special { kUnknown = 0, kBos, kEos, kSpecials };

// The special tokens, then the tokens that occur at least `min_frequency` times and have no control characters but
// tabs: the most frequent first, equally frequent ones in byte order.
seppo::Vocabulary make_vocabulary(std::span<const Words> texts, int min_frequency);
// The special tokens, then all subwords.
seppo::Vocabulary make_vocabulary(const Subwords& subwords);

// The tokenizer and vocabularies of the two languages: enough to turn texts into token ids and back.
struct Languages {
  Tokenizer tokenizer = {};
  seppo::Vocabulary source = {}, target = {};

  // The text's tokens and kEos.
  std::vector<int> encode(const seppo::Vocabulary& vocabulary, std::string_view text) const;
  // The text of these ids up to kEos.
  std::string decode(std::span<const int> ids) const;

  nlohmann::json to_json() const;
  // The inverse of to_json(). Throws FormatError.
  static Languages from_json(const nlohmann::json& config);
};

}  // namespace translate
