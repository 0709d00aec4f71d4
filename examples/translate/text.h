// Parallel text: reading it, tokenizing it, and mapping tokens to ids.
#pragma once

#include "translate/subwords.h"

#include <seppo/nn/text/vocabulary.h>

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace translate {

using Words = std::vector<std::string>;

struct Pair {
  std::string source, target;
};

// Two files whose lines correspond. Throws FileError, or FormatError if they have different numbers of lines.
std::vector<Pair> read_lines(const std::filesystem::path& source, const std::filesystem::path& target);
// One file of lines "source TAB target"; what follows another tab is ignored. Throws FileError or FormatError.
std::vector<Pair> read_tab_separated(const std::filesystem::path& path);

// How a text is split into tokens.
class Tokenizer {
 public:
  enum class Kind { words, characters, subwords };  // words are separated by spaces
  friend std::span<const char* const> enum_names(Kind) {
    static constexpr const char* kNames[] = {"words", "characters", "subwords"};
    return kNames;
  }

  explicit Tokenizer(Kind kind = Kind::words, bool normalises = false) : kind_(kind), normalises_(normalises) {}
  // With a SentencePiece model.
  Tokenizer(std::shared_ptr<const Subwords> subwords, bool normalises)
      : kind_(Kind::subwords), normalises_(normalises), subwords_(std::move(subwords)) {}

  std::string prepare(std::string_view text) const;  // normalised, if the tokenizer normalises
  std::vector<std::string> split(std::string_view text) const;
  std::string join(std::span<const std::string> tokens) const;

  Kind kind() const { return kind_; }
  bool normalises() const { return normalises_; }
  const Subwords* subwords() const { return subwords_.get(); }

 private:
  Kind kind_;
  bool normalises_;
  std::shared_ptr<const Subwords> subwords_;
};

// The first entries of each vocabulary: unknown token, start of text, end of text.
enum Special { kUnknown = 0, kBos, kEos, kSpecials };

// The special tokens, then the tokens that occur at least `min_frequency` times and have no control characters but
// tabs: the most frequent first, equally frequent ones in byte order.
seppo::Vocabulary make_vocabulary(std::span<const std::vector<std::string>> texts, int min_frequency);

// The tokenizer and vocabularies of the two languages: enough to turn texts into token ids and back.
struct Languages {
  Tokenizer tokenizer;
  seppo::Vocabulary source, target;

  // The text's tokens and kEos.
  std::vector<int> encode(const seppo::Vocabulary& vocabulary, std::string_view text) const;
  // The text of these ids up to kEos.
  std::string decode(std::span<const int> ids) const;

  nlohmann::json to_json() const;
  // The inverse of to_json(). Throws FormatError.
  static Languages from_json(const nlohmann::json& config);
};

std::vector<std::string> words_of(std::string_view text);  // separated by spaces

}  // namespace translate
