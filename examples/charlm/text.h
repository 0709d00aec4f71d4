// Text as characters with numbers, and its parts for training and validation.
#pragma once


#include "app/vocabulary.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace charlm {

// The number of a character (a UTF-8 code point), in two bytes: large texts are held in memory as tokens.
using Token = std::uint16_t;

struct Corpus {
  examples::Vocabulary vocabulary;  // in the order of their bytes
  std::vector<Token> train, validation;
};
// The first `train_share` of the file's characters are for training. Throws seppo::FileError, or seppo::FormatError if
// it is not text, if a part has no more characters than `window`, or for more than 65,535 different characters.
Corpus read_corpus(const std::filesystem::path& file, double train_share, int window);

// The part for validation, in the numbers of a model's vocabulary. Throws the same, and seppo::FormatError where it has
// a character that the vocabulary lacks.
std::vector<Token> read_validation(const std::filesystem::path& file, double train_share,
                                   const examples::Vocabulary& vocabulary);

// The numbers of a text's characters. Throws seppo::FormatError naming `source` where it is not UTF-8, and for a
// character that the vocabulary lacks.
std::vector<int> encode(const examples::Vocabulary& vocabulary, std::string_view text, const std::string& source);

}  // namespace charlm
