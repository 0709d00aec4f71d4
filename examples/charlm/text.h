// Text as characters with numbers, and its parts for training and validation.
#pragma once

#include <seppo/nn/data/vocabulary.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace charlm {

// The characters (UTF-8 code points) of a text. Throws seppo::FormatError naming `source` and the byte where
// it is not UTF-8.
std::vector<std::string_view> characters(std::string_view text, const std::string& source);

struct Corpus {
  seppo::Vocabulary vocabulary;  // in the order of their bytes
  std::vector<int> train, validation;
};
// The first `train_share` of the file's characters are for training. Throws seppo::FileError, or
// seppo::FormatError if a part has no more characters than `window`.
Corpus read_corpus(const std::filesystem::path& file, double train_share, int window);

// The numbers of a text's characters. Throws seppo::FormatError for one that the vocabulary lacks.
std::vector<int> encode(const seppo::Vocabulary& vocabulary, std::string_view text, const std::string& source);

}  // namespace charlm
