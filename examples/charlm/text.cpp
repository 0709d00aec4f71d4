// A file is read once in full, to find its characters and their offsets, and after that only where it is needed. Memory
// holds, for each block of 4096 characters, the offset of its first byte and a digest.
#include "charlm/text.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/autograd/core/utf8.h>
#include <seppo/nn/io/text_file.h>
#include <seppo/nn/run/data_digest.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

namespace charlm {

using seppo::check;
using seppo::FormatError;
using seppo::TextReader;

namespace {

using Token = std::uint16_t;  // a character's id

constexpr std::size_t kCodePoints = 0x110000;
constexpr Token kNone = std::numeric_limits<Token>::max();
constexpr std::size_t kMostCharacters = std::numeric_limits<int>::max();  // examples are numbered by int
constexpr std::size_t kBlock = 4096;                                      // characters

// Calls f(code point, offset of its first byte, its bytes) for each character of a valid UTF-8 text.
template <class F>
void for_each_character(std::string_view text, const F& f) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = byte < 0x80 ? 1 : seppo::character_length(text.substr(at));
    const std::string_view character = text.substr(at, length);
    f(byte < 0x80 ? byte : seppo::code_point(character), at, character);
    at += length;
  }
}

// Half of a digest, which is enough to check one block.
std::uint64_t number_of(const seppo::Digest& digest) {
  const std::string hex = digest.hex();
  std::uint64_t number = 0;
  std::from_chars(hex.data(), hex.data() + 16, number, 16);
  return number;
}

struct Block {
  std::uint64_t begin, digest;  // begin: the offset of its first byte in the file
};

struct Census {
  std::vector<std::string> characters;  // in byte order
  std::size_t count = 0;
  std::vector<Block> blocks;
  std::uint64_t end = 0;  // of the last block
  std::string digest;     // of all bytes
};

// Counts the characters, piece by piece.
class CensusTaker {
 public:
  void add(std::string_view piece) {
    all_.add(piece.data(), piece.size());
    std::size_t begin = 0;  // of the block, in this piece
    for_each_character(piece, [&](char32_t code, std::size_t at, std::string_view character) {
      if (census_.count++ % kBlock == 0) {
        end_block(piece.substr(begin, at - begin));
        census_.blocks.push_back({bytes_ + at, 0});
        begin = at;
      }
      if (is_known_[code]) return;
      is_known_[code] = true;
      census_.characters.emplace_back(character);
    });
    block_->add(piece.data() + begin, piece.size() - begin);
    bytes_ += piece.size();
  }
  std::size_t count() const { return census_.count; }

  // Only a byte order mark may be missing from the bytes that were added.
  Census end(std::uint64_t file_size, const std::string& name) {
    end_block("");
    const std::uint64_t start = file_size - bytes_;
    check<FormatError>(start == 0 || start == 3, name, ": changed while it was read");  // 3: a byte order mark
    for (Block& block : census_.blocks) block.begin += start;
    census_.end = file_size;
    census_.digest = all_.hex();
    std::ranges::sort(census_.characters);
    return std::move(census_);
  }

 private:
  void end_block(std::string_view rest) {
    if (block_) {
      block_->add(rest.data(), rest.size());
      census_.blocks.back().digest = number_of(*block_);
    }
    block_.emplace();
  }

  Census census_;
  std::vector<bool> is_known_ = std::vector<bool>(kCodePoints);
  std::uint64_t bytes_ = 0;
  seppo::Digest all_;
  std::optional<seppo::Digest> block_;  // of the block that has begun
};

Census take_census(const std::filesystem::path& file, std::uint64_t size) {
  const std::string name = seppo::printable_path(file);
  CensusTaker taker;
  TextReader reader(file);
  for (std::string_view piece; !(piece = reader.next()).empty();) {
    taker.add(piece);
    check<FormatError>(taker.count() <= kMostCharacters, name, ": more than the allowed ", kMostCharacters,
                       " characters");
  }
  Census census = taker.end(size, name);
  check<FormatError>(census.characters.size() <= kNone, name, ": ", census.characters.size(),
                     " different characters are more than the allowed ", kNone);
  return census;
}

std::size_t size_of_training(const Census& census, double train_share) {
  return static_cast<std::size_t>(train_share * static_cast<double>(census.count));
}

