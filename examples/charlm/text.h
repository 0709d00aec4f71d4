// Text as character ids, read from its file on demand, and its parts for training and validation.
#pragma once

#include <seppo/nn/text/vocabulary.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace charlm {

class TextFile;

// A part of a text. The file must not change: whatever is read from it is compared with its original digest.
class Text {
 public:
  Text(std::shared_ptr<const TextFile> file, std::size_t begin, std::size_t size)
      : file_(std::move(file)), begin_(begin), size_(size) {}

  std::size_t size() const { return size_; }  // characters
  // The ids of the characters first .. first + count - 1. Throws seppo::FormatError if they have changed,
  // seppo::FileError if they cannot be read. Several threads may read.
  std::vector<int> read(std::size_t first, std::size_t count) const;

 private:
  std::shared_ptr<const TextFile> file_;
  std::size_t begin_, size_;
};

struct Corpus {
  seppo::Vocabulary vocabulary;  // in byte order
  Text train, validation;
  std::string digest;  // of the text and its parts
};
// The first `train_share` of the file's characters are for training. Throws seppo::FileError, or seppo::FormatError if
// it is not UTF-8 text, if a part has no more characters than `window`, or for more than 65,535 different characters.
Corpus read_corpus(const std::filesystem::path& file, double train_share, int window);

// The part for validation, in the ids of a model's vocabulary. Throws the same, for a window of 1, and
// seppo::FormatError if the part has a character that the vocabulary lacks.
Text read_validation(const std::filesystem::path& file, double train_share, const seppo::Vocabulary& vocabulary);

// The ids of a text's characters. Throws seppo::FormatError naming `source` if it is not UTF-8 or has a character that
// the vocabulary lacks.
std::vector<int> encode(const seppo::Vocabulary& vocabulary, std::string_view text, const std::string& source);

}  // namespace charlm
