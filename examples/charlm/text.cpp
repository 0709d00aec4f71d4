// Cutting a text into characters, and a corpus into training and validation.
#include "charlm/text.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/data/text.h>

#include <fstream>
#include <iterator>
#include <set>

namespace charlm {
std::vector<std::string_view> characters(std::string_view text, const std::string& source) {
  std::vector<std::string_view> result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = seppo::character_length(text.substr(at));
    seppo::check<seppo::FormatError>(length > 0, source, ": byte ", at, " is not UTF-8 text");
    result.push_back(text.substr(at, length));
    at += length;
  }
  return result;
}

std::vector<int> encode(const seppo::Vocabulary& vocabulary, std::string_view text, const std::string& source) {
  std::vector<int> ids;
  for (const std::string_view character : characters(text, source)) {
    seppo::check<seppo::FormatError>(vocabulary.contains(character), source, ": the character '",
                                     seppo::printable(character), "' is not among the model's ", vocabulary.size());
    ids.push_back(vocabulary.id(character));
  }
  return ids;
}

Corpus read_corpus(const std::filesystem::path& path, double train_share, int window) {
  const std::string name = seppo::printable(path.string(), 120);
  std::ifstream file(path, std::ios::binary);
  seppo::check<seppo::FileError>(file.good(), name, ": cannot be opened");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::vector<std::string_view> all = characters(text, name);
  const std::set<std::string_view> distinct(all.begin(), all.end());
  Corpus corpus;
  corpus.vocabulary = seppo::Vocabulary(std::vector<std::string>(distinct.begin(), distinct.end()));
  const auto cut = static_cast<std::size_t>(train_share * static_cast<double>(all.size()));
  for (std::size_t i = 0; i < all.size(); ++i)
    (i < cut ? corpus.train : corpus.validation).push_back(corpus.vocabulary.id(all[i]));
  for (const auto* part : {&corpus.train, &corpus.validation})
    seppo::check<seppo::FormatError>(part->size() > static_cast<std::size_t>(window), name, ": ", all.size(),
                                     " characters are too few: ", part == &corpus.train ? "training" : "validation",
                                     " has ", part->size(), ", and a window takes ", window + 1);
  return corpus;
}

}  // namespace charlm