// The ids of a vocabulary's characters, in a table of the code points up to the largest.
class Numbers {
 public:
  explicit Numbers(const seppo::Vocabulary& vocabulary) : size_(vocabulary.size()) {
    check<FormatError>(size_ <= kNone, "the vocabulary has more than the allowed ", kNone, " characters");
    for (int id = 0; id < vocabulary.size(); ++id) {
      const char32_t code = seppo::code_point(vocabulary.token(id));
      if (code >= tokens_.size()) tokens_.resize(code + 1, kNone);
      tokens_[code] = static_cast<Token>(id);
    }
  }
  bool has(std::string_view character) const {
    const char32_t code = seppo::code_point(character);
    return code < tokens_.size() && tokens_[code] != kNone;
  }
  // where() returns the character's position, for the error message.
  template <class Where>
  Token of(char32_t code, std::string_view character, const Where& where) const {
    const Token token = code < tokens_.size() ? tokens_[code] : kNone;
    if (token == kNone)
      seppo::fail<FormatError>(where(), ": the character '", seppo::printable(character), "' is not among the model's ",
                               size_);
    return token;
  }

 private:
  int size_;
  std::vector<Token> tokens_;
};

// Throws for the first character at or after index `first` that is not in the vocabulary.
void check_all_known(const std::filesystem::path& file, const Numbers& numbers, std::size_t first) {
  TextReader reader(file);
  std::size_t i = 0;
  for (std::string_view piece; !(piece = reader.next()).empty();)
    for_each_character(piece, [&](char32_t code, std::size_t at, std::string_view character) {
      if (i++ >= first) numbers.of(code, character, [&] { return reader.where(at); });
    });
}

void check_window(std::size_t characters, int window, const char* part, const std::filesystem::path& file) {
  check<FormatError>(characters > static_cast<std::size_t>(window), seppo::printable_path(file),
                     ": characters are too few: ", part, " has ", characters, ", and a window takes ", window + 1);
}

}  // namespace

class TextFile {
 public:
  TextFile(const std::filesystem::path& path)
      : name_(seppo::printable_path(path)), file_(path, seppo::File::Open::reading) {
    census = take_census(path, file_.size());
  }

  // The bytes of a block of 4096 characters, compared with its digest.
  std::string block(std::size_t index) const {
    const Block& block = census.blocks[index];
    const std::uint64_t end = index + 1 < census.blocks.size() ? census.blocks[index + 1].begin : census.end;
    std::string bytes(static_cast<std::size_t>(end - block.begin), '\0');
    seppo::Digest digest;
    if (is_read(block.begin, bytes)) digest.add(bytes.data(), bytes.size());
    check<FormatError>(number_of(digest) == block.digest, name_, ": bytes ", block.begin, " to ", end,
                       " have changed since the text was first read");
    return bytes;
  }

  Census census;
  std::optional<Numbers> numbers;  // includes every character of the parts that are used

 private:
  // False if the file ends before, which it may do since a moment ago.
  bool is_read(std::uint64_t begin, std::string& bytes) const {
    try {
      file_.read_at(begin, bytes.data(), bytes.size());
      return true;
    } catch (const FormatError&) {
      return false;
    }
  }

  std::string name_;
  seppo::File file_;
};

std::vector<int> Text::read(std::size_t first, std::size_t count) const {
  std::vector<int> ids;
  ids.reserve(count);
  for (std::size_t at = begin_ + first; ids.size() < count;) {
    const std::string block = file_->block(at / kBlock);
    std::size_t i = at / kBlock * kBlock;
    for_each_character(block, [&](char32_t code, std::size_t, std::string_view character) {
      if (i++ >= at && ids.size() < count) ids.push_back(file_->numbers->of(code, character, [] { return "text"; }));
    });
    at = i;
  }
  return ids;
}

Corpus read_corpus(const std::filesystem::path& path, double train_share, int window) {
  const auto file = std::make_shared<TextFile>(path);
  const Census& census = file->census;
  const std::size_t cut = size_of_training(census, train_share), rest = census.count - cut;
  check_window(cut, window, "training", path);
  check_window(rest, window, "validation", path);
  const seppo::Vocabulary vocabulary(census.characters);
  file->numbers.emplace(vocabulary);
  return {vocabulary,
          {file, 0, cut},
          {file, cut, rest},
          seppo::digest_of(std::vector{cut, rest}, std::vector{census.digest})};
}

Text read_validation(const std::filesystem::path& path, double train_share, const seppo::Vocabulary& vocabulary) {
  const auto file = std::make_shared<TextFile>(path);
  const Census& census = file->census;
  const std::size_t cut = size_of_training(census, train_share), rest = census.count - cut;
  check_window(rest, 1, "validation", path);
  const Numbers& numbers = file->numbers.emplace(vocabulary);
  if (!std::ranges::all_of(census.characters, [&](const std::string& c) { return numbers.has(c); }))
    check_all_known(path, numbers, cut);  // the unknown characters may be in the other part
  return {file, cut, rest};
}

std::vector<int> encode(const seppo::Vocabulary& vocabulary, std::string_view text, const std::string& source) {
  const std::size_t length = seppo::utf8_length(text);
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
